import sys

import numpy as np
from scipy.special import hyp0f1

v, z = 934.6638459253305, 0.0014153713077409062
got, right = hyp0f1(v, z), 1 + z / v * (1 + z / (2 * (v + 1)))  # what follows is below 1e-18
off = abs(got - right) / np.spacing(right)
print("got  ", repr(float(got)), "off by", round(off), "units in the last place")
print("right", repr(float(right)))
sys.exit(int(off > 100))
