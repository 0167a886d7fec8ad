import math
import sys

import torch

x = torch.tensor([-4.0393619537, -2.4570247, 4.03734e36])
got, right = torch.lgamma(x).tolist(), [math.lgamma(each) for each in x.tolist()]
for value, one, other in zip(x.tolist(), got, right, strict=True):
    print(f"lgamma({value:.8g}): got {one:.8g}, right {other:.8g}")
sys.exit(not all(math.isclose(one, other, rel_tol=1e-6) for one, other in zip(got, right, strict=True)))
