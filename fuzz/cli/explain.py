"""`kernelfuzz explain`: the meaning of a word in a report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import MEANINGS, Exit

if TYPE_CHECKING:
    from fuzz.report.console import PlainTable


@dataclass(frozen=True)
class ExplainOptions:
    """The options of `kernelfuzz explain`."""

    word: Annotated[
        tuple[str, ...],
        typer.Argument(
            metavar="[WORD]",
            help="A word of a report, such as FAIL_MEMORY or 'bad elements', or an exit code. Default: list all.",
        ),
    ] = ()
    markdown: options.Markdown = False


def explain(options: ExplainOptions) -> Exit:
    """Say what a word of a report or an exit code means; for a verdict, show a kernel that causes it.

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
        print("names of recipes, layouts and laws: kernelfuzz list recipes, kernelfuzz list laws")
        print("next: kernelfuzz explain WORD, for example: kernelfuzz explain FAIL_MEMORY")
    return Exit.OK


def _explained(word: str) -> Iterator[str]:
    """Yield lines about the word, or about the longest known word within it. Raises UsageError."""
    from fuzz.core.base.errors import UsageError

    meanings = _meanings()
    known = {each.lower(): each for each in meanings}
    plain = word.lower()
    spelled = [plain, plain.replace("-", "_")]
    inside = sorted((each for each in known if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", plain)), key=len)
    chosen = next((each for each in spelled if each in known), inside[-1] if inside else "")
    if not chosen:
        near = get_close_matches(plain, known, 1)
        hint = f"did you mean {known[near[0]]!r}? " if near else ""
        raise UsageError(f"{word}: no report has that word: {hint}kernelfuzz explain lists all of them")
    yield from meanings[known[chosen]]


def _meanings() -> Mapping[str, Sequence[str]]:
    """Return the lines about each word. Several may apply, since a verdict and an exit code can have the same name."""
    from fuzz.report.glossary import MEANINGS as VERDICTS
    from fuzz.report.glossary import RULINGS, glossary
    from fuzz.report.words import PHRASES

    found: dict[str, list[str]] = {word: [*lines] for word, lines in glossary().items()}
    for verdict, meaning in VERDICTS.items():
        found.setdefault(verdict.value, []).extend(meaning.lines(verdict.value))
        if verdict in PHRASES:
            found.setdefault(PHRASES[verdict].replace(" {law}", ""), []).extend(meaning.lines(verdict.value))
    for code in Exit:
        for word in (code.name, str(code.value)):
            found.setdefault(word, []).append(f"exit code {code.value}, {code.name}: {MEANINGS[code]}")
    for ruling, text in RULINGS.items():
        found.setdefault(ruling, []).append(f"{ruling}, of kernelfuzz judge: {text}")
    return found


def _tables() -> Mapping[str, PlainTable]:
    from fuzz.report.console import PlainTable
    from fuzz.report.glossary import FIELDS, LABELS, RULINGS, RUNS
    from fuzz.report.glossary import MEANINGS as VERDICTS

    return {
        "Verdicts": PlainTable(
            ("verdict", "what it means"), [(each.value, meaning.what) for each, meaning in VERDICTS.items()]
        ),
        "Exit codes": PlainTable(
            ("exit code", "name", "what it means"), [(str(each.value), each.name, MEANINGS[each]) for each in Exit]
        ),
        "Words of `kernelfuzz judge`": PlainTable(("word", "what it means"), [*RULINGS.items()]),
        "Words of a report": PlainTable(("word", "what it means"), [*RUNS.items()]),
        "Lines of a failure in full": PlainTable(("line", "what it means"), [*LABELS.items()]),
        "Fields of `Capabilities`": PlainTable(("field", "what it says"), [*FIELDS.items()]),
    }


def _print_sections() -> None:
    from fuzz.report.glossary import MEANINGS as VERDICTS

    print("## Each verdict, with an example\n")
    for verdict, meaning in VERDICTS.items():
        print("\n".join(meaning.markdown(verdict.value)))
