import sys

import bitsandbytes.functional as bnb
import torch

torch.ones(64, dtype=torch.int32)  # memory that a result may get, and that is not its own
found = {}
for k in (1, 2):
    a, b = torch.full((1, k), 3, dtype=torch.int8), torch.ones(16, k, dtype=torch.int8)
    found[k] = bool((bnb.int8_linear_matmul(a, b) == 3 * k).all())
    print(f"products of {k} {'columns' if k > 1 else 'column'} are {'right' if found[k] else 'wrong'}")
sys.exit(not found[1])
