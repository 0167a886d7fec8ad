import sys

import torch

wrong, f32, f16 = False, torch.float32, torch.float16
for dtype, x, exponent in (f32, 2.0**-10, 130), (f32, 2.0**100, -160), (f16, 2.0**-10, 16):
    inputs = torch.tensor(x, dtype=dtype), torch.tensor(exponent, dtype=dtype)
    got, right = torch.ldexp(*inputs).item(), torch.ldexp(*(each.double() for each in inputs)).item()
    wrong |= got != right
    print(f"{dtype}, {x} times 2^{exponent}: got {got}, right {right}")
sys.exit(wrong)
