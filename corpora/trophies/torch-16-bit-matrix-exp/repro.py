import sys

import torch

wrong = False
for dtype in torch.bfloat16, torch.float16:
    x = torch.eye(2, dtype=dtype) / 2
    got, right = torch.linalg.matrix_exp(x)[0, 0].item(), torch.linalg.matrix_exp(x.double())[0, 0].item()
    wrong |= not abs(got - right) < 0.1
    print(dtype, "got  ", got, "right", right)
sys.exit(wrong)
