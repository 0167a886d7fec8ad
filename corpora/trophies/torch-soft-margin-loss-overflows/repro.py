import sys

import torch
from torch.nn.functional import soft_margin_loss, softplus

wrong = False
for dtype, value in (torch.float32, -100), (torch.float16, -12):
    x = torch.tensor([value], dtype=dtype)
    got, right = soft_margin_loss(x, torch.ones_like(x)).item(), soft_margin_loss(x.double(), torch.ones(1)).item()
    wrong |= not abs(got - right) < 0.1
    print(dtype, f"got {got}, right {right}, softplus of the same {softplus(-x).item()}")
sys.exit(wrong)
