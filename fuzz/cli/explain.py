"""`kernelfuzz explain`: what a word of a report means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import MEANINGS, Exit

if TYPE_CHECKING:
    from fuzz.report.console import PlainTable
    from fuzz.uses.judge.ruling import Said

RULINGS: Mapping[Said, str] = {
    "right": "every run that was judged is within what rounding explains; exit code 0",
    "wrong": "at least one run fails, or the solution refuses what comes with the problem; exit code 1",
    "undecided": "the oracle gave up on a case, or nothing that the solution takes could be judged; exit code 11",
    "did not run": "the solution could not be tried here, and the reason is said; exit code 5",
}
"""The verdicts of `kernelfuzz judge`."""


@dataclass(frozen=True)
class ExplainOptions:
    """The options of `kernelfuzz explain`."""

    word: Annotated[
        tuple[str, ...],
        typer.Argument(metavar="[WORD]", help="A verdict such as FAIL_MEMORY, or an exit code. Default: list them."),
    ] = ()
    markdown: options.Markdown = False


def explain(options: ExplainOptions) -> Exit:
    """Say what a verdict or an exit code means, with a kernel that causes it, and what to do next.

    For example: kernelfuzz explain FAIL_MEMORY
    """
    from fuzz.report.console import print_lines, print_table, results

    word = " ".join(options.word)
    if word:
        print_lines(results(), _explained(word), hang=0)
        return Exit.OK
    for heading, table in _tables().items():
        print(f"## {heading}\n" if options.markdown else heading)
        print_table(table, markdown=options.markdown)
        print()
    if options.markdown:
        _print_sections()
    else:
        print("next: kernelfuzz explain WORD, such as: kernelfuzz explain FAIL_MEMORY")
    return Exit.OK


def _explained(word: str) -> Iterator[str]:
    from fuzz.base.errors import UsageError
    from fuzz.report.verdicts import MEANINGS as VERDICTS

    plain = word.upper().replace("-", "_")
    verdicts = {each.value: meaning for each, meaning in VERDICTS.items()}
    exits = {key: each for each in Exit for key in (each.name, str(each.value))}
    ruled = {each: text for each, text in RULINGS.items() if each == word.lower()}
    if not (plain in verdicts or plain in exits or ruled):
        near = [each for each in (*verdicts, *(each.name for each in Exit)) if plain[:5] in each]
        raise UsageError(f"{word}: no verdict and no exit code; there are {', '.join(near or verdicts)}")
    if plain in verdicts:
        yield from verdicts[plain].lines(plain)
    if plain in exits:
        code = exits[plain]
        yield f"exit code {code.value}, {code.name}: {MEANINGS[code]}"
    for ruling, text in ruled.items():
        yield f"{ruling}, of kernelfuzz judge: {text}"


def _tables() -> Mapping[str, PlainTable]:
    from fuzz.report.console import PlainTable
    from fuzz.report.verdicts import MEANINGS as VERDICTS

    return {
        "Verdicts": PlainTable(
            ("verdict", "what it means"), [(each.value, meaning.what) for each, meaning in VERDICTS.items()]
        ),
        "Exit codes": PlainTable(
            ("exit code", "name", "what it means"),
            [(str(each.value), each.name, MEANINGS[each]) for each in Exit],
        ),
        "Words of `kernelfuzz judge`": PlainTable(("word", "what it means"), [*RULINGS.items()]),
    }


def _print_sections() -> None:
    from fuzz.report.verdicts import MEANINGS as VERDICTS

    print("## Each verdict, with an example\n")
    for verdict, meaning in VERDICTS.items():
        print("\n".join(meaning.markdown(verdict.value)))
