import sys

import torch
from torch.nn.functional import adaptive_avg_pool3d, interpolate

one, place, wrong = torch.ones(4096, dtype=torch.bfloat16), torch.zeros(300, dtype=torch.int64), False
for name, function, *inputs in (
    ("addbmm", torch.addbmm, 0 * one[:1, None], one[:300, None, None], one[:300, None, None]),
    ("adaptive_avg_pool3d", lambda x: adaptive_avg_pool3d(x, 2), one.reshape(1, 1, 16, 16, 16)),
    ("interpolate of mode area", lambda x: interpolate(x, 2, mode="area"), one.reshape(1, 1, 16, 16, 16)),
    ("segment_reduce", lambda x: torch.segment_reduce(x, "sum", lengths=place[:1] + 4096), one),
    ("index_reduce, prod", lambda x: torch.index_reduce(x[:1], 0, place, x, "prod"), 1.0078125 * one[:300]),
    ("index_reduce, mean", lambda x: torch.index_reduce(x[:1], 0, place, x, "mean"), 1.0078125 * one[:300]),
):
    got, right = (function(*some).flatten()[0].item() for some in (inputs, [x.double() for x in inputs]))
    wrong |= abs(got - right) > 0.02 * abs(right)
    print(f"{name}: got {got}, right {right}")
sys.exit(wrong)
