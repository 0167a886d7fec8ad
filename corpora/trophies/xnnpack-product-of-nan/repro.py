import ctypes
import sys

import numpy as np

xnn, size, made = ctypes.CDLL("libXNNPACK.so.0"), ctypes.c_size_t, ctypes.c_void_p()
a, b, y = np.array([np.nan] * 16, "f4"), np.ones(16, "f4"), np.zeros(16, "f4")
low, high, one = ctypes.c_float(-np.inf), ctypes.c_float(np.inf), size(1)
xnn.xnn_initialize(None)
weights = ctypes.c_void_p(b.ctypes.data)
xnn.xnn_create_fully_connected_nc_f32(one, one, one, one, weights, None, low, high, 0, ctypes.byref(made))
xnn.xnn_setup_fully_connected_nc_f32(made, one, *(ctypes.c_void_p(each.ctypes.data) for each in (a, y)), None)
xnn.xnn_run_operator(made, None)
print("got  ", y[0], "\nright nan")
sys.exit(not np.isnan(y[0]))
