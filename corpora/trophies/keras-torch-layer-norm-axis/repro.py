import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

x = np.array([[1, 2], [3, 5]], "f4")
got = keras.ops.convert_to_numpy(keras.layers.LayerNormalization(axis=0)(x))
right = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-3)
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not np.allclose(got, right))
