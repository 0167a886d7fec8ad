"""The command line, with one module for each command. Commands import the engine when they run, so that --help is
quick."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import typer

from fuzz.cli import buckets, corpus, options
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


_VERBS: Mapping[str, Sequence[str]] = {
    "To begin with": ("demo", "judge", "init", "doctor", "list_"),
    "Search": ("run", "gate", "nightly", "report"),
    "A finding": ("show", "repro", "bisect", "explain", "explain_budget"),
    "What a kernel promises": ("tolerance", "derive", "header"),
    "More": ("selftest", "mcp"),
}
"""The commands, each a function in a module of its name, in the order and under the headings of `kernelfuzz --help`."""

for heading, names in _VERBS.items():
    options.add_verbs(app, [getattr(import_module(f"fuzz.cli.{name}"), name) for name in names], heading)
app.add_typer(buckets.app, name="buckets", rich_help_panel="A finding")
app.add_typer(corpus.app, name="corpus", rich_help_panel="More")


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    if (system := platform.system()) != "Linux":
        sys.exit(f"kernelfuzz: it runs on Linux, and this is {system}: use a container or a virtual machine")
    leave(app)
