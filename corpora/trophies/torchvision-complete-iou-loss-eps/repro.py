import sys

import torch
from torchvision import ops

a, b = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([[0.5, 0.0, 1.5, 1.0]])
eps = 1.0
both, union, apart, diagonal = 0.5, 1.5, 0.25, 3.25  # the aspect is the same
right = 1 - both / (union + eps) + apart / (diagonal + eps)
got = {loss.__name__: loss(a, b, eps=eps).item() for loss in (ops.distance_box_iou_loss, ops.complete_box_iou_loss)}
for name, value in got.items():
    print(f"{name} with eps = 1: {value:.6f}, right {right:.6f}")
sys.exit(any(abs(value - right) > 1e-6 for value in got.values()))
