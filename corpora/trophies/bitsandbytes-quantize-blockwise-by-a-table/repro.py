import sys

import bitsandbytes.functional as bnb
import torch

x = torch.tensor([1.0, 0.0, 1e-6, -1e-6, 3.25e-6, 0.9785])
code = bnb.create_dynamic_map()
right = code[(x[:, None] - code).abs().argmin(1)]
got = bnb.dequantize_blockwise(*bnb.quantize_blockwise(x))
for each, own, its in zip(x.tolist(), got.tolist(), right.tolist(), strict=True):
    print(f"{each:g} becomes {own:.3g}, the nearest of the 256 values is {its:.3g}")
sys.exit(not torch.equal(got, right))
