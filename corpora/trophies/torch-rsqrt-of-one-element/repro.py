import sys

import torch

wrong = False
for function, value in (torch.rsqrt, 0.98046875), (torch.special.i0e, 2.375):
    x = torch.full((64,), value, dtype=torch.bfloat16)
    alone, among, right = function(x[:1])[0], function(x)[0], function(x[:1].double())[0]
    wrong |= alone.item() != right.to(alone.dtype).item()
    print(f"{function.__name__}: got {alone.item()} alone, {among.item()} among 64, right {right.item():.7f}")
sys.exit(wrong)
