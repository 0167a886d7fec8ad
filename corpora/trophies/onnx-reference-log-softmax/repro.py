import sys

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
graph = helper.make_graph([helper.make_node("LogSoftmax", ["x"], ["y"], axis=-1)], "one", [given], [made])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
got = ReferenceEvaluator(model).run(None, {"x": np.array([0, -110], "f4")})[0]
print("got  ", got.tolist())
print("right", [0.0, -110.0])
sys.exit(not np.allclose(got, [0, -110]))
