"""Evaluation of a reference in JAX in float64, without casts to shorter floats and without global settings of JAX, and
replays of it with random rounding errors in each operation."""

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
from fuzz.references.jaxprs.tracing import Equation, TracedNumber, TracedProgram, opened, program, traced
from oracles.dtypes import SINGLE

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options for quick compilation, which takes most of the time: programs run only once or twice."""
Specs = Mapping[str, tuple[tuple[int, ...], str]]


class Widened:
    """A reference that takes and returns floats as float64, although it is traced with floats of another dtype."""

    def __init__(self, call: Callable[..., Any], dtype: str) -> None:
        self._call, self._dtype = call, dtype
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def takes(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raise what the reference raises for arrays of these shapes."""
        traced(self._call, specs_of(arrays, self._dtype))

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Return the outputs of the reference for these arrays."""
        import jax

        specs = specs_of(arrays, self._dtype)
        key = tuple(specs.items())
        if key not in self._compiled:
            self._compiled[key] = jax.jit(partial(run, program(self._call, specs)), compiler_options=QUICK)
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            found = self._compiled[key](*arrays.values())
            return [np.asarray(each) for each in found]


def specs_of(arrays: Mapping[str, NDArray[Any]], dtype: str) -> Specs:
    """Return the shape and the dtype of each array, with `dtype` for all floats."""
    return {name: (each.shape, dtype if each.dtype.kind == "f" else each.dtype.name) for name, each in arrays.items()}


Step = Callable[[Equation, Sequence[Any]], Sequence[Any]]
"""A function that returns the results of an equation for these operands."""


def run(made: TracedProgram, *inputs: Any) -> tuple[Any, ...]:
    """Return the outputs of a program for these inputs, calculated in float64."""
    return evaluated(made, _exactly, *inputs)


def _exactly(each: Equation, given: Sequence[Any]) -> Sequence[Any]:
    return found_by(each, given, _exactly)


def evaluated(made: TracedProgram, step: Step, *inputs: Any) -> tuple[Any, ...]:
    """Return the outputs of a program for these inputs; `step` evaluates its equations, on floats of float64."""
    import jax.numpy as jnp

    kinds = (_wide(made.shapes[at][1]) for at in made.inputs)
    known = {at: jnp.asarray(each, kind) for at, each, kind in zip(made.inputs, inputs, kinds, strict=True)}
    known |= {at: jnp.asarray(value, _wide(str(value.dtype))) for at, value in made.constants.items()}

    def of(operand: int | TracedNumber) -> Any:
        if isinstance(operand, TracedNumber):
            return jnp.asarray(operand.value, _wide(operand.dtype))
        return known[operand]

    for each in made.equations:
        found = step(each, [*map(of, each.given)])
        known |= dict(zip(each.made, found, strict=True))
    return tuple(map(of, made.outputs))


def _wide(dtype: Any) -> Any:
    """Return the dtype of calculations in place of a dtype: float64 for floats, else the same dtype."""
    return np.dtype(np.float64) if "float" in str(dtype) else dtype


def found_by(
    each: Equation, given: Sequence[Any], step: Step, iteration: Callable[[Any], Step] | None = None
) -> Sequence[Any]:
    """Return the results of an equation. `step` evaluates its bodies; in a loop `iteration` returns it for a turn."""
    import jax

    iteration = iteration or (lambda number: step)
    if each.name == "scan":
        return _scanned(each, given, iteration)
    if each.name == "while":
        ends, body = each.bodies
        first, second = each.params["cond_nconsts"], each.params["cond_nconsts"] + each.params["body_nconsts"]

        def again(carry: Any) -> Any:
            return evaluated(ends, iteration(carry[0]), *given[:first], *carry[1])[0]

        def iterated(carry: Any) -> Any:
            return carry[0] + 1, evaluated(body, iteration(carry[0]), *given[first:second], *carry[1])

        _, last = jax.lax.while_loop(again, iterated, (jax.numpy.int64(0), tuple(given[second:])))
        return tuple(last)
    if each.name == "cond":
        branches = [partial(evaluated, body, step) for body in each.bodies]
        return tuple(jax.lax.switch(given[0], branches, *given[1:]))
    if each.name == "custom_linear_solve":
        lengths = each.params["const_lengths"]
        first = lengths.matvec + lengths.vecmat
        right = given[sum(lengths) :]
        return evaluated(opened(each.params["jaxprs"].solve), step, *given[first : first + lengths.solve], *right)
    if each.bodies:
        return evaluated(each.bodies[0], step, *given)
    if each.name in ("reduce_precision", "copy", "optimization_barrier"):
        return given
    if each.name.startswith("scatter"):  # its parameter is a program in another float dtype
        names = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
        return (getattr(jax.lax, each.name.replace("-", "_"))(*given, **{name: each.params[name] for name in names}),)
    params = {name: _wide(value) if "dtype" in name or "type" in name else value for name, value in each.params.items()}
    found = each.primitive.bind(*given, **params)
    return found if each.primitive.multiple_results else (found,)


def whole(call: Callable[..., Any], arrays: Arrays) -> Sequence[NDArray[Any]] | None:
    """Return the outputs of a reference that makes integers and flags alone; None if it makes floats. Raises
    ZeroDivisionError or OverflowError for a quotient that has no value, outside of loops."""
    import jax

    made, floats = program(call, specs_of(arrays, "float32")), False

    def step(each: Equation, given: Sequence[Any]) -> Sequence[Any]:
        nonlocal floats
        if each.name in ("div", "rem") and not any(isinstance(one, jax.core.Tracer) for one in given):
            one, other = map(np.asarray, given)
            if one.dtype.kind in "iu" and not other.all():
                raise ZeroDivisionError("division by 0")
            if one.dtype.kind == "i" and ((one == np.iinfo(one.dtype).min) & (other == -1)).any():
                raise OverflowError(f"{np.iinfo(one.dtype).min} / -1 is no {one.dtype}")
        found = found_by(each, given, step)
        floats |= any(np.dtype(one.dtype).kind not in "iub" for one in found)
        return found

    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        found = evaluated(made, step, *arrays.values())
        return None if floats else [np.asarray(each) for each in found]


def _scanned(each: Equation, given: Sequence[Any], iteration: Callable[[Any], Step]) -> Sequence[Any]:
    import jax

    [body] = each.bodies
    consts, carried = each.constants_and_carried
    first, rest = tuple(given[consts : consts + carried]), tuple(given[consts + carried :])

    def iterated(carry: Any, own: Any) -> Any:
        number, state = carry
        found = evaluated(body, iteration(number), *given[:consts], *state, *own)
        return (number + 1, found[:carried]), found[carried:]

    start = jax.numpy.int64(0), first
    (_, last), stacked = jax.lax.scan(iterated, start, rest, each.params["length"], each.params["reverse"])
    return (*last, *stacked)


def pulled(
    forward: Callable[..., Any], taken: Mapping[str, Any], cotangents: Sequence[Any], by: Sequence[str]
) -> Mapping[str, Any]:
    """Return the gradients of a function's arguments, or of those that `by` names, from those of its outputs."""
    import jax
    import jax.numpy as jnp

    floats = [name for name, each in taken.items() if jnp.issubdtype(jnp.result_type(each), jnp.floating)]
    names = [*(by or [name for name in floats if hasattr(taken[name], "shape")])]

    def outputs(*given: Any) -> tuple[Any, ...]:
        returned = forward(**{**taken, **dict(zip(names, given, strict=True))})
        returned = tuple(returned.values()) if isinstance(returned, Mapping) else returned
        return tuple(returned) if isinstance(returned, (list, tuple)) else (returned,)

    _, pull = jax.vjp(outputs, *(taken[name] for name in names))
    return {f"d{name}": each for name, each in zip(names, pull(tuple(cotangents)), strict=True)}


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

    def iteration(self, number: Any) -> _Noise:
        """Return the random numbers of an iteration of a loop."""
        import jax.numpy as jnp

        key = self.key.at[2].add(number.astype(jnp.uint32) + 1).at[3].add(jnp.uint32(next(self.places)))
        return replace(self, key=key, places=count())

    def step(self, each: Equation, given: Sequence[Any]) -> Sequence[Any]:
        """Return the results of an equation, with random rounding errors."""
        import jax.numpy as jnp

        if each.name in ("scan", "while", "cond") or each.bodies or each.name == "custom_linear_solve":
            return found_by(each, given, self.step, lambda number: self.iteration(number).step)
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
