import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

x, w, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT16, None) for name in "xwy")
node = helper.make_node("RMSNormalization", ["x", "w"], ["y"], axis=-1, epsilon=1e-3)
model = helper.make_model(
    helper.make_graph([node], "one", [x, w], [y]), opset_imports=[helper.make_opsetid("", 23)], ir_version=11
)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
given = {"x": np.array([-1.401], "f2"), "w": np.array([-0.7275], "f2")}
normalized = (np.float64(given["x"]) / np.sqrt(np.float64(given["x"]) ** 2 + 1e-3)).astype("f2")
got, right = session.run(None, given)[0], normalized * given["w"]
print("got        ", got.tolist(), "\nby the text", right.tolist())
sys.exit(not np.array_equal(got, right))
