"""torch's own functions on a processor, held to the formula that their documentation states.

The built-in pack has the same functions under contracts that allow what they were seen to do.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel, Within

__all__ = ["KERNELS"]

_SOURCE = Path(__file__).resolve().parent / "functions.py"
_SUMS = Contract(sums={"d": AnyOrder(), "j": AnyOrder()}, zeros="any")
# What is hidden has minus infinity added to it; blocks of keys are scaled again as their maximum grows. It chooses how:
# by the steps that are documented, with roots of the scale and shares that are rounded; or in one, where exponentials
# below the least normal number are zero.
_ATTENTION = replace(
    _SUMS, accuracy={"exp": Within(20.0, flushes=True)},
    algorithm={"near": "added", "seen": "added", "s": ("formula", "roots"), "o": ("sum", "shares")},
)  # fmt: skip
# CrossEntropyLoss: smoothing makes targets a mixture, each share of which multiplies a logarithm before all are added.
_CROSS_ENTROPY = Contract(algorithm={"nll": "shifted", "even": "weighted"})

# torch.logsumexp: log(sum(exp(x))), which of a row with infinity is infinity.
_LIMITS = Contract(algorithm={"most": "finite"})


def _kernel(op: str, contract: Contract, able: Capabilities = Capabilities()) -> PythonKernel:  # noqa: B008
    return PythonKernel(f"torch-{op.replace('_', '-')}", op, _SOURCE, "torch", contract, able, devices=("cpu",))


KERNELS = (
    *(_kernel(op, Contract()) for op in ("rms_norm", "layer_norm", "softmax", "log_softmax", "gelu", "gelu_tanh")),
    _kernel("logsumexp", _LIMITS, Capabilities(empty=False)),
    _kernel("cross_entropy", _CROSS_ENTROPY, Capabilities(mixed=(("label", ("int64",)),))),
    _kernel("attention", _ATTENTION, Capabilities(empty=False)),
)
