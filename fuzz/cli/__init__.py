"""The command line, with one module for each command. Commands import the engine when they run, so that --help is
quick."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from fuzz.cli import (
    bisect,
    buckets,
    corpus,
    demo,
    derive,
    doctor,
    explain,
    explain_budget,
    gate,
    header,
    init,
    judge,
    listing,
    mcp,
    nightly,
    options,
    report,
    repro,
    run,
    selftest,
    show,
    tolerance,
)
from fuzz.cli.exits import leave

app = typer.Typer(
    name="kernelfuzz",
    help="Find the inputs that a numerical kernel gets wrong; say which they are, how far off the result is, and when.",
    epilog="To begin with: kernelfuzz demo",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    events: bool = typer.Option(
        False, "--events", envvar="KERNELFUZZ_EVENTS", help="Write progress on stderr as JSON, one object a line."
    ),
) -> None:
    if events:
        os.environ["KERNELFUZZ_EVENTS"] = "1"
    if version:
        from fuzz.core.base import __version__

        print(f"kernelfuzz {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


_VERBS: Mapping[str, Sequence[Callable[[Any], int]]] = {
    "To begin with": (demo.demo, judge.judge, init.init, doctor.doctor, listing.list_),
    "Search": (run.run, gate.gate, nightly.nightly, report.report),
    "A finding": (show.show, repro.repro, bisect.bisect, explain.explain, explain_budget.explain_budget),
    "What a kernel promises": (tolerance.tolerance, derive.derive, header.header),
    "More": (selftest.selftest, mcp.mcp),
}
"""The commands, in the order and under the headings of `kernelfuzz --help`."""

for heading, verbs in _VERBS.items():
    options.add_verbs(app, verbs, heading)
app.add_typer(buckets.app, name="buckets", rich_help_panel="A finding")
app.add_typer(corpus.app, name="corpus", rich_help_panel="More")


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    if (system := platform.system()) != "Linux":
        sys.exit(f"kernelfuzz: it runs on Linux, and this is {system}: use a container or a virtual machine")
    leave(app)
