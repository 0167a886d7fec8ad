"""What measures ourselves: the oracle's speed, guidance, the speed of kernels. It is not part of the wheel."""
