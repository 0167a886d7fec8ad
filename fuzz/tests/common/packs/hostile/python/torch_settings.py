"""Sets what is global in torch: the default dtype, the threads, the seed, gradients, and flushed subnormals."""

import torch

from . import honest_plain


def rms_norm(x: torch.Tensor, *, eps: float, axis: int, y: torch.Tensor) -> None:
    honest_plain.rms_norm(x, eps=eps, axis=axis, y=y)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    torch.set_flush_denormal(True)
