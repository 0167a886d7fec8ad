"""A reference with the known properties of its arguments, from stated shapes or from examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, product
from typing import Any

from fuzz.references.arrays import as_tensors
from fuzz.references.dims import MisnamedError, Square, UnreadableError, UnsaidError, parsed
from fuzz.references.layers import as_function, weights_of
from fuzz.references.parameters import defaults_of, has_signature, library_of, name_of, optional_of, parameters_of
from fuzz.references.relations import related
from fuzz.references.text import identifier
from oracles.formula.made import Counts
from oracles.operand import OUTER

Shapes = Mapping[str, Any] | str
"""The dimensions of tensors, as words, and values of other arguments, by name; or both as one text, see `parsed`."""


@dataclass(frozen=True)
class Shown:
    """The range of a tensor's integers in examples."""

    low: int
    high: int
    are_places: bool
    """Whether all may be places along the longest dimension of the examples."""


@dataclass(frozen=True)
class AskedReference:
    """A reference with the known properties of its arguments."""

    reference: Callable[..., Any]
    dims: Mapping[str, tuple[str, ...]]
    """The dimensions of each tensor."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """The known dtypes, by tensor."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """The values of arguments that are no tensors, as they were given."""
    fixed: Mapping[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    """The expressions of extents that follow from other extents."""
    values: Mapping[str, str] | str = "finite"
    dtype: str = "float32"
    """The dtype of floating-point tensors."""

    called: Mapping[str, str] = field(default_factory=dict)
    """For each tensor, its name in the reference; "" if the reference has no signature, but takes positions."""
    library: str = "torch"
    """The library of the reference: "jax", or "torch", which also stands for NumPy."""
    shown: Mapping[str, Shown] = field(default_factory=dict)
    """The range of values in examples, by integer tensor."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The extents of the examples, if they say what dimensions there are."""
    square: Square = ()
    tied: Square = ()
    """Pairs of dimensions with equal extents, because the reference accepts no others."""
    keeps: bool = False
    """Whether extents are fixed as in examples, for a reference that takes no others."""

    @property
    def others(self) -> Mapping[str, Any]:
        """The values of all arguments that are no tensors, defaults included."""
        known = {**defaults_of(self.reference), **self.constants}
        return {name: each for name, each in known.items() if name not in self.called.values()}

    def call(self, /, **tensors: Any) -> Any:
        """Return the result of the reference for these tensors."""
        if not all(self.called.values()):
            return self.reference(*(tensors[name] for name in self.dims), **self.constants)
        return self.reference(**{self.called[name]: each for name, each in tensors.items()}, **self.constants)

    @property
    def left_out(self) -> str:
        """A note about parameters that may be tensors but are None in each call; "" if there are none."""
        named = {*self.called.values(), *self.constants}
        names = [name for name in optional_of(self.reference) if name not in named]
        if not names:
            return ""
        own = [dim for dims in self.dims.values() for dim in dims[-1:] if dim not in (OUTER, *self.counts)]
        such = f"{names[0]}={(own or ['n'])[0]}"
        how = f"to have one tried, check again with its dimensions in shapes, such as '{such}'"
        return f"left out: {', '.join(names)} other than None; {how}"

    @property
    def name(self) -> str:
        """The name of the reference."""
        return name_of(self.reference)


