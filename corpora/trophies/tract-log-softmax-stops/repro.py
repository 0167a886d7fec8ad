import sys

import numpy as np
import onnx
import tract
from onnx import TensorProto, helper

given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
graph = helper.make_graph([helper.make_node("LogSoftmax", ["x"], ["y"], axis=-1)], "one", [given], [made])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), "one.onnx")
model = tract.onnx().load("one.onnx").into_model().into_runnable()
got = model.run([np.array([0, -91.9], "f4")])[0].to_numpy()
print("got  ", got.tolist())
print("right", [0.0, -91.9])
sys.exit(not np.allclose(got, [0, -91.9]))
