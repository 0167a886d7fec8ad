import os
import sys

import torch

os.environ["TRITON_INTERPRET"] = "1"  # which needs numpy; fla needs einops
from fla.modules.activations import logsigmoid

kernel = sys.modules[logsigmoid.__module__].logsigmoid_fwd_kernel
kernel.configs = kernel.configs[:1]  # more than one would be timed, on a GPU
x = torch.tensor([4.0, 17.0])
got, right = logsigmoid(x), torch.nn.functional.logsigmoid(x)
off = (got - right).abs() / torch.ldexp(torch.ones(2), torch.frexp(right)[1] - 24)
print("got  ", got.tolist(), "off by", off.round().tolist(), "units in the last place")
print("right", right.tolist())
sys.exit(int((off > 10).any()))
