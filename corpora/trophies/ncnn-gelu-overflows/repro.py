import sys

import ncnn
import numpy as np

layer, described = ncnn.create_layer("GELU"), ncnn.ParamDict()
layer.load_param(described)
array = np.full(4, 2e38, "f4")  # Mat(array) does not keep it alive
x = ncnn.Mat(array)
layer.forward_inplace(x, ncnn.Option())
print("got  ", np.array(x).tolist())
print("right", [float(np.float32(2e38))] * 4)
sys.exit(not np.isfinite(np.array(x)).all())
