import sys

import torch

x = torch.full((1, 7), 2e19)
got = torch.nn.functional.layer_norm(x, (7,))
print("got  ", got[0].tolist())
print("right", [0.0] * 7)
sys.exit(not torch.equal(got, torch.zeros(1, 7)))
