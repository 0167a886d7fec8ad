"""The bugs of a solution, each as one object that a program can act on, with the inputs of a failing case as an
expression of Python, so that anybody can make them without a case file. And the words of a ruling, for people."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import msgspec
import numpy as np

from fuzz.campaign.search.runner import slow_targets_of
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import SPARE, Case, Tensor
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.text import counted
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search
from fuzz.explain.explanation import Explanation
from fuzz.explain.facts import explanation_of
from fuzz.findings.axes import text_of
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import OTHER, Tally
from fuzz.references.replay.cases import EXACT
from fuzz.references.replay.oracle import ReplayFailure
from fuzz.references.replay.recipe import ReplayRecipe, given
from fuzz.report.brief import brief_of
from fuzz.report.filing import expression
from fuzz.report.outline import VERDICT, tally_broken
from fuzz.report.totals import and_more, by_reason, largest_text, never_text, partly_run_lines
from fuzz.tasks.judge.ruling import BugLine, FoundBug, FullSize, Ruling, SolutionRuling
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


BY_REPLAY = " by replay"


def summary(ruling: Ruling, elapsed: float, *, verbose: bool = False) -> str:
    """Return a line for each solution, and what was not seen; if it is `verbose`, which values of each axis ran."""
    lines, by = list[str](), BY_REPLAY if ruling.oracle == "replay" else ""
    for each in ruling.solutions:
        lines.append(each.headline or headline_of(each, by))
        lines += [f"  {each.reason}"] if each.verdict == "right" and each.reason else []
        lines += [f"  {measured.text}" for measured in each.measured]
        lines += [f"  {beside.text}" for beside in each.accepts if beside.text]
        lines += [f"  {each.right_as}"] if each.right_as else []
        lines += [*_beyond(each), *_in_modes(each, ruling), *_at_own_shapes(each), *causes_told(each, ruling.mode)]
        lines += full_size_told(each.full_size)
        lines += _bits(each)
        lines += [f"  {text_of(name, values)}" for name, values in each.axes.items()] if verbose else []
    floors = ", or ".join(f"{share:.1e} in {dtype}" for dtype, share in ruling.detection_floor.items())
    said = f"half of all outputs that are off by this share of their value are noticed: {floors}"
    floor = said if floors else "not known, as no output of an ordinary case is judged"
    floor = "none: each integer that differs is noticed" if ruling.guarantee == EXACT else floor
    lines += [f"detection floor: {floor}"] if ruling.cases else []
    ran = f"{largest_text(ruling.largest)}; " if ruling.largest else ""
    lines += [f"{ran}{never_text(ruling.never_ran, larger=bool(ran))}"] if ran or ruling.never_ran else []
    lines += [*ruling.not_exercised, *([ruling.guarantee] if ruling.guarantee else [])]
    return "\n".join(
        [*lines, f"{counted(ruling.cases, 'case')} in {elapsed:.1f} s, seed {ruling.seed}, pack {ruling.pack}"]
    )


def headline_of(each: SolutionRuling, by: str) -> str:
    """Return the line that says the verdict on a solution; `by` is BY_REPLAY if a replay judges."""
    return f"{each.verdict:<12} {each.solution}  {_why(each, by)}"


def _why(each: SolutionRuling, by: str) -> str:
    if each.verdict == "wrong" and each.failing:
        return f"{each.failing:,} of {counted(each.judged, 'run')}{by} {'fails' if each.judged == 1 else 'fail'}"
    if each.verdict != "right":
        return each.reason
    known = {dtype: ratio for dtype, ratio in each.largest_error.items() if ratio is not None}
    errors = ", ".join(f"{ratio:.0%} in {dtype}" for dtype, ratio in known.items())
    return f"{counted(each.judged, 'run')}{by}{f', largest error {errors} of what is allowed' if errors else ''}"


def _in_modes(each: SolutionRuling, ruling: Ruling) -> list[str]:
    """Return the lines about a solution in both modes of a module, training and evaluation; [] if one was judged."""
    other = each.other_mode
    if other is None:
        return []
    said = f"{other.verdict} {ruling.other_mode}: {_why(other, BY_REPLAY)}"
    lines = [f"  {each.verdict} {ruling.mode}; {said}"]
    return [*lines, *(f"    {line.strip()}" for some in other.failures for line in some["said"].splitlines())]


def _bits(each: SolutionRuling) -> list[str]:
    """Return which configurations give the bits of the first one, and which others."""
    same = [name for name, counts in each.alike.items() if not counts.get(OTHER)]
    others = [name for name, counts in each.alike.items() if counts.get(OTHER)]
    first = "its first configuration"
    words = {f"the same bits as in {first}": same, f"other bits than in {first}, within what is allowed": others}
    return [f"  {what}: {and_more(names)}" for what, names in words.items() if names]


def _beyond(each: SolutionRuling) -> list[str]:
    """Return the lines about inputs that lack a property which all inputs of the task have."""
    if each.beyond is None or not each.beyond.text:
        return []
    how = "  to have what is wrong beyond counted: --any-values"
    return [f"  {each.beyond.text}", *([how] if each.verdict == "right" else [])]


def _at_own_shapes(each: SolutionRuling) -> list[str]:
    """Return the lines about a solution at the shapes that come with its task."""
    own = each.own_shapes
    if own is None:
        return []
    if own.verdict not in ("right", "wrong"):
        if each.full_size is not None and each.full_size.judged:  # its line says more
            return []
        return [f"  not judged at the task's own shapes: {own.reason}"]
    count = f"{own.failing or own.judged:,} of {counted(own.judged, 'run')}, by replay"
    but = f", but for {own.changed}" if own.changed else ""
    lines = [f"  {own.verdict} at the task's own shapes ({shapes_text(own.shapes)}{but}): {count}"]
    if own.verdict == "wrong":
        return [*lines, *(f"    {line.strip()}" for some in own.failures for line in some["said"].splitlines())]
    if each.failing:
        lines += ["  the shapes that it fails at are the judge's; they count, as the reference takes them, too"]
    alone = "  to judge it at the task's own shapes alone: --own-shapes"
    return [*lines, *([] if each.verdict == "right" else [alone])]


def causes_told(each: SolutionRuling, mode: str) -> list[str]:
    """Return the lines about possible causes: conditions under which a wrong solution is right."""
    # A solution that folds its weights at construction is right only with the weights of its construction.
    seeded = "right where both are constructed from one seed and nothing is trained or loaded, as KernelBench does; "
    told = {
        f"  {seeded}wrong with other weights": each.one_seed,
        f"  right if it is kept {mode.partition(',')[0]}, as Model is: only its mode is wrong": each.kept_mode,
    }
    return [line for line, by in told.items() if by is not None and by.verdict == "right"]


def full_size_told(full: FullSize | None) -> list[str]:
    """Return the lines about a solution at the full size of its task."""
    if full is None:
        return []
    if full.verdict not in ("right", "wrong"):
        return [f"  not judged at full size: {full.reason}"]
    count = f"{full.judged:,} of {counted(full.elements, 'element')} judged, by replay"
    lines = [f"  {full.verdict} at the task's own shapes ({shapes_text(full.shapes)}): {count}"]
    return [*lines, *(f"    {line.strip()}" for line in full.failure.splitlines())]


def shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the shapes of inputs in words, such as "x 4x8, scale scalar"."""
    return ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())


