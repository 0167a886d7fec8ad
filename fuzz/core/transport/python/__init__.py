"""The worker process of Python kernels: it speaks the frames of `transport/frames.py` and watches tensors' memory. It
is started as a program of its own, or forked by a server that has already imported what takes seconds."""
