import ctypes
import sys
from ctypes import byref, c_float, c_int64, c_size_t, c_void_p
from ctypes import create_string_buffer as room

import numpy as np

dnnl, (engine, stream, made, *memory) = ctypes.CDLL("libdnnl.so.2"), [c_void_p() for _ in range(5)]
x, y, of_x, of_y, asked = np.array([[-np.inf] * 2, [1, 2]], "f4"), np.zeros((2, 1), "f4"), *map(room, [9999] * 3)
dnnl.dnnl_engine_create(byref(engine), 1, c_size_t(0)) or dnnl.dnnl_stream_create(byref(stream), engine, 1)
for m, of, each in zip(memory, (of_x, of_y), (x, y), strict=True):
    dnnl.dnnl_memory_desc_init_by_tag(of, 2, (c_int64 * 12)(*each.shape), 3, 3)
    dnnl.dnnl_memory_create(byref(m), of, engine, c_void_p(each.ctypes.data))
dnnl.dnnl_reduction_desc_init(asked, 196594, of_x, of_y, c_float(0), c_float(0))
dnnl.dnnl_primitive_desc_create(byref(made), asked, None, engine, None) or dnnl.dnnl_primitive_create(byref(made), made)
dnnl.dnnl_primitive_execute(made, stream, 2, (c_int64 * 4)(1, memory[0].value, 17, memory[1].value))
print("got  ", *y.ravel(), "right -inf 2.0")
sys.exit(not np.array_equal(y.ravel(), [-np.inf, 2]))
