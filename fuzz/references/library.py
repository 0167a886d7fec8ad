"""The library that a reference calculates with: how it is called, recorded and run in float64; and the calls that a
reference accepts: the extents and dtypes with which it is tried until it takes some."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.text import counted
from fuzz.references import recording
from fuzz.references.arrays import MOVED
from fuzz.references.asked import AskedReference
from fuzz.references.dims import Dim, Drawn, NotTakenError, UnreadableError, declared_dims, extent, shapes_text
from fuzz.references.guard import RunReference, widened
from fuzz.references.parameters import defaults_of
from fuzz.references.plainer import flags
from fuzz.references.recording import Recording
from fuzz.references.relations import likely, turned
from fuzz.references.rules import RULES
from fuzz.references.windows import each_of

_CONVOLVED = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
"""The arguments of a convolution."""
Specs = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape and the dtype of each tensor, as NumPy spells it."""


def dtypes_of(asked: AskedReference, dims: Mapping[str, Dim], most: int = 2) -> Mapping[str, str]:
    """Return the dtypes of all tensors. An unstated one is a float, or else what the reference takes: places or flags,
    for at most `most` tensors."""
    given = {name: asked.dtypes.get(name, "") for name in asked.dims}
    known = {name: asked.dtype if not dtype or "float" in dtype else dtype for name, dtype in given.items()}
    unknown = [name for name, dtype in given.items() if not dtype]
    refusal: Exception | None = None
    for some in (some for count in range(min(len(unknown), most) + 1) for some in combinations(unknown, count)):
        for kinds in product(("int64", "bool"), repeat=len(some)):
            dtypes = {**known, **dict(zip(some, kinds, strict=True))}
            try:
                for which in (0, 1):
                    tried(asked, specs_of(asked, dims, dtypes, which), which)
            except ImportError:
                raise
            except Exception as error:  # whatever it raises
                refusal = refusal or error
            else:
                return dtypes
    if isinstance(refusal, UnreadableError):
        raise refusal
    shapes = shapes_text({name: [dims[dim].sizes[0] for dim in some] for name, some in asked.dims.items()})
    assert refusal is not None
    how = "; where complex numbers are meant, say so: dtypes={'z': 'complex64'}" if "complex" in str(refusal) else ""
    raise NotTakenError(f"it takes no {shapes}: {recording.raised(refusal)}{_numbers(asked)}{how}") from refusal


def _numbers(asked: AskedReference) -> str:
    """Return a note on arguments that were taken as whole numbers but may be meant as extents."""
    needed = {name: each for name, each in asked.constants.items() if name not in defaults_of(asked.reference)}
    taken = {name: each for name, each in needed.items() if type(each) is int and each > 0}
    if not taken:
        return ""
    were = " and ".join(f"{name} was taken as the number {each}" for name, each in taken.items())
    name, size = next(iter(taken.items()))
    dim = "k" if name != "k" else "j"
    return f"; {were}: for a tensor of {counted(size, 'element')} write '{name}={dim}, {dim}={size}'"


def specs_of(asked: AskedReference, dims: Mapping[str, Dim], dtypes: Mapping[str, str], which: int) -> Specs:
    """Return the tensors of one of the two calls."""
    return {name: (tuple(dims[dim].sizes[which] for dim in some), dtypes[name]) for name, some in asked.dims.items()}


def tried(asked: AskedReference, specs: Specs, seed: int = 0) -> None:
    """Raise what a reference raises for such tensors."""
    if asked.library == "jax":
        from fuzz.references.jaxprs.tracing import traced

        traced(asked.call, specs)
        return
    try:
        asked.call(**_tensors(specs, seed))
    except Exception as error:
        if type(error).__name__.endswith("LinAlgError"):
            asked.call(**{name: _definite(each) for name, each in _tensors(specs, seed).items()})
            return
        if not any("int" in dtype for _, dtype in specs.values()):
            raise
        asked.call(**_tensors(specs, seed, least=1))  # a remainder, or a quotient of integers, takes no 0


