"""How a case reaches a kernel and its outputs come back: frames, worker processes, and the code that runs in them."""
