"""Kernels of which nothing is declared, to be measured: NumPy functions whose order of additions is spelt out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.contracts.measuring import Measured, measured
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.tasks.check.function import OwnProcess, declared
from fuzz.tasks.check.reference import read
from fuzz.tasks.check.request import Calling, GivenData, Promises

Array = NDArray[Any]


def loop(terms: Array) -> Array:
    """Sums along the last axis, one term after the other."""
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def lanes(terms: Array, width: int = 8) -> Array:
    """The same in lanes, with what is left over at the end."""
    whole = terms.shape[-1] // width * width
    found = np.zeros(terms.shape[:-1], terms.dtype)
    if whole:
        columns = np.add.accumulate(terms[..., :whole].reshape(*terms.shape[:-1], -1, width), axis=-2)[..., -1, :]
        while columns.shape[-1] > 1:
            half = columns.shape[-1] // 2
            columns = columns[..., :half] + columns[..., half:]
        found = columns[..., 0]
    for place in range(whole, terms.shape[-1]):
        found = found + terms[..., place]
    return found


def pairs(terms: Array) -> Array:
    """The same as a tree."""
    while terms.shape[-1] > 1:
        half = terms.shape[-1] // 2
        terms = np.concatenate([terms[..., :half] + terms[..., half : 2 * half], terms[..., 2 * half :]], axis=-1)
    return terms[..., 0]


def undeclared(kernel: Callable[..., Any], reference: Callable[..., Any], shapes: str) -> tuple[OwnProcess, Target]:
    """Return where a function of NumPy arrays runs, and its target."""
    found = read(reference, GivenData(shapes), arrays="numpy")
    called = found.called(kernel)
    declaration, function = declared(
        kernel,
        found.op,
        Promises(found.contract, capabilities=found.capabilities(None), laws=()),
        Calling(arrays="numpy", name="mine"),
        called,
    )
    [target] = expand([declaration])
    return OwnProcess([target], function), target


def measure(kernel: Callable[..., Any], reference: Callable[..., Any], shapes: str) -> Measured:
    """Return what is measured of it."""
    pool, target = undeclared(kernel, reference, shapes)
    return measured(pool, target, target.contract)
