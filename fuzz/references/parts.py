"""Functions of complex numbers as functions of their real and imaginary parts: what is drawn, judged and reported are
the parts, `z_real` and `z_imag` of `z`. A reference and a kernel are made such functions alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fuzz.core.transport.python.halves import (
    IMAG,
    REAL,
    halves_of,
    in_halves,
    in_parts,
    is_complex,
    of_parts,
    part_names,
)
from fuzz.references.arrays import as_tensors
from fuzz.references.asked import Shapes
from fuzz.references.dims import parsed
from fuzz.references.layers import as_function, weights_of
from fuzz.references.names import returned_names
from fuzz.references.parameters import OF_PARTS, has_signature, name_of, parameters_of
from oracles.operand import OUTER

PARTS_SAID = f"a complex z is its parts z{REAL} and z{IMAG}"

Examples = Sequence[Any] | Mapping[str, Any]
Menus = Mapping[str, str] | str


@dataclass(frozen=True)
class Parted:
    """The arguments of a reference, and those among them that are tensors of complex numbers."""

    names: Sequence[str]
    complexes: Sequence[str]

    @property
    def halves(self) -> list[str]:
        """The names of its arguments, with both parts in place of a tensor of complex numbers."""
        return [half for name in self.names for half in (part_names(name) if name in self.complexes else (name,))]

    @property
    def parts(self) -> frozenset[str]:
        """The names of the parts of its tensors of complex numbers."""
        return frozenset(half for name in self.complexes for half in part_names(name))

    def asked(
        self, reference: Callable[..., Any], shapes: Shapes | None, known: Mapping[str, Any], values: Menus
    ) -> tuple[Callable[..., Any], Shapes | None, Mapping[str, Any], Menus]:
        """Return a reference, and what is known of its tensors, in parts."""
        examples, dtypes = known["example_inputs"], known["dtypes"] or {}
        return (
            self.reference(reference), self._shapes(shapes, examples),
            {**known, "example_inputs": None if examples is None else self.examples(examples),
             "dtypes": {name: each for name, each in dtypes.items() if name not in self.complexes}},
            values if isinstance(values, str) else self._halved(values),
        )  # fmt: skip

    def reference(self, reference: Callable[..., Any]) -> Callable[..., Any]:
        """Return a reference as a function of the parts of its tensors that returns those of its results, by name."""
        plain = as_function(reference) if weights_of(reference) else as_tensors(reference)
        found = in_parts(
            plain, self.complexes, self.names, lambda some: _named_halves(some, returned_names(reference)),
            is_named=has_signature(plain),
        )  # fmt: skip
        found.__name__ = name_of(reference)
        setattr(found, OF_PARTS, reference)
        return found

    def kernel(self, kernel: Callable[..., Any], outputs: Sequence[str]) -> Callable[..., Any]:
        """Return a kernel as a function of parts. Its arguments are named like the reference's, or else have the same
        places; it may have arguments for `outputs` too, of which the parts are known here."""
        own = [*inspect.signature(kernel).parameters] if has_signature(kernel) else [*self.names]
        return of_parts(kernel, own, self.names, self.complexes, outputs, is_named=has_signature(kernel))

    def examples(self, examples: Examples) -> Mapping[str, Any]:
        """Return examples by the names of the parts."""
        return self._halved(_named(self.names, examples))

    def _shapes(self, shapes: Shapes | None, examples: Examples | None) -> Shapes | None:
        if shapes is None:
            is_alone = len(self.names) == 1 and examples is None
            return self._halved({self.names[0]: f"{OUTER} n"}) if is_alone else None
        dims, numbers = parsed(shapes, twice=True)
        return {**self._halved({name: " ".join(some) for name, some in dims.items()}), **numbers}

    def _halved(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a mapping by tensor with an entry for each part of complex ones: the part of a tensor, or the same."""
        found = dict[str, Any]()
        for name, value in given.items():
            if name in self.complexes:
                halves = halves_of(value) if is_complex(value) else (value, value)
                found |= zip(part_names(name), halves, strict=True)
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


def _named_halves(returned: Any, known: Sequence[str]) -> Any:
    """Return results with parts in place of complex tensors, by the `known` names; "" is no name."""
    several = [*returned] if isinstance(returned, (tuple, list)) else [returned]
    if hasattr(returned, "_asdict") or not any(map(is_complex, several)):
        return in_halves(returned)
    names = known if len(known) == len(several) else [""] * len(several)
    plain = [name or ("y" if len(several) == 1 else f"y{at}") for at, name in enumerate(names)]
    return in_halves(dict(zip(plain, several, strict=True)))


def _named(names: Sequence[str], examples: Examples) -> Mapping[str, Any]:
    return examples if isinstance(examples, Mapping) else dict(zip(names, examples, strict=False))
