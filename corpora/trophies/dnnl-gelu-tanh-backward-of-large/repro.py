import ctypes
import sys
from ctypes import byref, c_int64, c_size_t, c_void_p
from ctypes import create_string_buffer as room

import numpy as np

dnnl, (engine, stream, hint, made, *io) = ctypes.CDLL("libdnnl.so.2"), [c_void_p() for _ in range(7)]
data, (md, there, back) = np.array([[1e10, 1e13, 1e15], [1] * 3, [0] * 3], "f4"), map(room, [9999] * 3)
dnnl.dnnl_engine_create(byref(engine), 1, c_size_t(0)) or dnnl.dnnl_stream_create(byref(stream), engine, 1)
dnnl.dnnl_memory_desc_init_by_tag(md, 1, (c_int64 * 12)(3), 3, 2)
dnnl.dnnl_eltwise_forward_desc_init(there, 64, 207, md) or dnnl.dnnl_eltwise_backward_desc_init(back, 207, md, md)
dnnl.dnnl_primitive_desc_create(byref(hint), there, None, engine, None)
dnnl.dnnl_primitive_desc_create(byref(made), back, None, engine, hint) or dnnl.dnnl_primitive_create(byref(made), made)
[dnnl.dnnl_memory_create(byref(m), md, engine, c_void_p(row.ctypes.data)) for m, row in zip(io, data, strict=True)]
dnnl.dnnl_primitive_execute(made, stream, 3, (c_int64 * 6)(1, io[0].value, 145, io[1].value, 129, io[2].value))
print("got  ", *data[2], "right 1.0 1.0 1.0")
sys.exit(not np.allclose(data[2], 1))
