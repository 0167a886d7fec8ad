"""`kernelfuzz report`: writing the page of a store again, on any machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded


@dataclass(frozen=True)
class ReportOptions:
    """The options of `kernelfuzz report`."""

    store: options.StorePlace
    output: Annotated[
        Path, typer.Option("--output", help="Folder for report.html and findings/. Default: DIR, or here.")
    ] = Path()
    since: Annotated[
        int, typer.Option("--since", metavar="NIGHT", min=0, help="The number of the night with which trends begin.")
    ] = 0
    pack: options.PackFolder = None
    json: options.Json = None
    report: options.Report = ()


def report(options: ReportOptions) -> Exit:
    """Write the page of the latest night again, with the case files that it names. Nothing is run.

    The page lists what the kernels of --pack do not declare; the default are the built-in kernels, if they are here.

    For example: kernelfuzz report STATE
    """
    from fuzz.campaign.nightly.results import NightResults
    from fuzz.core.adapters.pack import found
    from fuzz.findings.database import open_known
    from fuzz.findings.database_store import restore
    from fuzz.findings.state import FINDINGS, latest_state, make_state
    from fuzz.report import console
    from fuzz.report.formats import parse

    is_url = "://" in options.store
    store = options.store if is_url else f"sqlite:///{latest_state(Path(options.store))}"
    folder = options.output if is_url or options.output != Path() else Path(options.store)
    make_state(folder)
    restore(open_known(store), folder / FINDINGS)
    pack = loaded(options.pack) if options.pack is not None or found() is not None else None
    results = NightResults(
        folder, store, (), options.json, parse(options.report), pack.kernels if pack else (), pack.path if pack else
        None, console.results(), console.progress(),
    )  # fmt: skip
    return Exit.OK if results.again(options.since).saved else Exit.INTERNAL
