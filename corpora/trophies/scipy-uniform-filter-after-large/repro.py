import sys

import numpy as np
from scipy import ndimage

x = np.array([1, 1e20, 1, 1, 1, 1])
got, right = ndimage.uniform_filter1d(x, 3)[1:-1], np.lib.stride_tricks.sliding_window_view(x, 3).mean(-1)
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not np.allclose(got, right))
