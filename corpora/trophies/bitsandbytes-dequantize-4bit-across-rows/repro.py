import sys

import bitsandbytes.functional as bnb
import torch

x = torch.tensor([[1.0] * 32, [1.0] * 32, [10.0] * 32, [10.0] * 32])  # of 64 elements each, two blocks
codes, state = bnb.quantize_4bit(x, blocksize=64, quant_type="nf4")
y = bnb.dequantize_4bit(codes, state)
print("scales of the blocks:", state.absmax.tolist())
print("first elements of the rows:", y[:, 0].tolist(), "right", x[:, 0].tolist())
sys.exit(not torch.equal(y, x))
