import sys

import bottleneck
import numpy as np

x = np.array([1, 1e10, 1, 2, 3, 4, 5, 6])
got, right = bottleneck.move_var(x, 3)[2:], np.lib.stride_tricks.sliding_window_view(x, 3).var(-1)
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not np.allclose(got, right))