def failures_told(kernel: str, failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the text of the smallest case that a replay found wrong."""
    smallest = sorted(failures, key=lambda each: sum(map(math.prod, each["shapes"].values())))[:1]
    return [f"FAIL  {kernel}  {each['said']}\n  {each['case']}, by replay" for each in smallest]


def not_given(tally: Tally, targets: Sequence[Target]) -> list[str]:
    """Return the lines on targets that judged only some cases: runs without a verdict, and cases too large for slow
    targets. The number of missed cases is known only for a lone target, which should be given all."""
    reasons, late = dict[str, str](), slow_targets_of(targets)
    for target in targets:
        line = tally.targets.get(target.id)
        if target.size_limit is None or line is None or not line.judged:
            continue
        missed = tally.cases - line.judged - line.not_run
        count = f" {missed:,} of {counted(tally.cases, 'case')}:" if len(targets) == 1 else ""
        waited = ", and those for which quick targets did not wait for it" if target.id in late else ""
        larger = target.size_limit.beyond(OPS[target.kernel.op])
        if missed > 0:
            reasons[target.id] = f"slow:{count} {larger}{waited}"
    alike = by_reason(reasons).items()
    given = [f"not given to {and_more(ids)}, which {'are' if len(ids) > 1 else 'is'} {why}" for why, ids in alike]
    return [*partly_run_lines(tally.targets.values()), *given]
