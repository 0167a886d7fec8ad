"""`kernelfuzz explain-budget`: the parts of the error that an output element may have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded

if TYPE_CHECKING:
    from fuzz.core.base.case import Case


@dataclass(frozen=True)
class BudgetOptions:
    """The options of `kernelfuzz explain-budget`."""

    case: options.KeptCase
    findings: options.Findings = Path("findings")
    output: Annotated[str, typer.Option("--output", help="Name of the output. Default: the first.")] = ""
    index: Annotated[str, typer.Option("--index", metavar="I,J,...", help="Element of the output.")] = ""
    target: Annotated[
        str | None, typer.Option("--target", help="The target whose contract applies. Default: the one that failed.")
    ] = None
    pack: options.PackFolder = None


def explain_budget(options: BudgetOptions) -> Exit:
    """Print the exact value of an element, the values that are allowed, and each part of what is allowed.

    Nothing is run: the numbers follow from the case and from what the kernel declares. Without --index it is the first
    element.

    For example: kernelfuzz explain-budget b88a1c --pack mine --index 0,3
    """
    from fuzz.campaign.reproducing import chosen_case
    from fuzz.campaign.starting import select_targets
    from fuzz.core.base.selection import SelectionError
    from fuzz.core.judge.values import problem_of
    from fuzz.explain.facts import worst_element
    from fuzz.report.console import results
    from fuzz.report.failure import allowance_lines
    from fuzz.report.words import element
    from oracles.truth import Truth

    pack = loaded(options.pack)  # before the case, since its op may come from the pack
    chosen = chosen_case(options.case, options.findings, pack)
    case, found = chosen.case, chosen.found
    output = options.output or next(iter(case.outputs))
    index = _index(case, output, options.index)
    # The named target, else the one the case was found on, else the first that takes the case.
    wanted = (options.target,) if options.target else (found.target,) if found else ()
    targets = select_targets((*pack.kernels, *pack.mutated_kernels()), patterns=wanted)
    target = next((each for each in targets if each.kernel.capability.accepts(case)), None)
    if target is None:
        raise SelectionError("no chosen kernel accepts this case; name another with --target")
    told = Truth(problem_of(case)).explain(target.contract, output, index)
    tensor = case.outputs[output]
    out = results()
    out.print(f"{element(output, index)} under the contract of {target.id}")
    out.print(f"  expected      {told.expected}")
    worst = worst_element(told, 0, tensor.layout.size, contradicts=False, dtype=tensor.dtype)
    out.print("\n".join(allowance_lines(worst)))
    return Exit.OK


def _index(case: Case, output: str, text: str) -> tuple[int, ...]:
    from fuzz.core.base.errors import UsageError

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
