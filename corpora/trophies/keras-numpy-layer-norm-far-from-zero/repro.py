import os

os.environ["KERAS_BACKEND"] = "numpy"

import keras
import numpy as np

x = np.array([[100001, 100002, 100003, 100004]], "f4")
print("got  ", np.asarray(keras.layers.LayerNormalization()(x))[0].round(4).tolist())
exact = x.astype("f8")
print("right", ((exact - exact.mean()) / np.sqrt(exact.var() + 1e-3))[0].round(4).tolist())
