"""What measures ourselves: the oracle's speed, guidance, the speed of kernels. Not part of the wheel."""
