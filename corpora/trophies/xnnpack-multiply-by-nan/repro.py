import ctypes
import sys

import numpy as np

xnn, size, made = ctypes.CDLL("libXNNPACK.so.0"), ctypes.c_size_t, ctypes.c_void_p()
a, b, y = np.array([1.5] * 16, "f4"), np.array([np.nan] * 16, "f4"), np.zeros(16, "f4")
low, high, shape = ctypes.c_float(-np.inf), ctypes.c_float(np.inf), (size * 1)(4)
xnn.xnn_initialize(None)
xnn.xnn_create_multiply_nd_f32(low, high, 0, ctypes.byref(made))
given = (ctypes.c_void_p(each.ctypes.data) for each in (a, b, y))
xnn.xnn_setup_multiply_nd_f32(made, size(1), shape, size(1), shape, *given, None)
xnn.xnn_run_operator(made, None)
print("got  ", y[:4].tolist(), "\nright", [float("nan")] * 4)
sys.exit(not np.isnan(y[:4]).all())
