import os
import sys

os.environ["KERAS_BACKEND"] = "numpy"
import keras  # whose NumPy backend needs scipy and jax
import numpy as np

x, scale = np.array([[1, 1], [1, 1]], "f4"), np.array([1, 10], "f4")
got = np.asarray(keras.ops.rms_normalization(x, scale, axis=0))
right = x / np.sqrt((x * x).mean(axis=0, keepdims=True) + 1e-6) * scale[:, None]
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not np.allclose(got, right))
