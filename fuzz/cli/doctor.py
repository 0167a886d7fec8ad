"""`kernelfuzz doctor`: what can run here, with proof, and how to get what is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded


@dataclass(frozen=True)
class DoctorOptions:
    """The options of `kernelfuzz doctor`."""

    install: Annotated[
        bool, typer.Option("--install", help="Install what is missing with apt-get (as root, or through sudo).")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False
    pack: options.PackFolder = None


def doctor(options: DoctorOptions) -> Exit:
    """Say which tools are here and which targets really run, and how to get what is missing.

    Every target is built, started and asked what it is: instruction set, vector length, emulator, compiler.
    """
    from fuzz.adapters.registry import expand
    from fuzz.adapters.target import Attestation
    from fuzz.execute.pool import WorkerPool
    from fuzz.report import console
    from fuzz.report.console import print_table
    from fuzz.uses import inventory

    out, err = console.results(), console.progress()
    targets = expand(loaded(options.pack).kernels)
    if options.install and not inventory.install(inventory.wanted(inventory.tools(targets)), err):
        return Exit.INTERNAL
    found = inventory.tools(targets)
    with err.status(f"Building and starting {len(targets)} targets ..."), WorkerPool(targets) as pool:
        statuses = dict(pool.statuses)
    running = sum(isinstance(status, Attestation) for status in statuses.values())
    if options.json:
        print(json.dumps(inventory.facts(found, statuses), indent=1))
    else:
        print_table(inventory.tool_table(found), markdown=False)
        out.print()
        print_table(inventory.target_table(statuses), markdown=False)
        for reason, count in inventory.not_judged(statuses).items():
            out.print(f"on {count} targets {reason}")
        out.print()
        out.print(f"{running} of {len(statuses)} targets run here")
        out.print(f"next: kernelfuzz {'doctor --install' if inventory.wanted(found) else 'run --max-time 1m'}")
    return Exit.OK if running else Exit.NOTHING_RAN
