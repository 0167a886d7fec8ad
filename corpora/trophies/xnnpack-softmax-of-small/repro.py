import ctypes
import sys

import numpy as np

xnn, size, made = ctypes.CDLL("libXNNPACK.so.0"), ctypes.c_size_t, ctypes.c_void_p()
x, y = np.array([0, -86.0] + [0] * 14, "f4"), np.zeros(16, "f4")
xnn.xnn_initialize(None)
xnn.xnn_create_softmax_nc_f32(size(2), size(2), size(2), 0, ctypes.byref(made))
xnn.xnn_setup_softmax_nc_f32(made, size(1), *(ctypes.c_void_p(each.ctypes.data) for each in (x, y)), None)
xnn.xnn_run_operator(made, None)
print("got  ", y[1], "least normal", np.finfo("f4").tiny)
print("right", np.float32(np.exp(np.float64(x[1]))))
sys.exit(not np.isclose(y[1], np.exp(np.float64(x[1])), rtol=0.01, atol=0))
