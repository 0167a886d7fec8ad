import sys

import torch

wrong, a, b = False, torch.tensor([[-102]], dtype=torch.bfloat16), torch.tensor([[1024]], dtype=torch.bfloat16)
for name, function, *inputs in (
    ("add", torch.add, a, b),
    ("sub", torch.sub, -a, b),
    ("rsub", torch.rsub, b, -a),
    ("addmv", torch.addmv, a[0], b, b[0] / 1024),
    ("addr", torch.addr, a, b[0], b[0] / 1024),
    ("addmm", torch.addmm, a, b, b / 1024),
):
    got, right = (function(*some, alpha=0.1).item() for some in (inputs, [x.double() for x in inputs]))
    wrong |= abs(got - right) > 0.02 * abs(right)
    print(f"{name} with alpha=0.1: got {got}, right {right:.4f}")
sys.exit(wrong)
