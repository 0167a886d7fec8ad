"""`kernelfuzz show`: everything that is known of a finding."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded, pack_words


@dataclass(frozen=True)
class ShowOptions:
    """The options of `kernelfuzz show`."""

    case: Annotated[
        str, typer.Argument(help="A case file, or the beginning of a finding's name or digest.", show_default=False)
    ]
    findings: options.Findings = Path("findings")
    pack: options.PackFolder = None
    untrusted: options.Untrusted = False
    snippet: Annotated[
        bool, typer.Option("--snippet", help="Print a few lines of Markdown to paste into an issue.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False


def show(options: ShowOptions) -> Exit:
    """Print all that is known about a finding: tensors, what is allowed and why, which other targets fail, and when.

    No kernel is run. `kernelfuzz repro` runs the case again.

    For example: kernelfuzz show b88a1c --pack mine
    """
    from fuzz.campaign.reproducing import file_of
    from fuzz.core.base.case import CaseError
    from fuzz.core.base.errors import UsageError
    from fuzz.findings import casefile
    from fuzz.findings.codec import encoded
    from fuzz.report import console
    from fuzz.report.brief import WIDTH, Provenance, brief, commands_of
    from fuzz.report.failure import full_text
    from fuzz.report.filing import snippet
    from fuzz.tasks.check.retrieval import command_of, file_words, refuse_alone, retrieved

    path = file_of(options.case, options.findings, options.pack)
    try:
        case, found = casefile.load(path)
    except CaseError:
        if options.pack is None:
            refuse_alone(path, "show")
            raise
        command = command_of(options.pack)
        _ = retrieved(command, path) if command else loaded(options.pack)  # its op may be theirs
        case, found = casefile.load(path)
    told = found.explanation if found is not None else None
    if found is None or told is None:
        raise UsageError(f"{path}: holds no explanation; kernelfuzz repro {path} runs it")
    if options.as_json:
        print(json.dumps(encoded(told), indent=1))
        return Exit.OK
    if options.snippet:
        print(snippet(told, case))
        return Exit.OK
    pack = pack_words(options.pack, options.untrusted) or file_words(path)
    origin = Provenance(found.run_seed, "", pack, numbered=True)
    commands = commands_of(told, path, origin, case.origin.name)
    commands = replace(commands, snippet=f"{commands.show} --snippet")
    out = console.results()
    width = console.room(out)
    console.print_failure(out, brief(told, commands, min(width, WIDTH)))
    out.print(f"\n{full_text(told, commands, width=width)}", soft_wrap=True)
    return Exit.OK
