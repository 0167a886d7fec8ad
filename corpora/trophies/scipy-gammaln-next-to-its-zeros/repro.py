import math
import sys

import numpy as np
from scipy import special

t = np.array([-(2.0**-20), 2.0**-20, -(2.0**-26), 2.0**-26])
gamma, zeta_3 = 0.5772156649015329, 1.2020569031595942
right = -gamma * t + math.pi**2 / 12 * t**2 - zeta_3 / 3 * t**3  # Taylor's series at 1: the next term is below 1e-24
got = special.gammaln(1 + t)
print("got  ", got.tolist())
print("right", right.tolist())
print("off by", np.abs(got / right - 1).tolist())
sys.exit(not np.allclose(got, right, rtol=1e-13, atol=0))
