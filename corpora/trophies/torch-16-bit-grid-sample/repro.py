import sys

import torch
from torch.nn.functional import grid_sample

row = torch.arange(256, dtype=torch.bfloat16).reshape(1, 1, 1, 256)
place = torch.tensor([[[[0.7, 0]]]], dtype=torch.bfloat16)
got, right = (grid_sample(*some, align_corners=False).item() for some in ((row, place), (row.double(), place.double())))
print(f"got {got} of the row 0, 1, 2 ... 255, right {right}")
sys.exit(abs(got - right) > 0.5)
