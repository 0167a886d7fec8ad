"""Replays of a reference in JAX: in float64, and with random rounding errors in each operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.jaxprs.evaluation import QUICK, Widened, evaluated, found_by, specs_of
from fuzz.references.jaxprs.tracing import Equation, program
from oracles.dtypes import SINGLE

_PLAIN = frozenset((
    "abs", "argmax", "argmin", "broadcast_in_dim", "ceil", "clamp", "concatenate", "convert_element_type", "copy",
    "cummax", "cummin", "dynamic_slice", "dynamic_update_slice", "expand_dims", "floor", "gather", "max", "min", "neg",
    "optimization_barrier", "pad", "reduce_max", "reduce_min", "reduce_precision", "reduce_window_max",
    "reduce_window_min", "reshape", "rev", "round", "scatter", "scatter-max", "scatter-min", "select_n", "sign",
    "slice", "sort", "split", "squeeze", "stop_gradient", "top_k", "transpose",
))  # fmt: skip
"""Primitives that round nothing."""
_LINEAR = frozenset((
    "conv_general_dilated", "cumsum", "dot_general", "reduce_sum", "reduce_window_sum", "scatter-add",
))  # fmt: skip
"""Primitives whose errors are in proportion to the sum of magnitudes."""
_ALGEBRA = frozenset((
    "cholesky", "eig", "eigh", "geqrf", "hessenberg", "householder_product", "lu", "qr", "schur", "svd",
    "triangular_solve", "tridiagonal", "tridiagonal_solve",
))  # fmt: skip
"""Backward stable primitives: results are exact for matrices that differ by rounding errors of the largest elements."""
_KEPT = 64
"""The most sets of extents for which compiled programs are kept."""


class Replaying:
    """A reference that is run in several ways, each compiled once for each set of extents."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.exact = Widened(call, "float32")
        self._noisy: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def single(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """Return the outputs of the unchanged reference for floats in f32."""
        import jax

        given = {n: each.astype(np.float32) if each.dtype.kind == "f" else each for n, each in arrays.items()}
        with jax.default_device(jax.devices("cpu")[0]):
            returned = jax.jit(self._call, compiler_options=QUICK)(**given)
        several = returned.values() if isinstance(returned, Mapping) else returned
        flat = [*several] if isinstance(returned, (Mapping, tuple, list)) else [returned]
        return [np.asarray(each, dtype=np.float64) for each in flat]

    def noisy(self, arrays: Arrays, seed: int, times: float) -> Sequence[NDArray[Any]]:
        """Return the outputs with random rounding errors in all inputs and all results, `times` as large as those of
        f32."""
        import jax

        specs = specs_of(arrays, "float32")
        key = tuple(specs.items())
        if key not in self._noisy:
            if len(self._noisy) >= _KEPT:
                self._noisy.clear()
            self._noisy[key] = jax.jit(partial(_run, program(self._call, specs)), compiler_options=QUICK)
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            found = self._noisy[key](np.uint32(seed), times * SINGLE.u, *arrays.values())
            return [np.asarray(each, dtype=np.float64) for each in found]


@dataclass(frozen=True)
class _Noise:
    """Random numbers in a program that is traced once. They differ between operations, and between turns of a loop."""

    key: Any
    scale: Any
    """The largest relative error of one rounding."""
    places: count[int] = field(default_factory=count)

    def off(self, size: Any) -> Any:
        """Return random errors, uniform between -`scale` and `scale` times each size."""
        import jax
        import jax.numpy as jnp

        key = self.key.at[1].add(jnp.uint32(next(self.places)))
        _, bits = jax.lax.rng_bit_generator(key, size.shape, dtype=jnp.uint32)
        return (bits.astype(jnp.float64) / 2.0**31 - 1.0) * self.scale * size

    def turn(self, number: Any) -> _Noise:
        """Return the random numbers of a turn of a loop."""
        import jax.numpy as jnp

        key = self.key.at[2].add(number.astype(jnp.uint32) + 1).at[3].add(jnp.uint32(next(self.places)))
        return replace(self, key=key, places=count())

    def step(self, each: Equation, given: Sequence[Any]) -> Sequence[Any]:
        """Return the results of an equation, with random rounding errors."""
        import jax.numpy as jnp

        if each.name in ("scan", "while", "cond") or each.bodies or each.name == "custom_linear_solve":
            return found_by(each, given, self.step, lambda number: self.turn(number).step)
        floats = [one for one in given if _is_float(one)]
        if each.name in _ALGEBRA:
            given = [one + self.off(jnp.full_like(one, jnp.abs(one).max(initial=0.0))) * one.shape[-1] ** 0.5
                     if _is_float(one) and one.ndim > 1 else one for one in given]  # fmt: skip
        found = found_by(each, given, self.step)
        if not floats or each.name in _PLAIN:
            return found
        sizes = found
        if each.name in _LINEAR:
            sizes = found_by(each, [jnp.abs(one) if _is_float(one) else one for one in given], self.step)
        root = math.sqrt(_terms(each.name, floats, found))
        pairs = zip(found, sizes, strict=True)
        return [one + self.off(jnp.abs(size)) * root if _is_float(one) else one for one, size in pairs]


def _run(made: Any, seed: Any, scale: Any, *inputs: Any) -> tuple[Any, ...]:
    import jax.numpy as jnp

    key = jnp.stack([seed.astype(jnp.uint32), *(jnp.zeros(3, jnp.uint32))])
    noise = _Noise(key, scale)
    given = (one + noise.off(jnp.abs(one)) if _is_float(one) else one for one in map(jnp.asarray, inputs))
    return evaluated(made, noise.step, *given)


def _terms(name: str, given: Sequence[Any], found: Sequence[Any]) -> int:
    """Return the number of terms of one element's sum, estimated from shapes."""
    size = max([one.size for one in found] or [1])
    inner = max(one.shape[-1] if one.ndim else 1 for one in given) if name in _LINEAR else 1
    return int(max(1, inner, *(one.size // max(size, 1) for one in given)))


def _is_float(one: Any) -> bool:
    return bool(np.dtype(one.dtype).kind == "f")
