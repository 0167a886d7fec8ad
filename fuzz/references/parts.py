"""Functions of complex numbers as functions of their real and imaginary parts: what is drawn, judged and reported are
the parts, `z_real` and `z_imag` of `z`. A reference and a kernel are made such functions alike."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from fuzz.core.base.outcome import MisuseError
from fuzz.references.arrays import as_tensors
from fuzz.references.asked import Shapes
from fuzz.references.dims import parsed
from fuzz.references.layers import as_function, weights_of
from fuzz.references.libraries import OF_PARTS
from fuzz.references.names import returned_names
from fuzz.references.parameters import has_signature, name_of, parameters_of
from oracles.operand import OUTER

REAL, IMAG = "_real", "_imag"
"""The ends of the names of parts."""
PARTS_SAID = f"a complex z is its parts z{REAL} and z{IMAG}"
_KNOWN = "complex64", "complex128"

Examples = Sequence[Any] | Mapping[str, Any]
Menus = Mapping[str, str] | str


def is_complex(given: Any) -> bool:
    """Whether a tensor, or a dtype, is one of complex numbers."""
    return str(getattr(given, "dtype", getattr(given, "__name__", given))).removeprefix("torch.") in _KNOWN


@dataclass(frozen=True)
class Parted:
    """The arguments of a reference, and those among them that are tensors of complex numbers."""

    names: Sequence[str]
    complexes: Sequence[str]

    @property
    def parts(self) -> frozenset[str]:
        """The names of the parts of its tensors of complex numbers."""
        return frozenset(half for name in self.complexes for half in _names(name))

    def asked(
        self, reference: Callable[..., Any], shapes: Shapes | None, known: Mapping[str, Any], values: Menus
    ) -> tuple[Callable[..., Any], Shapes | None, Mapping[str, Any], Menus]:
        """Return a reference, and what is known of its tensors, in parts."""
        examples, dtypes = known["example_inputs"], known["dtypes"] or {}
        return (
            self.reference(reference), self._shapes(shapes),
            {**known, "example_inputs": None if examples is None else self.examples(examples),
             "dtypes": {name: each for name, each in dtypes.items() if name not in self.complexes}},
            values if isinstance(values, str) else self._halved(values),
        )  # fmt: skip

    def reference(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """Return a reference as a function of the parts of its tensors that returns those of its results, by name."""
        plain = as_function(reference) if weights_of(reference) else as_tensors(reference)
        found = _in_parts(plain, self.complexes, self.names, lambda some: in_halves(some, returned_names(reference)))
        found.__name__ = name_of(reference)
        setattr(found, OF_PARTS, reference)
        return found

    def kernel(self, kernel: Callable[..., Any], outputs: Sequence[str]) -> Callable[..., Any]:
        """Return a kernel as a function of parts. Its arguments are named like the reference's, or else have the same
        places; it may have arguments for `outputs` too, of which the parts are known here."""
        own = [*inspect.signature(kernel).parameters] if has_signature(kernel) else [*self.names]
        at = dict(zip(self.names, self.names if {*self.names} <= {*own} else own, strict=False))
        taken = [at[name] for name in self.complexes if name in at and f"{at[name]}{REAL}" not in own]
        made = [each.removesuffix(REAL) for each in outputs if f"{each.removesuffix(REAL)}{IMAG}" in outputs]
        of_halves = {half: name for name in made for half in _names(name)}
        wholes = [*dict.fromkeys(of_halves.get(each, each) for each in outputs)]

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
            return in_halves(returned)

        return _in_parts(kernel, [*taken, *(each for each in made if each in own)], own, split, writes=True)

    def examples(self, examples: Examples) -> Mapping[str, Any]:
        """Return examples by the names of the parts."""
        return self._halved(_named(self.names, examples))

    def _shapes(self, shapes: Shapes | None) -> Shapes | None:
        if shapes is None:
            return self._halved({self.names[0]: f"{OUTER} n"}) if len(self.names) == 1 else None
        dims, numbers = parsed(shapes, twice=True)
        return {**self._halved({name: " ".join(some) for name, some in dims.items()}), **numbers}

    def _halved(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a mapping by tensor with an entry for each part of complex ones: the part of a tensor, or the same."""
        found = dict[str, Any]()
        for name, value in given.items():
            if name in self.complexes:
                halves = _halves(value) if is_complex(value) else (value, value)
                found |= zip(_names(name), halves, strict=True)
            else:
                found[name] = value
        return found


