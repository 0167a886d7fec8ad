import sys

import torch
from torchvision import ops

x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], requires_grad=True)
box = torch.tensor([[0.0, 0.0, 0.0, 2.0, 2.0]])  # the whole image
y = ops.ps_roi_pool(x, box, 1)
y.sum().backward()
print(f"mean of the image: {y.item()}, right {x.mean().item()}")
print("gradient:", x.grad.flatten().tolist())
one = ops.ps_roi_pool(torch.ones(1, 1, 1, 1), torch.tensor([[0.0, 0.0, 0.0, 1.0, 1.0]]), 1)
print(f"mean of an image of a single 1: {one.item()}")
sys.exit(y.item() != x.mean().item())
