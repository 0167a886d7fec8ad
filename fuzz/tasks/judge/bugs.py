"""The bugs of a solution, each as one object that a program can act on, with the inputs of a failing case as an
expression of Python, so that anybody can make them without a case file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import msgspec
import numpy as np

from fuzz.core.adapters.target import Target
from fuzz.core.base.case import SPARE, Case, Tensor
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import from_bits
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search
from fuzz.explain.explanation import Explanation
from fuzz.explain.facts import explanation_of
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Tally
from fuzz.references.replay.oracle import ReplayFailure
from fuzz.references.replay.recipe import ReplayRecipe, given
from fuzz.report.brief import brief_of
from fuzz.report.filing import expression
from fuzz.report.outline import VERDICT, tally_broken
from fuzz.tasks.judge.ruling import BugLine, FoundBug
from oracles.ops import OPS
from oracles.rounding import NATIVE

_LISTED = 16
"""The most elements that are listed one by one."""
_MOST, _MOST_BYTES = 1000, 1 << 16
"""The most characters of a tensor's packed bits, and the most bytes that are packed to see how many they are. Chosen: a
thousand characters are a few lines."""


def expression_of(cases: Sequence[Case], search: Search | None = None, pack: str = "") -> str:
    """Return an expression that makes the inputs and parameters of the first of some cases for which this takes a few
    lines, and '' if there is none: their values if they are few or alike, else their recipe if the search has drawn the
    case, else their bits."""
    for case in cases:
        if found := _dict_of(case, _listed):
            return found
        if search is not None and (recipe := _recipe(case, search)) is not None:
            made, numbers = f"fuzz.drawn({pack!r}, {recipe!r})", _numbers(case)
            return f"{{**{made}, {', '.join(numbers)}}}" if numbers else made
    return next(filter(None, (_dict_of(case, _packed) for case in cases)), "")


def replay_expression(found: ReplayFailure, against: str) -> str:
    """Return an expression that makes the inputs of a case of a replay: their values if they are few or alike, else
    their recipe, else their bits; '' if none takes a few lines. `against` is the file of the reference, or '' if inputs
    that come with its `Model` are not drawn again."""
    case, told = found.case, found.drawn
    listed = _dict_of(case, _listed)
    if listed or told is None or not against or not _is_drawn(case, told):
        return listed or _dict_of(case, _packed)
    return f"fuzz.drawn({against!r}, {_plain(told)!r})"


def _is_drawn(case: Case, recipe: ReplayRecipe) -> bool:
    """Return whether the recipe makes the inputs of a case; of inputs that come with a `Model` this is not checked."""
    made = given(recipe.arrays(), recipe.dtype)
    kept = {name: each for name, each in case.inputs.items() if name != SPARE}
    return not made or all(name in made and made[name].tobytes() == each.bits for name, each in kept.items())


def _dict_of(case: Case, written: Callable[[Tensor], str]) -> str:
    """Return a dict of the inputs and parameters of a case; '' if an input cannot be written in this way."""
    tensors = {name: written(each) for name, each in case.inputs.items() if name != SPARE}
    said = ", ".join([*(f"{name!r}: {each}" for name, each in tensors.items()), *_numbers(case)])
    return f"{{{said}}}" if all(tensors.values()) else ""


def _numbers(case: Case) -> list[str]:
    names = [each.name for each in OPS[case.op].parameters if each.name in case.params]
    return [f"{name!r}: {case.params[name]!r}" for name in names]


def _listed(tensor: Tensor) -> str:
    """Return an expression of values that are few or alike; '' if they are not, or not numbers of NumPy."""
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).reshape(-1)
    dtype, shape = NATIVE.get(tensor.dtype), tensor.layout.shape
    if dtype is None or not values.size or not np.isfinite(values).all():
        return _packed(tensor) if values.size <= _LISTED else ""
    words = values.view(f"<u{values.itemsize}")  # which tell zeros apart
    if values.size > 1 and (words == words[0]).all():
        return f"np.full({shape}, {values[0]}, {dtype.str!r})"
    listed = f"np.array([{', '.join(map(str, values))}], {dtype.str!r}).reshape({shape})"
    return listed if values.size <= _LISTED else ""


def _packed(tensor: Tensor) -> str:
    """Return an expression of a tensor's bits; '' if it is too long."""
    if len(tensor.bits) > _MOST_BYTES:  # to pack them only to see that takes long
        return ""
    made = expression(tensor)
    return made if len(made) <= _MOST else ""


def _recipe(case: Case, search: Search) -> Mapping[str, Any] | None:
    """Return the recipe of a case; None if the search has not drawn it, or if the recipe makes other bits."""
    shard, number = case.origin.shard, case.origin.number
    if not isinstance(shard, int) or not case.origin.name or case.op != search.op:
        return None
    made = search.case(shard, number)
    if made is None or made.draw is None or made.case.digest != case.digest:
        return None
    recipe = _plain(replace(made.draw, origin=None))
    return recipe if realise(msgspec.convert(recipe, Draw)).digest == case.digest else None