def parted_of(
    reference: Callable[..., Any], shapes: Shapes | None, examples: Examples | None, dtypes: Mapping[str, Any] | None
) -> Parted:
    """Return the arguments of a reference: a tensor is of complex numbers by its stated dtype, or by its example."""
    if has_signature(reference):
        names = [*parameters_of(reference)]
    else:
        several = examples if isinstance(examples, Mapping) else [f"x{at}" for at in range(len(examples or ()))]
        names = [*(parsed(shapes, twice=True)[0] if shapes is not None else several if len(several) > 1 else ["x"])]
    shown = {**_named(names, examples or ()), **(dtypes or {})}
    return Parted(names, [name for name in names if is_complex(shown.get(name))])


def _names(name: str) -> tuple[str, str]:
    return f"{name}{REAL}", f"{name}{IMAG}"


def _named(names: Sequence[str], examples: Examples) -> Mapping[str, Any]:
    return examples if isinstance(examples, Mapping) else dict(zip(names, examples, strict=False))


def _in_parts(
    function: Callable[..., Any], complexes: Collection[str], names: Sequence[str], split: Callable[[Any], Any],
    *, writes: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that takes the parts of the `complexes` among its arguments, and returns what `split` makes of
    its results. `names` are the arguments of a function without a signature. If it `writes`, the whole has the strides
    of the real part, and what is written to it is written to the parts."""
    is_named, kind = has_signature(function), inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = (
        inspect.signature(function).parameters if is_named else {each: inspect.Parameter(each, kind) for each in names}
    )
    halves = [(name, half) for name in own for half in (_names(name) if name in complexes else (name,))]
    signature = inspect.Signature([own[name].replace(name=half) for name, half in halves])

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(*args, **kwargs).arguments)
        pairs = {name: [given.pop(half) for half in _names(name)] for name in complexes if _names(name)[0] in given}
        wholes = {name: _whole(*pair, strided=writes) for name, pair in pairs.items()}
        given |= wholes
        returned = function(**given) if is_named else function(*(given[name] for name in own))
        for name, pair in pairs.items() if writes else ():
            for half, new in zip(pair, _halves(wholes[name]), strict=True):
                _write(half, new)
        return split(returned)

    setattr(called, "__signature__", signature)  # noqa: B010 (a function has none to a checker of types)
    return called


def in_halves(returned: Any, known: Sequence[str] | None = None) -> Any:
    """Return results with their parts in place of complex tensors; by name, if names are `known`, or "" for some."""
    if isinstance(returned, Mapping) or hasattr(returned, "_asdict"):
        named = returned if isinstance(returned, Mapping) else returned._asdict()
        pairs = [
            (_names(name), _halves(each)) if is_complex(each) else ((name,), (each,)) for name, each in named.items()
        ]
        return {name: each for names, some in pairs for name, each in zip(names, some, strict=True)}
    several = [*returned] if isinstance(returned, (tuple, list)) else [returned]
    if not any(map(is_complex, several)):
        return returned
    if known is None:
        return tuple(half for each in several for half in (_halves(each) if is_complex(each) else (each,)))
    names = known if len(known) == len(several) else [""] * len(several)
    plain = [name or ("y" if len(several) == 1 else f"y{at}") for at, name in enumerate(names)]
    return in_halves(dict(zip(plain, several, strict=True)))


def _halves(value: Any) -> tuple[Any, Any]:
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