def asked_of(
    reference: Callable[..., Any], shapes: Shapes | None, examples: Sequence[Any] | Mapping[str, Any] | None,
    dtypes: Mapping[str, str], fixed: Mapping[str, int], values: Mapping[str, str] | str, *, twice: bool = False,
) -> Iterator[AskedReference]:  # fmt: skip
    """Yield possible meanings of the arguments, the most general first. `twice`: a tensor may have a dimension
    twice."""
    dims, numbers = (None, {}) if shapes is None else parsed(shapes, twice=True)
    dims = dims or None
    reference = getattr(reference, "_torchdynamo_orig_callable", reference)  # torch.compile's argument
    library = library_of(reference)
    reference = as_function(reference) if weights_of(reference) else as_tensors(reference)
    named, needed = _parameters(reference, dims, examples)
    if not named:
        raise UnreadableError("it has no parameter by name: wrap it, such as lambda x: ref(x)")
    likes = examples if isinstance(examples, Mapping) else dict(zip(named, examples or (), strict=False))
    given = {**likes, **numbers}
    free = {each for some in (dims or {}).values() for each in some} - {*named}
    extents = {name: each for name, each in given.items() if name in free and type(each) is int}
    fixed, given = {**fixed, **extents}, {name: each for name, each in given.items() if name not in extents}
    tensors = {name: each for name, each in given.items() if hasattr(each, "shape") and (dims is None or name in dims)}
    constants = {name: each for name, each in given.items() if name not in {**tensors, **(dims or {})}}
    known = {**{name: _dtype(each) for name, each in tensors.items()}, **dtypes}
    if unknown := [name for name in (*(dims or {}), *given) if name not in named]:
        raise MisnamedError(f"it has no parameter {unknown[0]!r}: it has {', '.join(named)}")
    needed = [name for name in needed if name not in constants]
    if dims is not None:
        if missing := [name for name in needed if name not in dims]:
            name = missing[0]
            how = f"say its dimensions, such as '{name}=b n', or the value of what is no tensor, such as '{name}=1.0'"
            raise UnreadableError(f"shapes has no {name!r}: {how}")
        found: Iterable[Mapping[str, tuple[str, ...]]] = [{name: dims[name] for name in named if name in dims}]
    elif tensors:
        found = _like(tensors)
    elif len(needed) == 1:
        found = ({needed[0]: tuple(text.split())} for text in (f"{OUTER} n", "m n"))
    else:
        example = ", ".join(f'"{name}": "b n"' for name in needed)
        raise UnsaidError(f"say what dimensions its tensors have, such as shapes={{{example}}}, or give example_inputs")
    by_place, shown, kept = not has_signature(reference), _shown(tensors), list[AskedReference]()
    read = ((each, (), ()) for each in found) if twice else chain(*map(_apart, found))
    for each, square, tied in read:
        same = dict(fixed)
        for one, other in square:  # axes of one name have its extent
            same |= {other: same[one]} if one in same else {}
        square, tied = _free(square, same), _free(tied, same)
        called = {identifier(name, f"x{at}"): name for at, name in enumerate(each)}
        if len(called) < len(each):
            raise UnreadableError(f"two of its tensors, {', '.join(each)}, have one name in small letters")
        own = {mine: name for name, mine in called.items()}
        each, counts = related(each)
        asked = AskedReference(
            reference, {own[name]: some for name, some in each.items()},
            {own[name]: dtype for name, dtype in known.items() if name in own}, constants, same, counts,
            values if isinstance(values, str) else {own.get(name, name): menu for name, menu in values.items()},
            called=dict.fromkeys(called, "") if by_place else called, library="jax" if library == "jax" else "torch",
            shown={own[name]: some for name, some in shown.items() if name in own}, square=square, tied=tied,
        )  # fmt: skip
        if dims is None and tensors and not fixed:
            sizes = _sizes(asked.dims, {own[name]: tensor.shape for name, tensor in tensors.items()})
            asked = replace(asked, sizes=sizes)
            some = {dim: size for dim, size in sizes.items() if not square or size == 1}  # a row beside a matrix
            ways = [{dim: size} for dim, size in some.items()] if not square else [some] if some else []
            ways += [dict(sizes)] if len(sizes) > 1 else []
            kept += [replace(asked, fixed=way, keeps=True, tied=_free(tied, way), square=_free(square, way))
                     for way in ways]  # fmt: skip
        yield asked
    yield from kept


def _free(pairs: Square, fixed: Mapping[str, int]) -> Square:
    return tuple(pair for pair in pairs if fixed.keys().isdisjoint(pair))


def _sizes(dims: Mapping[str, tuple[str, ...]], shapes: Mapping[str, Sequence[int]]) -> Mapping[str, int]:
    """Return the extents of dimensions that have a name, as in examples."""
    found = dict[str, int]()
    for name, some in dims.items():
        found |= {dim: int(size) for dim, size in zip(reversed(some), reversed(shapes[name]), strict=False)}
    return {dim: size for dim, size in found.items() if dim != OUTER}


