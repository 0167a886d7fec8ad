import sys

import torch

wrong = False
for dtype in torch.bfloat16, torch.float16:
    x = torch.tensor([0, -6], dtype=dtype)
    got, right = x.log_softmax(0)[0].item(), x.double().log_softmax(0)[0].item()
    wrong |= abs(got - right) > 0.02 * abs(right)
    print(dtype, f"got {got:.6f}, right {right:.6f}, calculated in f32 {x.float().log_softmax(0)[0].item():.6f}")
sys.exit(wrong)
