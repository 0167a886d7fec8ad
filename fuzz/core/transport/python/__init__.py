"""The worker process of Python kernels. It speaks the protocol of `transport/frames.py` and watches the memory of
tensors. It is started as a program of its own, or forked by a server that has already imported slow modules."""
