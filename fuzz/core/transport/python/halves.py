"""Functions of complex tensors as functions of their parts, for kernels here and in workers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from fuzz.core.base.outcome import MisuseError

REAL, IMAG = "_real", "_imag"
"""The ends of the names of parts."""
_KNOWN = "complex64", "complex128"


def is_complex(given: Any) -> bool:
    """Whether a tensor, or a dtype, is one of complex numbers."""
    return str(getattr(given, "dtype", getattr(given, "__name__", given))).removeprefix("torch.") in _KNOWN


def part_dtype(dtype: str) -> str:
    """Return the dtype of the parts of complex numbers, by torch's name; another dtype unchanged."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def wholes_of(names: Sequence[str]) -> list[str]:
    """Return the names of tensors with the whole in place of both of its parts."""
    made = {each.removesuffix(REAL) for each in names if f"{each.removesuffix(REAL)}{IMAG}" in names}
    of_halves = {half: name for name in made for half in part_names(name)}
    return [*dict.fromkeys(of_halves.get(each, each) for each in names)]


def part_names(name: str) -> tuple[str, str]:
    """Return the names of the real and the imaginary part."""
    return f"{name}{REAL}", f"{name}{IMAG}"


def of_parts(
    kernel: Callable[..., Any], own: Sequence[str], names: Sequence[str], complexes: Sequence[str],
    outputs: Sequence[str], *, is_named: bool,
) -> Callable[..., Any]:  # fmt: skip
    """Return a kernel as a function of parts. `own` are its arguments, `names` those of the reference, of which the
    `complexes` are complex; `outputs` are those of the op."""
    at = dict(zip(names, names if {*names} <= {*own} else own, strict=False))
    taken = [at[name] for name in complexes if name in at and f"{at[name]}{REAL}" not in own]
    wholes = wholes_of(outputs)
    made = [each for each in wholes if each not in outputs]

    def split(returned: Any) -> Any:
        several = returned if isinstance(returned, (tuple, list, Mapping)) else [returned]
        if returned is None or not wholes or {*wholes} & {*own} or len(several) == len(outputs):
            return in_halves(returned)
        if len(several) != len(wholes):
            what = f"a {type(returned).__name__} of {len(several)}" if several is returned else "one tensor"
            raise MisuseError(f"it returned {what}: return ({', '.join(wholes)}), or a dict with these names")
        for name, value in zip(wholes, several, strict=True) if not isinstance(returned, Mapping) else ():
            if name in made and not is_complex(value):
                raise TypeError(f"it returns real numbers for {name}, which is complex")
        found = in_halves(returned)
        return dict(zip(outputs, found, strict=True)) if isinstance(found, tuple) else found

    return in_parts(
        kernel, [*taken, *(each for each in made if each in own)], own, split, is_named=is_named, writes=True
    )


def in_parts(
    function: Callable[..., Any], complexes: Collection[str], names: Sequence[str], split: Callable[[Any], Any],
    *, is_named: bool, writes: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that takes the parts of the `complexes` among its arguments, and returns what `split` makes of
    its results. `names` are the arguments of a function that is not called by name. If it `writes`, the whole has the
    strides of the real part, and what is written to it is written to the parts."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = (
        inspect.signature(function).parameters if is_named else {each: inspect.Parameter(each, kind) for each in names}
    )
    halves = [(name, half) for name in own for half in (part_names(name) if name in complexes else (name,))]
    signature = inspect.Signature([own[name].replace(name=half) for name, half in halves])

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(*args, **kwargs).arguments)
        pairs = {
            name: [given.pop(half) for half in part_names(name)] for name in complexes if part_names(name)[0] in given
        }
        wholes = {name: _whole(*pair, strided=writes) for name, pair in pairs.items()}
        given |= wholes
        returned = function(**given) if is_named else function(*(given[name] for name in own))
        for name, pair in pairs.items() if writes else ():
            for half, new in zip(pair, halves_of(wholes[name]), strict=True):
                _write(half, new)
        return split(returned)

    setattr(called, "__signature__", signature)  # noqa: B010 (a function has none to a checker of types)
    return called


def in_halves(returned: Any) -> Any:
    """Return results with their parts in place of complex tensors; by name, if they have names."""
    if isinstance(returned, Mapping) or hasattr(returned, "_asdict"):
        named = returned if isinstance(returned, Mapping) else returned._asdict()
        pairs = [
            (part_names(name), halves_of(each)) if is_complex(each) else ((name,), (each,))
            for name, each in named.items()
        ]
        return {name: each for names, some in pairs for name, each in zip(names, some, strict=True)}
    several = [*returned] if isinstance(returned, (tuple, list)) else [returned]
    if not any(map(is_complex, several)):
        return returned
    return tuple(half for each in several for half in (halves_of(each) if is_complex(each) else (each,)))


def halves_of(value: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part of a tensor."""
    value = value.resolve_conj() if hasattr(value, "resolve_conj") else value
    return value.real, value.imag


def _whole(real: Any, imag: Any, *, strided: bool) -> Any:
    """Return the complex tensor with these parts; `strided`, with the strides of the real part, where possible."""
    if isinstance(real, np.ndarray):
        found = np.empty_like(real, dtype=np.result_type(real, np.complex64))
        found.real, found.imag = real, imag
        return found
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(real, torch.Tensor):
        real, imag = (each.float() if each.dtype.itemsize == 2 else each for each in (real, imag))
    else:
        import jax

        return jax.lax.complex(real, imag)
    found = torch.complex(real, imag)
    if strided and found.stride() != real.stride() and 0 not in real.stride():
        return torch.empty_strided(real.shape, real.stride(), dtype=found.dtype, device=found.device).copy_(found)
    return found


def _write(half: Any, new: Any) -> None:
    """Write to a part what a kernel has written to the whole, so that a kernel that changes its inputs is found."""
    if isinstance(half, np.ndarray):
        if half.tobytes() != new.tobytes():
            half[...] = new
    elif half.to(new.dtype).cpu().numpy().tobytes() != new.detach().cpu().numpy().tobytes():
        half.copy_(new.detach())
