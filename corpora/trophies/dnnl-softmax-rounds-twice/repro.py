import ctypes
import sys
from ctypes import byref, c_int64, c_size_t, c_void_p, create_string_buffer

import numpy as np

dnnl, (engine, stream, made, *memory) = ctypes.CDLL("libdnnl.so.2"), [c_void_p() for _ in range(5)]
x, y, md, asked = np.array([0x3F80, 0], "u2"), np.zeros(2, "u2"), create_string_buffer(999), create_string_buffer(9999)
dnnl.dnnl_engine_create(byref(engine), 1, c_size_t(0)) or dnnl.dnnl_stream_create(byref(stream), engine, 1)
dnnl.dnnl_memory_desc_init_by_tag(md, 2, (c_int64 * 12)(1, 2), 2, 3)
dnnl.dnnl_softmax_forward_desc_init(asked, 96, md, 1)
dnnl.dnnl_primitive_desc_create(byref(made), asked, None, engine, None) or dnnl.dnnl_primitive_create(byref(made), made)
for m, each in zip(memory, (x, y), strict=True):
    dnnl.dnnl_memory_create(byref(m), md, engine, c_void_p(each.ctypes.data))
dnnl.dnnl_primitive_execute(made, stream, 2, (c_int64 * 4)(1, memory[0].value, 17, memory[1].value))
print("got  ", *(y.astype("u4") << 16).view("f4"), "right 0.73046875 0.26953125")
sys.exit(not np.array_equal(y, [0x3F3B, 0x3E8A]))
