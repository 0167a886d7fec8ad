import math
import sys

import torch

wrong = False
for dtype, x, y in (torch.float32, 2.0**100, 3 * 2.0**-30), (torch.float64, 2.0**1000, 3 * 2.0**-30):
    for count in 1, 64:
        got = torch.fmod(torch.full((count,), x, dtype=dtype), torch.full((count,), y, dtype=dtype))[0].item()
        wrong |= got != math.fmod(x, y)
        print(f"{dtype}, fmod({x}, {y}), of {count}: got {got}, right {math.fmod(x, y)}")
sys.exit(wrong)