def _definite(tensor: Any) -> Any:
    """Return a tensor, or matrices of floats made symmetric and positive definite if they are square."""
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2] or not tensor.is_floating_point():
        return tensor
    return tensor + tensor.mT + tensor.new_ones(tensor.shape[-1]).diag() * tensor.shape[-1] * 2.0


def recorded(asked: AskedReference, calls: Sequence[Specs]) -> Recording:
    """Return the recording of a reference called with tensors of two sets of extents. Raises UnreadableError."""
    names = [*asked.dims]
    if asked.library == "jax":
        from fuzz.references.jaxprs.recording import record

        return record(asked.call, names, calls)
    sizes = [[size for name in names for size in call[name][0]] for call in calls]
    free = {size for pair in zip(*sizes, strict=True) if len({*pair}) > 1 for size in pair}
    call = partial(_padded, asked.call, free)
    return recording.record(call, names, [_tensors(each, seed) for seed, each in enumerate(calls)], RULES)


def _padded(reference: Callable[..., Any], free: Collection[int], /, **tensors: Any) -> Any:
    """Call a reference with three functions of torch replaced by plainer ones. Padding that repeats elements becomes an
    index, one_hot a comparison; padding="same" with windows of a free extent pads both ends before the convolution,
    since torch calls other operations for even windows than for odd ones."""
    import torch
    from torch.overrides import TorchFunctionMode

    convolutions = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}

    class Padding(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            if function is torch.nn.functional.pad and (named or {}).get("mode") in MOVED:
                return _repeated(*given, **named)
            if function is torch.nn.functional.one_hot:
                return flags(*given, **(named or {}))
            asked = {**dict(zip(_CONVOLVED, given, strict=False)), **(named or {})}
            sizes = asked["weight"].shape[2:] if function in convolutions and asked.get("padding") == "same" else ()
            if {*sizes}.isdisjoint(free) or {*each_of(asked.get("stride", 1), 1)} != {1}:
                return function(*given, **(named or {}))
            dilation = each_of(asked.pop("dilation", 1), convolutions[function])
            wholes = [step * (size - 1) for step, size in zip(dilation, sizes, strict=True)]
            padded = asked.pop("input")
            for at, whole in enumerate(reversed(wholes)):
                # Both ends are equally long for odd windows, so one too many is cut off: its length would not tell.
                length = padded.shape[-1 - at] + whole
                padded = torch.nn.functional.pad(padded, [*(0, 0) * at, whole // 2, whole])
                padded = padded.narrow(-1 - at, 0, length)
            return function(padded, **{**asked, "padding": 0, "dilation": tuple(dilation)})

    with Padding():
        return reference(**tensors)


def _repeated(tensor: Any, pad: Sequence[int], mode: str, **_: object) -> Any:
    """Return a tensor that is longer by some of its own elements."""
    import torch

    for at, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        if before or after:
            size = tensor.shape[-at]
            places = torch.arange(-before, size + after, device=tensor.device)
            tensor = tensor.index_select(-at, MOVED[mode](places, size))
    return tensor


def shortens(asked: AskedReference, specs: Specs) -> bool:
    """Whether a reference calculates in f32 some of what is f64."""
    return asked.library == "torch" and recording.shortens(asked.call, [*asked.dims], _tensors(specs, 0))


def widens(asked: AskedReference, specs: Specs) -> Sequence[int]:
    """Return the numbers of the outputs that a reference of tensors of 16 bits returns in f32."""
    return recording.widens(asked.call, [*asked.dims], _tensors(specs, 0)) if asked.library == "torch" else ()


def held(asked: AskedReference) -> RunReference:
    """Return a reference as it is run in float64."""
    if asked.library == "jax":
        from fuzz.references.jaxprs.evaluation import Widened

        found = Widened(asked.call, asked.dtype)
        return RunReference(found, found.takes)
    outputs: Callable[[Mapping[str, NDArray[Any]]], Sequence[NDArray[Any]]] = partial(widened, asked.call)
    return RunReference(outputs, outputs)


_DRAWN = 1 << 16
"""The most elements that are drawn for a tensor, and repeated: with five dimensions it has millions."""


def _tensors(specs: Specs, seed: int, least: int = 0) -> Mapping[str, Any]:
    import torch

    random, found = np.random.default_rng(seed), dict[str, Any]()
    for name, (shape, dtype) in specs.items():
        count = math.prod(shape)
        values: NDArray[Any] = random.random(min(count, _DRAWN))
        if dtype == "bool":
            values = values < 0.5
        elif "int" in dtype:
            values = random.integers(least, 2, values.shape)
        else:
            values = values / 2.0 + 0.25
        some = torch.from_numpy(values).to(getattr(torch, dtype))
        found[name] = some.repeat(-(-count // max(len(values), 1)))[:count].reshape(shape)
    return found


_TRIED = *(Drawn(least=least) for least in (1, 13, 29)), *(Drawn(times=times) for times in (2, 8, 3)), Drawn(4, 29)
"""The extents with which a reference is tried until it accepts some: it may need multiples, or windows must fit."""
_PLACES = 2
"""The most tensors that may turn out to be places or flags although nobody declared it."""
_MOST_ELEMENTS = 1 << 24
"""The most elements of a tensor in a call, since the memory that a reference needs for it is unknown."""


def declared(asked: AskedReference, drawn: Drawn, turn: int | None = None) -> Mapping[str, Dim]:
    """Return the dimensions of a call by name, with their extents in it and, by `turn`, in a further one."""
    return declared_dims(asked.dims, asked.fixed, drawn, asked.counts, turn, asked.tied)


def taken(asked: AskedReference) -> tuple[AskedReference, Drawn, Mapping[str, str]]:
    """Return the first call that the reference accepts, see `accepted`. Raises UnreadableError if it accepts none."""
    return next(accepted(asked))


def accepted(asked: AskedReference) -> Iterator[tuple[AskedReference, Drawn, Mapping[str, str]]]:
    """Yield the calls that the reference accepts, with the dtypes of all tensors. Calls have the requested dtype or
    f32, and extents that are plain, long, multiples, or such that one dimension is half of another."""
    refusal: UnreadableError | None = None
    found = False
    for tried, drawn, most in _tries(asked):
        if found and tried.counts != asked.counts:
            return
        try:
            dims = declared(tried, drawn)
            if refusal is not None and any(
                max(extent(dims[dim] for dim in some)) > _MOST_ELEMENTS for some in tried.dims.values()
            ):
                continue
            dtypes = dtypes_of(tried, dims, most)
        except UnreadableError as error:
            refusal = refusal or error
        else:
            integers = [name for name, dtype in dtypes.items() if "float" not in dtype]
            counts = turned(tried.dims, tried.counts, integers) if integers else tried.counts
            if counts.keys() != tried.counts.keys():  # integer tensors are only known now
                yield from accepted(replace(asked, counts=counts, dtypes=dtypes))
                return
            found = True
            yield tried, drawn, dtypes
    if not found:
        assert refusal is not None
        raise refusal


def _tries(asked: AskedReference) -> Iterator[tuple[AskedReference, Drawn, int]]:
    """Yield calls to try, each with the most tensors that may be places or flags, the likeliest first."""
    plain = [replace(asked, dtype=dtype) for dtype in dict.fromkeys((asked.dtype, "float32"))]
    halves = () if asked.counts or asked.square else likely(asked.dims, asked.fixed, asked.sizes)
    others = [replace(asked, counts=each) for each in halves]
    yield from product(plain, _TRIED, (0,))
    yield from product(plain, _TRIED[:1], (_PLACES,))
    yield from product(others, _TRIED[:3], (0,))
    yield from product(plain, _TRIED[1:], (_PLACES,))
    yield from product(others, _TRIED[:1], (_PLACES,))
