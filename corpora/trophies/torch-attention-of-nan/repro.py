import sys

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

q = torch.full((1, 1, 1, 16), float("nan"))
few, many = torch.ones(1, 1, 4, 16), torch.ones(1, 1, 64, 16)
got = attention(q, few, few)
print("got  ", got[0, 0, 0, 0].item(), "of 4 keys,", attention(q, many, many)[0, 0, 0, 0].item(), "of 64 keys")
print("right", (torch.softmax(q @ few.mT / 4, -1) @ few)[0, 0, 0, 0].item())
sys.exit(not got.isnan().all())
