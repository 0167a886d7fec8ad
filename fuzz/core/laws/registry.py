"""All laws by name, and the choice of the law that is checked on a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from fuzz.core.base.case import Case
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.probe import PROBES
from fuzz.core.base.stream import Stream, child_key
from fuzz.core.laws.law import Law, LawCheck
from oracles.lazy import ReadWhenAsked

_HOME = {
    "rerun": "values", "row_permutation": "slices", "batch_subset": "slices", "batch_append": "slices",
    "scaling": "scaling", "sign_flip": "values", "layout": "placement", "in_place": "placement",
    "surroundings": "placement", "alignment": "placement", "threads": "values",
    "impulse": "transforms",
    **dict.fromkeys(PROBES, "probes"),
}  # fmt: skip
"""The module of each law, which is imported when the law is first needed."""


def _law(name: str) -> Law:
    laws = (each for each in vars(import_module(f"fuzz.core.laws.{_HOME[name]}")).values() if isinstance(each, Law))
    return next(law for law in laws if law.name == name)


LAWS: Mapping[str, Law] = ReadWhenAsked(_HOME, _law)
ONE_IN = 8
"""One case in this many gets a twin. Twins are judged like any case but visit little that is new, so they take at most
a ninth of a search."""


def declared(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """Return the laws that at least one of these kernels declares, in the order of `LAWS`."""
    wanted = {law for kernel in kernels for law in kernel.laws}
    return tuple(law for law in LAWS if law in wanted)


@dataclass(frozen=True)
class Entry:
    """A case to run. A twin comes right after the case from which it is made."""

    case: Case
    check: LawCheck | None = None
    """The law by which this case is a twin, or None if it is no twin."""


def twin_of(case: Case, check: LawCheck) -> Entry:
    """Return the entry that checks a law on `case`. The twin has no labels, since it may visit others than its case."""
    twin = check.twin(case)
    return Entry(replace(twin, origin=replace(twin.origin, labels=())), check)


def with_twins(cases: Iterable[Case], laws: Sequence[str], one_in: int = ONE_IN) -> list[Entry]:
    """Return the cases, about one in `one_in` followed by its twin. The seed and place of a case decide whether it has
    a twin, and by which law of `laws`. The machine and earlier cases have no influence."""
    entries = []
    for case in cases:
        entries.append(Entry(case))
        check = _chosen(case, laws, one_in)
        if check is not None:
            entries.append(twin_of(case, check))
    return entries


def _chosen(case: Case, laws: Sequence[str], one_in: int) -> LawCheck | None:
    key = _key(case)
    if key % one_in:
        return None
    fitting = [law for law in map(LAWS.__getitem__, laws) if law.applies(case) for _ in range(law.tickets)]
    if not fitting:
        return None
    return LawCheck(fitting[int(Stream(key).child("law").words(1)[0]) % len(fitting)], key)


def _key(case: Case) -> int:
    """Return a number for each case. For a case of a search its bits are not read, since digests are slow."""
    origin = case.origin
    if not origin.name:
        return int(case.digest[:16], 16)
    return child_key(origin.seed, origin.name)
