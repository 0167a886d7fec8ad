import sys

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x, w, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in "xwy")
node = helper.make_node("RMSNormalization", ["x", "w"], ["y"], axis=-1)
model = helper.make_model(helper.make_graph([node], "one", [x, w], [y]), opset_imports=[helper.make_opsetid("", 23)])
given = {"x": np.array([300, 400], "f2"), "w": np.ones(2, "f2")}
got, right = ReferenceEvaluator(model).run(None, given)[0], (given["x"] / np.sqrt(125000.0)).astype("f2")
print("got  ", got.tolist())
print("right", right.tolist())
sys.exit(not np.allclose(got, right, rtol=0.002))
