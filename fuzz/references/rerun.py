"""The replay: the results of a reference in float64, and their changes if each operation rounds at random.

It judges kernels if no formula can be read from their reference, and is weaker than a formula. Nothing proves the
results in float64 for a badly conditioned problem; the tried rounding errors do not include systematic ones; and
elements that depend on a decision which rounding may change are not judged.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fuzz.references.alike import Arrays
from fuzz.references.gpu import GPU, freed, has_gpu, is_large, moved, without_tf32
from fuzz.references.guard import first_difference, widened
from fuzz.references.residuals import SolvedEquation
from fuzz.references.tracing import arguments_of, intercepted, tensors_in
from fuzz.references.transforms import FOURIER, of_rows
from fuzz.references.units import singles, unit_in
from oracles.doubledouble import F64
from oracles.dtypes import SINGLE

Run = TypeVar("Run")
RUNS, FINE = 12, 6
"""The number of replays with rounding errors `TIMES` as large as those of f32, and of those with f32's own."""
TIMES = 16.0
"""The factor by which rounding errors in replays exceed those of f32. The largest change of an element is allowed.
Measured: torch in f32, and other algorithms for the same values, needed at most a seventh of that. There were 25 to 40
inputs, normal, positive, of few values or with a large mean, for each of 12 functions: attention, softmax, norms, a
variance, logsumexp, cumulated sums and products, a convolution, an RNN, clipping and solving."""
TIMES_NARROW = 4.0
"""The same for the results of a reference that calculates in 16 bits, by the unit of these. Errors 16 times as coarse
would allow anything, and a seventh of that was needed at most."""
_ALIKE = 0.5
"""The error of a coarse replay should be `TIMES` that of a fine one. If both differ by more than this share of the
largest error, rounding changed a decision, as it may in a kernel, and the element is not judged."""
_TURNED = 16
"""If changed decisions exclude more than one in `_TURNED` elements of an output, no element of it is judged."""
_BLOCK = 1 << 15
"""The elements that get rounding errors at a time: new memory for all of a large tensor takes longer than drawing."""
PLAIN = frozenset(f"aten::{name}" for name in (
    "cat", "stack", "clone", "copy", "copy_", "index", "gather", "where", "_to_copy", "relu", "max", "min", "amax",
    "amin", "maximum", "minimum", "abs", "neg", "sort", "topk", "index_select", "embedding", "masked_fill", "clamp",
    "clamp_min", "clamp_max", "floor", "ceil", "round", "sign", "roll", "flip", "constant_pad_nd", "select_scatter",
    "slice_scatter", "tril", "triu", "repeat", "fill_", "zero_", "masked_fill_", "index_put_",
))  # fmt: skip
"""Operations that round nothing."""
_LINEAR = FOURIER | frozenset(f"aten::{name}" for name in (
    "sum", "mean", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "_trilinear", "convolution", "cumsum", "index_add",
    "scatter_add",
))  # fmt: skip
"""Operations whose errors are in proportion to the sum of magnitudes."""
_PARTS = frozenset(f"aten::{name}" for name in (
    "native_layer_norm", "native_group_norm", "native_batch_norm", "_softmax", "_log_softmax", "_safe_softmax", "var",
    "var_mean", "std", "logsumexp", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
    "upsample_bicubic2d",
))  # fmt: skip
"""Operations that are replaced by torch's decomposition, each part of which rounds."""
_ALGEBRA = tuple(f"aten::{name}" for name in ("linalg_", "_linalg", "cholesky", "triangular_solve", "inverse", "lu_"))
"""Backward stable operations: results are exact for matrices that differ by rounding errors of the largest elements."""
ANY_OF_EQUAL = ("aten::topk", "aten::sort", "aten::kthvalue", "aten::median", "aten::mode")
"""Operations without a documented order of equal elements, unless a sort is stable."""
_FIRST_OF_EQUAL = ("aten::argmax", "aten::argmin", "aten::max", "aten::min")
OF_ORDER = (*ANY_OF_EQUAL, *_FIRST_OF_EQUAL, "aten::amax", "aten::amin")
"""Operations that return NaN if there is one, or sort it after all numbers. Torch documents this for some of them."""


