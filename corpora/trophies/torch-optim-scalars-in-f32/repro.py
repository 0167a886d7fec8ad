import sys

import torch

torch.set_num_threads(1)
found = {}
for kind in (torch.optim.NAdam, torch.optim.ASGD, torch.optim.Adam):
    for default in (torch.float32, torch.float64):
        torch.set_default_dtype(default)
        p = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        steps = kind([p], lr=0.1)
        for g in (0.5, -0.25, 1.0):
            p.grad = torch.full((1,), g, dtype=torch.float64)
            steps.step()
        found[kind.__name__, str(default)] = p.item()
        print(f"float64 parameter after {kind.__name__}, default dtype {default}: {p.item()!r}")
sys.exit(found["NAdam", "torch.float32"] != found["NAdam", "torch.float64"])
