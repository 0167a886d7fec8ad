import numpy as np
import onnx
import tract
from onnx import TensorProto, helper

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 0]) for name in "xy")
w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [0])
graph = helper.make_graph([helper.make_node("RMSNormalization", ["x", "w"], ["y"])], "one", [x, w], [y])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), "one.onnx")
print("the process ends here, by abort, as the model is read or run:", flush=True)
model = tract.onnx().load("one.onnx").into_model().into_runnable()
print(model.run([np.zeros((1, 0), "f4"), np.zeros(0, "f4")])[0].to_numpy().shape)
