"""What `kernelfuzz explain-budget` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.pack import Pack, built_in, load
from fuzz.adapters.target import Target
from fuzz.base.capability import accepts
from fuzz.base.case import Case
from fuzz.base.errors import UsageError
from fuzz.base.selection import SelectionError
from fuzz.base.validity import check_case
from fuzz.cli.exits import Exit
from fuzz.findings import casefile
from fuzz.findings.casefile import Found
from fuzz.judge.values import problem_of
from fuzz.report.failure import allowance_lines
from fuzz.uses.starting import select_targets
from oracles.truth import Truth


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz explain-budget`."""

    case: Path
    output: str
    index: str
    target: str | None
    pack: Path | None


def explain(request: Request) -> Exit:
    """Print the explanation of one element."""
    case, found = casefile.load(request.case)
    check_case(case)
    index = _index(case, request.output, request.index)
    target = _target(load(request.pack or built_in()), case, request.target, found)
    explanation = Truth(problem_of(case)).explain(target.numerics, request.output, index)
    print(f"{request.output}[{', '.join(map(str, index))}] under the contract of {target.id}")
    print(f"  expected      {explanation.expected}")
    print("\n".join(allowance_lines(explanation)))
    return Exit.OK


def _index(case: Case, output: str, text: str) -> tuple[int, ...]:
    if output not in case.outputs:
        raise UsageError(f"--output {output}: the case has {', '.join(case.outputs)}")
    shape = case.outputs[output].layout.shape
    if 0 in shape:
        raise UsageError(f"--output {output}: it has no elements")
    try:
        index = tuple(int(part) for part in text.split(",")) if text else (0,) * len(shape)
    except ValueError as error:
        raise UsageError(f"--index {text}: write integers, as in 3,17") from error
    inside = len(index) == len(shape) and all(0 <= i < extent for i, extent in zip(index, shape, strict=True))
    if not inside:
        raise UsageError(f"--index {text}: {output} has the shape {list(shape)}")
    return index


def _target(pack: Pack, case: Case, pattern: str | None, found: Found | None) -> Target:
    """The named target, else the one the case was found on, else the first that takes the case."""
    wanted: Sequence[str] = (pattern,) if pattern else (found.target,) if found else ()
    targets = select_targets((*pack.kernels, *pack.mutated_kernels()), patterns=wanted)
    for target in targets:
        if accepts(target.kernel, case):
            return target
    raise SelectionError("no chosen kernel accepts this case; name another with --target")
