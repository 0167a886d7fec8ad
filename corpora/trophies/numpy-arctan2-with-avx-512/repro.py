import sys

import numpy as np

y, x = np.array([0.22464518], "f4"), np.array([0.4269465], "f4")
got, right = np.arctan2(y, x), np.arctan2(y.astype("f8"), x.astype("f8"))
off = abs(got - right) / np.spacing(right.astype("f4"))
print(f"got   {got[0]:.9f}, off by {off[0]:.2f} units in the last place\nright {right[0]:.9f}")
sys.exit(not off[0] < 1)
