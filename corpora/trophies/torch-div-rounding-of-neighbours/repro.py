import sys

import torch

wrong = False
for mode, a, b in ("trunc", 18, 1.0625), ("floor", 16.375, 0.1875):
    x, y = torch.full((64,), a, dtype=torch.bfloat16), torch.full((64,), b, dtype=torch.bfloat16)
    among, alone = torch.div(x, y, rounding_mode=mode)[0], torch.div(x[:1], y[:1], rounding_mode=mode)[0]
    wrong |= (among != alone).item()
    right = torch.div(x.double(), y.double(), rounding_mode=mode)[0].item()
    print(f"{mode} of {a} / {b}: got {among.item()} among 64, {alone.item()} alone, right {right}")
sys.exit(wrong)
