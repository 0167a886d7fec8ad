"""The tests of the nodes of ONNX, whose stored outputs every runtime is compared with, judged themselves."""
