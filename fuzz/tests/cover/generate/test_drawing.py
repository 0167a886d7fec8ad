"""What is decided about single tensors, and about all of them together."""

from __future__ import annotations

from fuzz.core.adapters.pack import built_in, load
from fuzz.core.base.case import Output, Tensor
from fuzz.core.generate.drawing import EVEN
from fuzz.tests.common.examples import first_cases
from oracles.dtypes import ITEMSIZE


def _is_even(tensor: Tensor | Output) -> bool:
    """Every row begins at an address, and every distance is a number of elements, that EVEN divides."""
    layout = tensor.layout
    start = layout.offset if layout.guard == "before" else -(layout.extent + layout.offset)
    return (start * ITEMSIZE[tensor.dtype]) % EVEN == 0 and not any(
        stride % EVEN for extent, stride in zip(layout.shape[:-1], layout.strides[:-1], strict=True) if extent > 1
    )


def test_some_cases_are_even_in_every_tensor() -> None:
    """Compilers load in vectors only where all addresses and distances allow it, which chance hardly ever does."""
    cases = first_cases("fused_add_rms_norm", 5, load(built_in()).kernels, count=480)
    even = [
        case
        for case in cases
        if case.inputs["x"].layout.shape[-1:] and case.inputs["x"].layout.shape[-1] % EVEN == 0
        if all(_is_even(tensor) for name, tensor in case.tensors.items() if name in ("x", "residual", "y", "sum"))
    ]
    assert 10 < len(even) < 160  # one in EVEN_ONE_IN of those that are not steered
