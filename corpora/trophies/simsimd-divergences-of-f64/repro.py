import sys

import numpy as np
import simsimd

wrong = False
for dtype in (np.float32, np.float64):
    x, y = np.array([0.5, 0.5], dtype), np.array([0.25, 0.75], dtype)
    m = (x + y) / 2
    divergence, to_mean, from_mean = ((a * np.log(a / b)).sum() for a, b in ((x, y), (x, m), (y, m)))
    right = float(divergence), float(np.sqrt((to_mean + from_mean) / 2))
    got = float(simsimd.kullbackleibler(x, y)), float(simsimd.jensenshannon(x, y))
    for name, own, its in zip(("Kullback-Leibler", "Jensen-Shannon"), got, right, strict=True):
        print(f"{name} of {x.dtype}: {own:.6f}, right {its:.6f}")
    wrong |= not np.allclose(got, right, rtol=0.01)
sys.exit(wrong)
