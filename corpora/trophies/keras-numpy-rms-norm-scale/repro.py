import os

os.environ["KERAS_BACKEND"] = "numpy"
import keras
import numpy as np

x, scale = np.array([[1, 1], [1, 1]], "f4"), np.array([1, 10], "f4")
print("got  ", keras.ops.rms_normalization(x, scale, axis=0).tolist())
print("right", (x / np.sqrt((x * x).mean(axis=0, keepdims=True) + 1e-6) * scale[:, None]).tolist())
