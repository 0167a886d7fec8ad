import sys

import numpy as np
import pandas as pd

x = pd.Series([1.1, 2.2, 3.3, 4.4], dtype="float32")
keys = {"sorted keys": [0, 0, 1, 1], "other keys": [0, 1, 0, 1]}
found = {name: x.groupby(np.array(each)).mean().dtype for name, each in keys.items()}
for name, dtype in found.items():
    print(f"mean of float32 by {name}: {dtype}")
sys.exit(len({*found.values()}) > 1)