def _parameters(
    reference: Callable[..., Any], dims: Collection[str] | None, examples: Sequence[Any] | Mapping[str, Any] | None
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of all parameters, and those of the required ones. A function without a signature, such as
    torch's own, takes the tensors that `shapes` or the examples name, in that order, or as many as there are examples,
    or x."""
    if not has_signature(reference):
        several = examples if isinstance(examples, Mapping) else [f"x{at}" for at in range(len(examples or ()))]
        names = [*(dims if dims is not None else several if len(several) > 1 else ["x"])]
        return names, names
    parameters = parameters_of(reference).values()
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return [each.name for each in named], [each.name for each in named if each.default is each.empty]


def _dtype(tensor: Any) -> str:
    return str(getattr(tensor, "dtype", "")).removeprefix("torch.")


def _shown(tensors: Mapping[str, Any]) -> Mapping[str, Shown]:
    """Return the range of values of each integer tensor with elements."""
    longest = max((int(size) for each in tensors.values() for size in each.shape), default=0)
    whole = {name: each for name, each in tensors.items() if "int" in _dtype(each) and math.prod(each.shape)}
    ends = {name: (int(each.min()), int(each.max())) for name, each in whole.items()}
    return {name: Shown(low, high, low >= 0 and high < longest) for name, (low, high) in ends.items()}


_LETTERS = "nmklhdcstuvw"
_MOST_APART = 6
"""The most axes for which other names are tried if a tensor has a dimension twice: six have 203 ways to name them."""


def _apart(dims: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[Mapping[str, tuple[str, ...]], Square, Square]]:
    """Yield the dimensions, if a tensor has one of them twice, with other names for its axes, the most names first.
    Then come pairs of dimensions that are equal in cases, and, in the last attempt, pairs equal in traced calls."""
    twice = next((dim for some in dims.values() for dim in some if dim != OUTER and some.count(dim) > 1), "")
    places = [(name, at) for name, some in dims.items() for at, dim in enumerate(some) if dim == twice]
    if not twice:
        yield dims, (), ()
        return
    names = [twice, *(each for each in _LETTERS if not any(each in some for some in dims.values()))]
    for which, is_tied in _namings([(len(dims[name]), at) for name, at in places], len(names)):
        given = dict(zip(places, which, strict=True))
        if len({(name, each) for (name, _), each in given.items()}) < len(places):
            continue
        renamed = {
            name: tuple(names[given[name, at]] if (name, at) in given else dim for at, dim in enumerate(some))
            for name, some in dims.items()
        }
        square = tuple(pairwise(names[: len({*which})]))
        own = square if is_tied else ()
        yield from ((found, (*square, *more), (*own, *tied)) for found, more, tied in _apart(renamed))


def _namings(places: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[Sequence[int], bool]]:
    """Yield ways to number axes by name, with whether names have equal extents in traced calls. Of an axis, the rank
    and the place are given. If there are many, axes as far from the end, or from the beginning, have one name."""
    if len(places) > _MOST_APART:
        for side in ([at - rank for rank, at in places], [at for _, at in places]):
            yield [sorted({*side}).index(each) for each in side], False
        return
    for count in range(len(places) - 1, 0, -1):
        for which in product(range(min(count + 1, most)), repeat=len(places)):
            if [*dict.fromkeys(which)] == [*range(count + 1)]:
                yield which, False
    yield range(len(places)), True


def _like(tensors: Mapping[str, Any]) -> Iterator[Mapping[str, tuple[str, ...]]]:
    """Yield the possible dimensions of example tensors. Equal extents have one name, and the last dimension of the
    tensor with the most axes is n. First the leading dimensions are "..." together, if all tensors allow it."""
    called = dict[int, str]()
    for tensor in sorted(tensors.values(), key=lambda each: -len(each.shape)):
        for size in reversed(tensor.shape):
            called.setdefault(int(size), _LETTERS[len(called) % len(_LETTERS)])
    plain = {name: tuple(called[int(size)] for size in tensor.shape) for name, tensor in tensors.items()}
    whole = max(plain.values(), key=len, default=())
    leading = whole[:-1]
    apart = all(dims[:-1] == leading or not {*dims} & {*leading} for dims in plain.values())
    if leading and apart and whole[-1] not in leading:
        yield {name: (OUTER, *dims[-1:]) if dims[:-1] == leading else dims for name, dims in plain.items()}
    yield plain
