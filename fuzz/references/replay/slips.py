"""Slips: what a kernel may do in place of one operation of its reference, as rows of one table. A reference with a slip
is another program; whether a kernel returns what that returns is seen in `fuzz.references.replay.causes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fuzz.references.alike import Arrays
from fuzz.references.tracing import arguments_of, intercepted, tensors_in

Reference = Callable[..., Any]
_MOST_CALLS = 24
"""The most operations of a reference that are changed one by one: a loop may have thousands. Chosen, not measured."""


@dataclass(frozen=True)
class AtenCall:
    """One call of an operation of torch."""

    function: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """The operation's name without 'aten', such as 'remainder'."""
        return str(self.function._schema.name.partition("::")[2])

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by name, defaults included."""
        return arguments_of(self.function, self.args, self.kwargs)

    def run(self, **changed: Any) -> Any:
        """Return the result, with some arguments `changed`."""
        if not changed:
            return self.function(*self.args, **self.kwargs)
        return self.function(**{**self.given, **changed})

    def moved(self, change: Callable[[Any], Any]) -> Any:
        """Return the result with the first tensor changed."""
        first, *rest = self.args
        return self.function(change(first), *rest, **self.kwargs)


Change = Callable[[AtenCall], Any]


@dataclass(frozen=True)
class Slip:
    """A row of the table."""

    words: str
    """What the kernel does, after 'as if', with {op} for the operation."""
    of: str
    """The operations that it is about, '' for all."""
    change: Change
    """The function that returns the wrong result; None where there is none. It may raise, which counts as None."""

    def fits(self, name: str) -> bool:
        """Return whether it is about an operation of this name."""
        return not self.of or name.rstrip("_") in self.of.split() or name in self.of.split()


def _whole(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype != torch.bool


def _logical(call: AtenCall) -> Any:
    """Return a right shift that moves in zeros."""
    import torch

    x, by = call.args[:2]
    bits = torch.iinfo(x.dtype).bits
    by = torch.as_tensor(by).to(torch.int64)
    kept = torch.where(by > 0, ~(torch.tensor(-1) << (bits - by).clamp(0, 63)), torch.tensor(-1))
    return ((x.to(torch.int64) >> by) & kept).to(x.dtype)


def _in(dtype: str, *, saturates: bool) -> Change:
    """Return a change to a result of integers: it saturates, or else wraps around, in a shorter dtype."""

    def change(call: AtenCall) -> Any:
        import torch

        right, narrow = call.run(), getattr(torch, dtype)
        ends = torch.iinfo(narrow)
        if not _whole(right) or ends.bits > torch.iinfo(right.dtype).bits:
            return None
        return right.clamp(ends.min, ends.max) if saturates else right.to(narrow).to(right.dtype)

    return change


def _without_wrapping(call: AtenCall) -> Any:
    """Return a result of integers that saturates in its own dtype."""
    import torch

    right, wide = call.run(), [each.long() if _whole(each) else each for each in call.args]
    ends = torch.iinfo(right.dtype)
    return call.function(*wide, **call.kwargs).clamp(ends.min, ends.max).to(right.dtype) if ends.bits < 64 else None


def _left_out(call: AtenCall) -> Any:
    """Return the first tensor, if the result has its shape. A cast between integers leaves out the new range."""
    right, [first, *_] = call.run(), [*tensors_in(call.args)]
    if call.name == "_to_copy":
        return first.clone() if _whole(first) and _whole(right) else None
    return first.clone().to(right.dtype) if right.shape == first.shape else None


def _exchanged(call: AtenCall) -> Any:
    one, other, *rest = call.args
    import torch

    one, other = (each if isinstance(each, torch.Tensor) else torch.tensor(each) for each in (one, other))
    return call.function(other, one, *rest, **call.kwargs)


def _as(name: str) -> Change:
    """Return a change to the function of torch with this name."""

    def change(call: AtenCall) -> Any:
        import torch

        found: Any = getattr(torch, name)(*call.args, **call.kwargs)
        right = call.run()
        return tuple(found) if isinstance(right, tuple) else found.to(right.dtype)

    return change


def _divided(mode: str) -> Change:
    def change(call: AtenCall) -> Any:
        import torch

        whole = call.kwargs.get("rounding_mode") not in (None, mode) or call.name.startswith("floor_divide")
        return torch.div(*call.args[:2], rounding_mode=mode) if whole else None

    return change


def _with(**changed: Callable[[Any], Any]) -> Change:
    """Return a change of arguments by name, each to what its function makes of it."""

    def change(call: AtenCall) -> Any:
        others = {name: make(call.given[name]) for name, make in changed.items() if name in call.given}
        return call.run(**others) if others else None

    return change


def _turned(call: AtenCall, place: int) -> Any:
    args = [*call.args]
    args[place] = args[place].mT
    return call.function(*args, **call.kwargs)


def _other_axis(call: AtenCall) -> Any:
    own, right = call.given, call.run()
    dim = own["dim"]
    first = dim[0] if isinstance(dim, (list, tuple)) else dim
    other = (first + 1) % call.args[0].dim()
    found = call.run(dim=[other] if isinstance(dim, (list, tuple)) else other)
    return found if next(tensors_in(found)).shape == next(tensors_in(right)).shape else None


def _first_nan_stays(call: AtenCall) -> Any:
    """Return the place of the largest element that is found by `>`, which no NaN is, from the first element on."""
    import torch

    x, dim = call.args[0], call.given["dim"]
    least = call.name == "argmin"
    flat = x.reshape(-1) if dim is None else x.movedim(dim, -1)
    worst = torch.inf if least else -torch.inf
    found = _as(call.name)(AtenCall(call.function, (torch.where(flat.isnan(), worst, flat), -1), {}))
    # a NaN in front stays
    found = torch.where(flat[..., 0].isnan(), 0, found)
    return found if not call.given.get("keepdim") else None


def _last_first(call: AtenCall) -> Any:
    """Return a selection with equal elements in reverse order."""
    x, dim, right = call.args[0], call.given.get("dim"), call.run()
    if dim is None:
        return None if x.dim() != 1 else x.numel() - 1 - call.moved(lambda each: each.flip(0))
    found, last = call.moved(lambda each: each.flip(dim)), x.shape[dim] - 1
    return (found[0], last - found[1]) if isinstance(right, tuple) else last - found


def _in_place_of_nan(other: float) -> Change:
    """Return a change of the first tensor: another number in place of NaN."""

    def change(call: AtenCall) -> Any:
        return call.moved(lambda each: each.where(each == each, other)) if bool(call.args[0].isnan().any()) else None

    return change


def _before(call: AtenCall) -> Any:
    """Return a cumulated sum without the element itself."""
    right, dim = call.run(), call.given["dim"]
    empty = right.narrow(dim, 0, 1) * 0 + (1 if "prod" in call.name else 0)
    import torch

    return torch.cat([empty, right.narrow(dim, 0, right.shape[dim] - 1)], dim)


def _without_last_edge(call: AtenCall) -> Any:
    given, right = call.given, call.run()
    high = given["max"] if given["min"] != given["max"] else given["self"].max().item()
    found = right.clone()
    found[-1] -= int((given["self"] == high).sum())
    return found


def _last_of_equal(call: AtenCall) -> Any:
    """Return a sum by places in which, of several terms for one place, the last one alone is added."""
    given = call.given
    if call.name.startswith("index_add"):
        base, dim, index, source = given["self"].clone(), given["dim"], given["index"], given["source"]
        place = (slice(None),) * (dim % base.dim()) + (index,)
        base[place] = base[place] + source
        return base
    base, dim, index, source = given["self"], given["dim"], given["index"], given["src"]
    return base.scatter(dim, index, base.gather(dim, index) + source.narrow(dim, 0, index.shape[dim]))


def _whole_blocks(block: int) -> Change:
    """Return a change to a reduction without the elements behind the last whole block."""

    def change(call: AtenCall) -> Any:
        x, dim = call.args[0], call.given.get("dim")
        dims = [*dim] if isinstance(dim, (list, tuple)) else [dim]
        if len(dims) != 1 or dims[0] is None:
            return None
        n = x.shape[dims[0]] // block * block
        return call.moved(lambda each: each.narrow(dims[0], 0, n)) if n else None

    return change


_ORDER = "sort topk argmax argmin kthvalue median mode max min"
_ROUNDING = "floor ceil round trunc"
_SUMS = "add sub mul sum cumsum neg abs __lshift__ bitwise_left_shift mm bmm prod"
TABLE: tuple[Slip, ...] = (
    Slip("the remainder had the sign of the dividend", "remainder", _as("fmod")),
    Slip("the remainder had the sign of the divisor", "fmod", _as("remainder")),
    Slip("quotients were rounded towards zero", "div floor_divide", _divided("trunc")),
    Slip("quotients were rounded down", "div", _divided("floor")),
    Slip("{op} moved zeros in place of the sign", "__rshift__ bitwise_right_shift", _logical),
    *(Slip(f"{{op}} were {name}", _ROUNDING, _as(name)) for name in _ROUNDING.split()),
    Slip("equal elements went to the other side of {op}", "searchsorted bucketize",
         _with(right=lambda right: not right, side=lambda side: None)),
    Slip("elements equal to the last edge were not counted", "histc", _without_last_edge),
    Slip("NaN were never larger, nor smaller", "argmax argmin", _first_nan_stays),
    Slip("NaN were left out", "argmax max amax maximum topk", _in_place_of_nan(float("-inf"))),
    Slip("NaN were left out", "argmin min amin minimum", _in_place_of_nan(float("inf"))),
    Slip("of equal elements the last came first", _ORDER, _last_first),
    Slip("{op} were in the other direction", "sort topk",
         _with(descending=lambda each: not each, largest=lambda each: not each)),
    *(Slip(f"{{op}} were {other}", one, _as(other)) for pair in (
        ("argmax", "argmin"), ("amax", "amin"), ("maximum", "minimum"), ("max", "min"), ("any", "all"),
        ("bitwise_and", "bitwise_or"), ("bitwise_or", "bitwise_xor"), ("sum", "mean"), ("sin", "cos"), ("exp", "exp2"),
        ("log", "log2"), ("log", "log10"), ("log", "log1p"), ("exp", "expm1"), ("median", "nanmedian"),
    ) for one, other in (pair, pair[::-1])),
    *(Slip(f"{one} were {other}", one, _as(other)) for one, other in (
        ("ge", "gt"), ("gt", "ge"), ("le", "lt"), ("lt", "le"), ("add", "sub"), ("sub", "add"),
    )),
    Slip("the divisor of {op} were n in place of n - 1, or the reverse", "var std var_mean",
         _with(correction=lambda each: 0 if each in (None, 1) else 1)),
    Slip("{op} left out the element itself", "cumsum cumprod", _before),
    Slip("{op} went from the end", "cumsum cumprod cummax cummin",
         lambda call: call.moved(lambda each: each.flip(call.given["dim"])).flip(call.given["dim"])),
    Slip("{op} went along another axis",
         "cumsum cumprod cummax cummin sort _softmax _log_softmax sum mean amax amin argmax argmin flip roll",
         _other_axis),
    Slip("{op} went the other way", "roll", _with(shifts=lambda each: [-one for one in each])),
    Slip("the diagonal of {op} were one higher", "tril triu", _with(diagonal=lambda each: each + 1)),
    Slip("the diagonal of {op} were one lower", "tril triu", _with(diagonal=lambda each: each - 1)),
    Slip("the other triangle were kept", "tril", _as("triu")),
    Slip("the other triangle were kept", "triu", _as("tril")),
    Slip("k were one more", "kthvalue", _with(k=lambda k: k + 1)),
    Slip("k were one less", "kthvalue", _with(k=lambda k: k - 1)),
    Slip("the diagonal were 1", "linalg_solve_triangular", _with(unitriangular=lambda each: not each)),
    Slip("the other triangle were read", "linalg_solve_triangular", _with(upper=lambda each: not each)),
    Slip("the matrix were transposed", "linalg_solve_triangular _linalg_solve_ex linalg_inv_ex",
         lambda call: _turned(call, 0)),
    Slip("the first factor of {op} were transposed", "mm bmm mv", lambda call: _turned(call, 0)),
    Slip("the second factor of {op} were transposed", "mm bmm", lambda call: _turned(call, 1)),
    Slip("of several terms for one place one were added", "index_add scatter_add", _last_of_equal),
    *(Slip(f"{{op}} left out the elements behind the last whole block of {block}",
           "sum mean amax amin prod any all argmax argmin", _whole_blocks(block))
      for block in (2, 4, 8, 16, 32, 64)),
    Slip("the operands of {op} were exchanged", "sub div pow remainder fmod atan2 __rshift__ __lshift__ floor_divide",
         _exchanged),
    Slip("the lower limit of {op} were left out", "clamp", _with(min=lambda each: None)),
    Slip("the upper limit of {op} were left out", "clamp", _with(max=lambda each: None)),
    Slip("{op} were left out", "", _left_out),
    *(Slip(f"{{op}} wrapped around in {dtype}", _SUMS, _in(dtype, saturates=False))
      for dtype in ("int32", "int16", "int8")),
    Slip("{op} saturated", _SUMS, _without_wrapping),
    *(Slip(f"{{op}} saturated in {dtype}", _SUMS, _in(dtype, saturates=True))
      for dtype in ("int32", "int16", "int8", "uint8")),
)  # fmt: skip
"""The slips, the plainest first: of two that say the same of all cases the first is told."""


def _calls_of(reference: Reference, arrays: Arrays) -> Sequence[str]:
    """Return the names of the operations that a reference calls for these inputs, in their order."""
    import torch

    names = list[str]()

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        names.append(AtenCall(function, args, kwargs).name)
        return function(*args, **kwargs)

    tensors = {name: torch.tensor(each) for name, each in arrays.items()}
    with suppress(Exception), intercepted(noted):
        reference(**tensors)
    return names


def changed(reference: Reference, arrays: Arrays) -> Iterator[tuple[str, Reference]]:
    """Yield, with words, the reference with each slip that is about one of its operations: in all calls of the
    operation, and, if there are several, in each of the first ones."""
    names = _calls_of(reference, arrays)
    for slip in TABLE:
        for name in [each for each in dict.fromkeys(names) if slip.fits(each)]:
            op, count = name.strip("_"), names.count(name)
            yield (slip.words.format(op=_SAID.get(op, op)), _with_slip(reference, slip, name, None))
            for at in range(min(count, _MOST_CALLS) if count > 1 else 0):
                which = f"{_SAID.get(op, op)} number {at + 1} of {count}"
                yield (slip.words.format(op=which), _with_slip(reference, slip, name, at))


_SAID = {
    "rshift": "the right shift", "lshift": "the left shift", "to_copy": "the casts between integers",
    "linalg_solve_ex": "solve", "linalg_inv_ex": "inv", "mm": "the product", "bmm": "the product",
}  # fmt: skip
"""The words for operations whose own name says little."""


def _with_slip(reference: Reference, slip: Slip, name: str, only: int | None) -> Reference:
    def called(**tensors: Any) -> Any:
        count = 0

        def slipping(function: Any, args: Any, kwargs: Any) -> Any:
            nonlocal count
            call, found = AtenCall(function, args, kwargs), None
            if call.name == name:
                count += 1
                if only in (None, count - 1):
                    with suppress(Exception):
                        found = slip.change(call)
            if found is not None and name.endswith("_") and not name.endswith("__"):
                return args[0].copy_(found)
            return call.run() if found is None else found

        with intercepted(slipping):
            return reference(**tensors)

    return called