def _plain(value: Any) -> Any:
    """Return a record as a dict of what differs from the defaults of its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        told = {each.name: (getattr(value, each.name), each) for each in fields(value)}
        return {name: _plain(some) for name, (some, each) in told.items() if some not in (each.default, {}, None)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return msgspec.to_builtins(value)


_LINE = re.compile(r"(?P<file>[^\s()\"']+\.py)\"?,? line (?P<line>\d+)")
_WIDE = 10_000


@dataclass(frozen=True)
class BugsOf:
    """What the bugs of solutions are described with."""

    book: FindingBook
    tally: Tally
    targets: Mapping[str, Target]
    """The targets by id."""
    search: Search
    pack: str
    """The folder with the op and the kernels."""

    def of(self, kernel: str, files: Mapping[str, str]) -> Iterator[FoundBug]:
        """Yield the bugs of a kernel, whose own files these are, in the order in which the text prints them."""
        for place, bucket in enumerate(each for each in self.book.buckets.values() if each.kernel == kernel):
            yield from self._of_bucket(bucket, place, files)
        for broken in tally_broken(self.tally):
            if broken.kernel == kernel:
                head = broken.text("", whole=False).splitlines()[0]
                line = line_in(f"{broken.reason}\n{broken.said}", files)
                yield FoundBug(head, VERDICT.value, broken.targets[0], 0, broken.reason, line=line)

    def _of_bucket(self, bucket: Bucket, place: int, files: Mapping[str, str]) -> Iterator[FoundBug]:
        told, diagnosis = bucket.told, bucket.found.diagnosis
        cases = [bucket.case, *([diagnosis.original] if diagnosis is not None else [])]
        yield self._told(told, cases, bucket.count - sum(told.beside.values()), place, files)
        for other in diagnosis.others if diagnosis is not None else ():
            beside = explanation_of(other, self.targets.get(other.target))
            yield self._told(beside, [other.case], told.beside[beside.verdict.value], None, files)

    def _told(
        self, told: Explanation, cases: Sequence[Case], runs: int, failure: int | None, files: Mapping[str, str]
    ) -> FoundBug:  # fmt: skip
        said, rules = brief_of(told, _WIDE), told.rule.alternatives if told.rule is not None else ()
        atoms = [atom for rule in rules for atom in rule.cause.atoms]
        about = [*_about(told), *(atom.trait.subject for atom in atoms)]
        return FoundBug(
            said.headline, told.verdict.value, told.target, runs, said.outcome, _cause(told),
            tuple(dict.fromkeys(filter(None, about))), tuple(map(str, atoms or filter(None, [told.earlier]))),
            tuple(map(str, told.shared.condition.atoms if told.shared is not None else ())),
            {each.subject: each.passing for each in told.counterfactuals if each.passing},
            expression_of(cases, self.search, self.pack), line_in(told.reason, files), failure,
        )  # fmt: skip


def replay_bug(
    kernel: str, found: ReplayFailure, runs: int, files: Mapping[str, str], failure: int | None, against: str = ""
) -> FoundBug:
    """Return the bug that a replay of the reference in the file `against` found."""
    first, *rest = found.words.splitlines()
    outcome = " ".join(line.strip() for line in rest) or first
    line, inputs = line_in(found.words, files), replay_expression(found, against)
    head = f"FAIL  {kernel}  {first}"
    cause = found.cause.kind if found.cause is not None else ""
    return FoundBug(
        head, found.verdict.value, found.target, runs, outcome, cause, inputs=inputs, line=line, failure=failure
    )


def line_in(said: str, files: Mapping[str, str]) -> BugLine | None:
    """Return the last line of a solution's files that a text names, by file name and number; None if it names none."""
    for match in reversed([*_LINE.finditer(said)]):
        lines = files.get(match["file"].rpartition("/")[2], "").splitlines()
        if 0 < int(match["line"]) <= len(lines):
            return BugLine(match["file"].rpartition("/")[2], int(match["line"]), lines[int(match["line"]) - 1].strip())
    return None


def _cause(told: Explanation) -> str:
    if told.contract is not None and told.contract.telling:
        return "contract"
    if told.mechanism is not None:
        return told.mechanism.kind
    known = {"declaration": told.suggestion, "state": told.earlier, "unset": told.unset, "unsteady": told.unsteady}
    return next((name for name, each in known.items() if each is not None), "")


def _about(told: Explanation) -> Sequence[str]:
    found = told.mechanism
    return () if found is None else (found.dim, *re.split(r", | and ", found.about))
