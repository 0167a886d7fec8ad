import sys

import mlx.core as mx
import mlx.nn
import numpy as np

got = mx.exp(mx.array([88.0, 88.01, 88.7]))
print("exp   got  ", got.tolist())
print("      right", np.exp(np.float32([88.0, 88.01, 88.7])).tolist())
print("silu  got  ", mlx.nn.silu(mx.array([-88.0, -88.5])).tolist())
print("      right", (np.float64([-88.0, -88.5]) / (1 + np.exp([88.0, 88.5]))).astype("f4").tolist())
sys.exit(not np.isfinite(got.tolist()).all())
