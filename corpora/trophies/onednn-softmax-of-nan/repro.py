import sys

import torch

x = torch.tensor([[float("nan"), 1.0, 2.0], [float("inf"), 1.0, 2.0]])
got, right = x.to_mkldnn().softmax(-1).to_dense(), x.softmax(-1)
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not torch.equal(got.isnan(), right.isnan()))
