import sys

import bitsandbytes.functional as bnb
import torch

sums = torch.tensor([[127 * 127]], dtype=torch.int32)  # of the greatest numbers of int8
scale = torch.ones(1)
got = torch.ops.bitsandbytes.int8_mm_dequant(sums, scale, scale, torch.float32, None).item()
print(f"127 x 127 with scales of 1: {got:.8f}, right 1")
by_rows = bnb.int8_vectorwise_dequant(torch.tensor([[127]], dtype=torch.int8), scale).item()
print(f"127 with a scale of 1: {by_rows:.8f}")
sys.exit(abs(got - 1) > 1e-6)
