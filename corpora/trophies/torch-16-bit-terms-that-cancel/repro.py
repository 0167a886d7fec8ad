import sys

import torch
from torch.nn.functional import bilinear, binary_cross_entropy_with_logits

wrong = False
for name, function, *values in (
    ("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits, [-5], [0]),
    ("logit", torch.logit, [0.498046875]),
    ("linalg.cross", lambda a, b: torch.linalg.cross(a, b)[2], [1.0078125, 1.0234375, 0], [1.03125, 1.0390625, 0]),
    ("bilinear", bilinear, [[1.015625]], [[1.0390625, -1.03125]], [[[1.0234375, 1.03125]]]),
):
    inputs = [torch.tensor(each, dtype=torch.bfloat16) for each in values]
    got, right = (function(*some).item() for some in (inputs, [x.double() for x in inputs]))
    wrong |= abs(got - right) > 0.02 * abs(right)
    print(f"{name}: got {got}, right {right}")
sys.exit(wrong)
