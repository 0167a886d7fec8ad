"""`kernelfuzz doctor`: the tools and targets that work here, with proof, and how to get what is missing."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded, pack_words
from fuzz.core.base.text import counted

_MOST_LINES = 40
"""The most targets that are listed one by one, about what a terminal shows at once; more are counted by kind."""


@dataclass(frozen=True)
class DoctorOptions:
    """The options of `kernelfuzz doctor`."""

    install: Annotated[
        bool, typer.Option("--install", help="Install what is missing with apt-get (as root, or through sudo).")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False
    verbose: options.Verbose = False
    pack: options.PackFolder = None


def doctor(options: DoctorOptions) -> Exit:
    """Say which tools are installed, which targets really run, and how to get what is missing.

    Every target is built, started and asked what it is: instruction set, vector length, emulator, compiler. Without a
    pack, a kernel that does nothing is used.

    For example: kernelfuzz doctor --pack mine
    """
    from fuzz.campaign import inventory
    from fuzz.campaign.idle import idle_kernels
    from fuzz.core.adapters.pack import found
    from fuzz.core.adapters.registry import expand
    from fuzz.core.adapters.target import Attestation
    from fuzz.core.execute.pool import WorkerPool
    from fuzz.report import console
    from fuzz.report.console import print_table

    out, err = console.results(), console.progress()
    pack = options.pack or found()
    targets = expand(tuple(idle_kernels()) if pack is None else loaded(pack).kernels)
    if options.install and not inventory.install(inventory.wanted(inventory.tools(targets)), err):
        return Exit.INTERNAL
    tools = inventory.tools(targets)
    with err.status(f"Building and starting {counted(len(targets), 'target')} ..."), WorkerPool(targets) as pool:
        statuses = dict(pool.statuses)
    running = sum(isinstance(status, Attestation) for status in statuses.values())
    if options.json:
        print(json.dumps(inventory.facts(tools, statuses), indent=1))
    else:
        print_table(inventory.tool_table(tools), markdown=False)
        out.print()
        short = len(statuses) > _MOST_LINES and not options.verbose
        print_table(inventory.summary_table(statuses) if short else inventory.target_table(statuses), markdown=False)
        for reason, count in inventory.not_judged(statuses).items():
            out.print(f"on {counted(count, 'target')} {reason}")
        out.print()
        those = counted(len(statuses), "target runs", "targets run")
        out.print(f"{running} of {those} here{'; -v names each' if short else ''}")
        if pack is None:
            out.print("no pack is here, so kernels that do nothing were run; yours: kernelfuzz doctor --pack FOLDER")
        named = pack_words(options.pack) if pack is not None else ("--pack", "FOLDER")
        run = shlex.join(["run", *named, "--max-time", "1m"])
        out.print(f"next: kernelfuzz {'doctor --install' if inventory.wanted(tools) else run}")
    return Exit.OK if running else Exit.NOTHING_RAN
