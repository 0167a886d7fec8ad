import sys

import bitsandbytes as bnb
import torch

m, b, wrong = {"momentum": 0.9}, {"betas": (0.9, 0.5)}, False
sgd = ("SGD", m, {"nesterov": True}), ("SGD", m, {"dampening": 0.5})
for name, given, more in (*sgd, ("Adam", b, {"amsgrad": True}), ("RMSprop", {}, m)):
    after = []
    for library, options in ((bnb.optim, given), (bnb.optim, given | more), (torch.optim, given | more)):
        p = torch.nn.Parameter(torch.tensor([1.0]))
        steps = getattr(library, name)([p], lr=0.1, **options)
        for g in (1.0, -1.0, 0.01):
            p.grad = torch.tensor([g])
            steps.step()
        after.append(f"{p.item():.4f}")
    wrong |= after[1] != after[2]
    print(f"{name} without {', '.join(more)}: {after[0]}, with: {after[1]}, in torch: {after[2]}")
sys.exit(wrong)