@dataclass(frozen=True)
class PlacesOutput:
    """The elements by which an output of places is compared: `table` holds them along `axis`."""

    table: F64
    axis: int
    dropped: bool
    """Whether the output lacks `axis`."""
    first: bool
    """Whether only the first of equal elements is right, as torch documents. It is set only if the table is an input:
    calculated elements may differ by rounding."""

    def elements(self, places: NDArray[Any]) -> F64:
        """Return the elements at places; NaN where a place does not exist or occurs again."""
        known = self.exist(places)
        at = np.where(known, places, 0).astype(np.int64)
        at = np.expand_dims(at, self.axis) if self.dropped else at
        found = np.take_along_axis(self.table, at, self.axis)
        return np.where(known, found.squeeze(self.axis) if self.dropped else found, math.nan)

    def exist(self, places: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the mask of places that exist and do not occur before along the axis."""
        known = (places >= 0) & (places < self.table.shape[self.axis]) & (places == np.floor(places))
        if not self.dropped:
            order = np.argsort(places, axis=self.axis, kind="stable")
            same = np.diff(np.take_along_axis(places, order, self.axis), axis=self.axis, prepend=math.nan) == 0
            again = np.zeros(places.shape, bool)
            np.put_along_axis(again, order, same, self.axis)
            known &= ~again
        return np.asarray(known)


@dataclass(frozen=True)
class Replayed:
    """One output of a reference, with allowed errors."""

    value: F64
    """The values in float64. NaN marks elements that are not judged: the reference or a replay has NaN or an infinity
    there, or replays differ by more than rounding explains."""
    allowed: F64
    """The allowed errors of a kernel's values before they are rounded to the output's dtype."""
    whole: bool = False
    """Whether the values are integers or flags, which are not rounded."""
    places: PlacesOutput | None = None
    """For an output of places, the elements: a place is right if its element is within the allowed error."""
    moved: bool = False
    """Whether the output selects elements of an input by order, or their places. Then NaN and infinities are judged."""
    exact: NDArray[Any] | None = None
    """The elements, which the output must equal where it is `settled`; None if errors are allowed."""
    equation: SolvedEquation | None = None
    """The solve or factorisation that the output is a part of, and by whose residual it is judged."""

    @property
    def settled(self) -> NDArray[np.bool_]:
        """The mask of judged elements of an exact output: where one is not judged, `value` alone is NaN."""
        assert self.exact is not None
        return np.asarray(~np.isnan(self.value) | (self.exact != self.exact))

    @property
    def compared(self) -> F64:
        """The values with which a kernel's values, or the elements at its places, are compared."""
        return self.value if self.places is None else self.places.elements(self.value)


@dataclass(frozen=True)
class Selected:
    """The result of an operation that selects by order."""

    values: NDArray[Any]
    """The selected elements, or their places."""
    places: PlacesOutput | None
    """For places, the elements at them; None for elements."""
    moved: bool
    """Whether the operation selects elements of an input."""


@dataclass(frozen=True)
class Ways:
    """The ways to run a reference. Outputs are arrays of float64, or of integers and flags; of `on_gpu` tensors."""

    exact: Callable[[Arrays], Sequence[Any]]
    """The reference in float64."""
    single: Callable[[Arrays], Sequence[Any]]
    """The unchanged reference, with floats in f32."""
    noisy: Callable[[Arrays, int, float], Sequence[Any]]
    """The reference in float64 with random rounding errors, for a seed, the given number of times as large as those of
    f32. The reference's own random numbers depend on the seed too."""
    takes: Callable[[Arrays], object]
    """A function that raises what the reference raises."""
    unit: Callable[[Arrays], float] = lambda arrays: SINGLE.u
    """The largest unit of rounding in which the reference calculates."""
    selected: Callable[[Arrays], Sequence[Selected]] = lambda arrays: ()
    """The results of the reference's selections by order, in float64."""
    on_gpu: Ways | None = None
    """The same on the GPU, for large inputs; None if there is no GPU."""

    def run(self, arrays: Arrays, call: Callable[[Ways, Arrays], Run]) -> Run:
        """Return what `call` returns for the inputs and the ways that suit them: on the GPU if they are large."""
        if self.on_gpu is not None and is_large(arrays):
            with suppress(Exception), freed():  # without memory or an operation there, the processor runs it, or raises
                return call(self.on_gpu, moved(arrays))
        return call(self, arrays)

    def values(self, arrays: Arrays) -> Sequence[NDArray[Any]]:
        """Return the outputs in float64."""
        return self.run(arrays, lambda ways, given: _as_arrays(ways.exact(given)))

    def seconds(self, arrays: Arrays) -> float:
        """Return the processor seconds that a replay of these inputs takes, estimated from two of its calls."""
        took = list[float]()
        for _ in range(2):  # the first call imports much and takes longer
            began = time.process_time()
            self.run(arrays, lambda ways, given: _as_arrays(ways.noisy(given, 0, 1.0)))
            took.append(time.process_time() - began)
        return max(min(took), 1e-6) * (RUNS + FINE)


def _as_arrays(outputs: Sequence[Any]) -> Sequence[NDArray[Any]]:
    return [each if isinstance(each, np.ndarray) else each.cpu().numpy() for each in outputs]


def ways_of(reference: Callable[..., Any], library: str = "torch") -> Ways:
    """Return the ways to run a reference in "torch" or "jax"."""
    if library == "jax":
        from fuzz.references.jaxprs.evaluation import Replaying

        found = Replaying(reference)
        return Ways(found.exact, found.single, found.noisy, found.exact.takes)
    here, there = (torch_ways(reference, each) for each in (None, GPU))
    return replace(here, selected=partial(_selected, reference), on_gpu=there if has_gpu() else None)


def torch_ways(reference: Callable[..., Any], device: str | None) -> Ways:
    """Return the ways to run a reference in torch on a device; None for the processor, with errors drawn by NumPy."""

    def single(arrays: Arrays) -> Sequence[Any]:
        with without_tf32():
            return widened(reference, singles(arrays), widens=False, device=device)

    exact = partial(widened, reference, device=device)
    unit = unit_in(reference, PLAIN, device)

    def noisy(arrays: Arrays, seed: int, times: float) -> Sequence[Any]:
        return _noisy(reference, arrays, seed, times, unit(arrays) / SINGLE.u, device)

    return Ways(exact, single, noisy, exact, unit)


def replayed(ways: Ways, arrays: Arrays) -> Sequence[Replayed]:
    """Return the outputs of a reference for these inputs. Raises what the reference raises."""
    return ways.run(arrays, _replayed)


def _replayed(ways: Ways, arrays: Arrays) -> Sequence[Replayed]:
    outputs, unit = _outputs_of(ways, arrays), ways.unit(arrays) / SINGLE.u
    _note(outputs, ways.single(arrays), TIMES if unit == 1.0 else TIMES_NARROW)
    for seed in range(RUNS):
        coarse = ways.noisy(arrays, seed, TIMES)
        _note(outputs, coarse, 1.0)
        if seed < FINE and unit == 1.0:  # errors of 16 bits are too large to be in proportion
            fine = ways.noisy(arrays, seed, 1.0)
            for at, each in enumerate(outputs):
                each.compare(coarse, fine, at)
    return [each.found() for each in outputs]


def _note(outputs: Sequence[_Output], run: Sequence[Any], times: float) -> None:
    for at, each in enumerate(outputs):
        each.note(run if len(run) == len(outputs) else (), at, times)


def _outputs_of(ways: Ways, arrays: Arrays) -> Sequence[_Output]:
    made = ways.exact(arrays)
    if not all(isinstance(each, np.ndarray) for each in made):
        if not all(each.is_floating_point() and each.isfinite().all() for each in made):
            raise ValueError("only finite floats are compared on the GPU")
        return [_Output(each, each, library=sys.modules["torch"]) for each in made]
    exact = [each.astype(np.float64) for each in made]
    ordered = any(each.dtype.kind == "i" or not np.isfinite(each).all() for each in made)
    selected = ways.selected(arrays) if ordered else ()
    found = list[_Output]()
    for at, value in enumerate(exact):
        whole = made[at].dtype.kind in "iub"
        same = [each for each in selected if np.array_equal(each.values, value, equal_nan=True)]
        places = next((each.places for each in same if whole and each.places), None)
        moved = any(each.moved and (each.places is not None) == whole for each in same)
        found.append(_Output(value if places is None else places.elements(value), value, whole, places, moved))
    return found


@dataclass
class _Output:
    """One output of a reference, and how far its replays lie apart. Arrays of all replays would not fit in memory."""

    value: Any
    """The values in float64; for an output of places, the elements there."""
    chosen: Any
    """The output itself."""
    whole: bool = False
    places: PlacesOutput | None = None
    moved: bool = False
    library: Any = np
    """NumPy or torch, whose arrays the values are."""
    away: Any = field(init=False)
    """The largest error of coarse replays."""
    bent: Any = field(init=False)
    """The largest difference of the errors of a coarse replay and of a fine one that count `TIMES`."""
    alike: bool = True
    """Whether all replays have the shape of the output."""

    def __post_init__(self) -> None:
        self.away, self.bent = (self.library.zeros_like(self.value) for _ in range(2))

    def note(self, run: Sequence[Any], at: int, times: float) -> None:
        """Take in the output number `at` of a replay whose errors count that many `times`."""
        if not run or run[at].shape != self.chosen.shape:
            self.alike = False
        if self.alike:
            with np.errstate(all="ignore"):
                self.away = self.library.maximum(self.away, abs(self._of(run[at]) - self.value) * times)

    def compare(self, coarse: Sequence[Any], fine: Sequence[Any], at: int) -> None:
        """Take in how far the errors of a coarse replay are from `TIMES` those of the fine one with the same seed."""
        if len(fine) != len(coarse) or fine[at].shape != self.chosen.shape:
            self.alike = False
        if self.alike:
            with np.errstate(all="ignore"):
                value = self.value
                bent = abs(value + TIMES * (self._of(fine[at]) - value) - self._of(coarse[at]))
                self.bent = self.library.maximum(self.bent, bent)

    def _of(self, run: Any) -> Any:
        return run if self.places is None else self.places.elements(run)

    def found(self) -> Replayed:
        """Return the output with its allowed errors."""
        if not self.alike:
            nothing = np.full(self.chosen.shape, math.nan)
            return Replayed(nothing, nothing, self.whole)
        value, library, only_placed = self.value, self.library, self.whole and self.places is None
        with np.errstate(all="ignore"):
            least = library.zeros_like(value) if only_placed else 4 * SINGLE.u * abs(value) + SINGLE.tiny
            finite = library.isfinite(value) & library.isfinite(self.away)
            known = finite & (self.bent <= _ALIKE * self.away + least)
            known &= _TURNED * (finite & ~known).sum() <= finite.sum()
            special = ~library.isfinite(value) if self.moved else library.zeros_like(known)
            allowed = library.where(special, 0.0, library.where(known, self.away + least, math.nan))
            judged = library.where(known | special, value, math.nan)
        if library is not np:
            judged, allowed = (each.cpu().numpy() for each in (judged, allowed))
        chosen = judged if self.places is None else self.chosen  # a place must exist in any case
        return Replayed(chosen, allowed, only_placed, self.places, self.moved)


def _selected(reference: Callable[..., Any], arrays: Arrays) -> Sequence[Selected]:
    """Return the results of the operations of a reference that select by order."""
    found = list[Selected]()

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        made, name = function(*args, **kwargs), function._schema.name
        given, several = arguments_of(function, args, kwargs), isinstance(made, tuple)
        if name not in OF_ORDER or "other" in given:
            return made
        table, dim = given["self"].detach().numpy().astype(np.float64), given.get("dim")
        is_input = any(np.array_equal(each.reshape(-1), table.reshape(-1), equal_nan=True) for each in floats)
        if "arg" not in name:
            found.append(Selected((made[0] if several else made).detach().numpy().copy(), None, is_input))
        if several or "arg" in name:
            table, axis = (table.reshape(-1), 0) if dim is None or not table.ndim else (table, dim % table.ndim)
            first = is_input and (name in _FIRST_OF_EQUAL or bool(given.get("stable")))
            places = (made[1] if several else made).numpy()
            dropped = places.ndim < table.ndim or not places.ndim
            found.append(Selected(places.copy(), PlacesOutput(table.copy(), axis, dropped, first), is_input))
        return made

    floats = [each.astype(np.float64) for each in arrays.values()]

    def called(**tensors: Any) -> Any:
        with intercepted(noted):
            return reference(**tensors)

    widened(called, arrays)
    return found


def draws_at_random(ways: Ways, arrays: Arrays) -> bool:
    """Whether a reference has other results for the same inputs with other seeds of random numbers. The states of the
    generators are restored."""
    import torch

    before, found = (random.getstate(), np.random.get_state()), list[Sequence[NDArray[Any]]]()
    try:
        with torch.random.fork_rng(devices=()):
            for seed in (1, 2):
                for begin in (torch.manual_seed, random.seed, np.random.seed):
                    begin(seed)
                found.append(ways.exact(arrays))
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
    one, two = ([each.astype(np.float64) for each in run] for run in found)
    if [each.shape for each in one] != [each.shape for each in two]:
        return True
    return any(first_difference(*pair) is not None for pair in zip(one, two, strict=True))


def _noisy(
    reference: Callable[..., Any], arrays: Arrays, seed: int, times: float, unit: float, device: str | None = None
) -> Sequence[Any]:
    """Return the outputs with random rounding errors in all inputs and results, `times` as large as those of f32, and
    where a reference calculates in 16 bits, whose unit is `unit` times f32's, with those of rounding to them, too."""
    import torch
    from torch._decomp import decomposition_table

    # NumPy draws several times as fast as torch, whose operations pass through the interception, too.
    chance, orders = np.random.default_rng(seed), torch.Generator(device or "cpu").manual_seed(seed)

    def nudged(each: Any, of: Any, root: float = 1.0) -> Any:
        """Return the tensor, to which errors in proportion to the elements of `of` are added in place."""
        if each.is_complex():
            nudged(torch.view_as_real(each), of.abs().unsqueeze(-1).expand(*each.shape, 2), root)
            return each
        if device is not None:
            with torch._C._DisableTorchDispatch():
                found = torch.rand(each.shape, dtype=torch.float64, device=device, generator=orders)
                found.sub_(0.5).mul_(2 * times * SINGLE.u * root).mul_(of.detach().abs())
                each.detach().add_(found.nan_to_num_(0.0, 0.0, 0.0))  # an infinity has no error
            return each
        to, size = each.detach().numpy(), of.detach().numpy()
        if to.flags.c_contiguous and size.flags.c_contiguous:
            to, size = to.reshape(-1), size.reshape(-1)
        block = _BLOCK if to.ndim == 1 else max(to.size, 1)
        for at in range(0, to.size, block):  # in parts that the processor's cache holds
            part, by = (to[at : at + block], size[at : at + block]) if to.ndim == 1 else (to, size)
            found = np.asarray(chance.random(part.shape))
            found -= 0.5
            found *= 2 * times * SINGLE.u
            with np.errstate(all="ignore"):
                found *= np.abs(by)
                if not np.isfinite(found.sum()):
                    found[~np.isfinite(found)] = 0.0  # an infinity has no error
                found *= root
                part += found
        return each

    def shortened(each: Any) -> Any:
        return each if unit == 1.0 else nudged(each, each.clone(), unit * TIMES_NARROW / TIMES)

    def rounded(function: Any, args: Any, kwargs: Any) -> Any:
        name = function._schema.name
        if torch.Tag.nondeterministic_seeded in function.tags:
            draws = kwargs.get("generator") or torch
            draws.manual_seed(seed + 1)
        if name in _PARTS and function in decomposition_table:
            with noise:
                return decomposition_table[function](*args, **kwargs)
        named = arguments_of(function, args, kwargs) if name in ANY_OF_EQUAL and args[0].dim() else {}
        if isinstance(named.get("dim"), int) and not named.get("stable"):
            order = torch.randperm(args[0].shape[named["dim"]], generator=orders, device=device)
            values, places = function(args[0].index_select(named["dim"], order), *args[1:], **kwargs)
            return values, order[places]
        given = [each for each in tensors_in((args, kwargs)) if _rounds(each)]
        if name.startswith(_ALGEBRA):
            args = _each(
                args, lambda each: nudged(each.clone(), each.abs().amax().expand_as(each), each.shape[-1] ** 0.5)
            )
        before = {each.untyped_storage().data_ptr() for each in given}
        found = function(*args, **kwargs)
        if not given or name in PLAIN or _scales(name, args):
            return found
        with torch._C._DisableTorchDispatch():  # errors are no operations of the reference
            size = function(*_each(args, lambda each: each.abs().to(each.dtype)), **kwargs) if name in _LINEAR else None
            size = None if size is None else of_rows(name, args, size)
            root = math.sqrt(_terms(name, given, found))
            for each in tensors_in(found):
                own = each.untyped_storage().data_ptr() not in before
                if _rounds(each) and each.numel() and (own or name.endswith("_")):
                    nudged(each, each if size is None else size, root)
                    shortened(each)
        return found

    noise = intercepted(rounded)

    def called(**tensors: Any) -> Any:
        given = {name: each.clone() for name, each in tensors.items()}
        with noise:
            return reference(**{k: shortened(nudged(v, tensors[k])) if _rounds(v) else v for k, v in given.items()})

    return widened(called, arrays, device=device)


def _scales(name: str, args: Sequence[Any]) -> bool:
    """Whether an operation multiplies or divides by a power of two, which rounds nothing."""
    import torch

    if name not in ("aten::mul", "aten::div", "aten::mul_", "aten::div_") or len(args) < 2:
        return False
    for each in args[:2] if name.startswith("aten::mul") else args[1:2]:
        one = each if isinstance(each, torch.Tensor) else torch.tensor(each)
        if one.numel() == 1 and not one.is_complex() and abs(math.frexp(one.item())[0]) == 0.5:
            return True
    return False


def _terms(name: str, given: Sequence[Any], found: Any) -> int:
    """Return the number of terms of one element's sum, estimated from shapes."""
    size = max([each.numel() for each in tensors_in(found)] or [1])
    inner = max(each.shape[-1] if each.dim() else 1 for each in given) if name in _LINEAR else 1
    return int(max(1, inner, *(each.numel() // max(size, 1) for each in given)))


def _rounds(value: Any) -> bool:
    return bool(value.is_floating_point() or value.is_complex())


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return arguments with each float tensor that has axes changed."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value) if _rounds(value) and value.dim() else value
    return type(value)(_each(each, change) for each in value) if isinstance(value, (list, tuple)) else value
