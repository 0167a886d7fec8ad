import sys

import numpy as np
from scipy import ndimage

x = np.broadcast_to(1.0, (3, 3))
sums = [ndimage.correlate(each, np.ones((3, 3)), mode="constant") for each in (x, x.copy())]
medians = [ndimage.median_filter(each, 3, mode="nearest") for each in (x, x.copy())]
for name, (got, right) in {"sums": sums, "medians": medians}.items():
    print(name, "got  ", got.tolist())
    print(name, "right", right.tolist())
sys.exit(not np.array_equal(*sums) or not np.array_equal(*medians))
