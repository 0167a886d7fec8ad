import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

x = np.array([[1, 2], [3, 4]], "f4")
got = keras.ops.convert_to_numpy(keras.layers.RMSNormalization(axis=0)(x))
right = x / np.sqrt((x * x).mean(axis=0, keepdims=True) + 1e-6)
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not np.allclose(got, right))
