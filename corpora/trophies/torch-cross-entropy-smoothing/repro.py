import sys

import torch
from torch.nn.functional import cross_entropy

x, label = torch.tensor([[3e38, 1e38, 1e38]]), torch.tensor([0])
mixture = torch.tensor([[0.6 + 0.4 / 3, 0.4 / 3, 0.4 / 3]])
got = cross_entropy(x, label, label_smoothing=0.4)
print("got  ", got.item())
print("and of the same targets as probabilities", cross_entropy(x, mixture).item())
print("right", cross_entropy(x.double(), label, label_smoothing=0.4).item())
sys.exit(not got.isfinite())
