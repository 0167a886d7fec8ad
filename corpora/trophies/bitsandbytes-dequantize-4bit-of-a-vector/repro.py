import sys

import bitsandbytes.functional as bnb
import torch

x = torch.ones(64)
y = bnb.dequantize_4bit(*bnb.quantize_4bit(x, quant_type="nf4"))
print(f"a vector of the shape {[*x.shape]} comes back with the shape {[*y.shape]}")
sys.exit(y.shape != x.shape)
