"""The command line: one file per verb. Engine imports happen inside the verbs, so that --help answers at once."""

from __future__ import annotations

import os

import typer

from fuzz.cli import (
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
    learn,
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
    help="Fuzz numeric kernels against a high-precision oracle.",
    epilog="Start with: kernelfuzz demo, then: kernelfuzz run --max-time 1m",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    events: bool = typer.Option(
        False, "--events", envvar="KERNELFUZZ_EVENTS", help="On stderr, a JSON object a line in place of words."
    ),
) -> None:
    if events:
        os.environ["KERNELFUZZ_EVENTS"] = "1"
    if version:
        from fuzz.base import __version__

        print(f"kernelfuzz {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


options.add_verbs(
    app,
    {
        "demo": demo.demo,
        "run": run.run,
        "repro": repro.repro,
        "show": show.show,
        "gate": gate.gate,
        "nightly": nightly.nightly,
        "report": report.report,
        "explain": explain.explain,
        "explain-budget": explain_budget.explain_budget,
        "tolerance": tolerance.tolerance,
        "learn": learn.learn,
        "derive": derive.derive,
        "selftest": selftest.selftest,
        "doctor": doctor.doctor,
        "judge": judge.judge,
        "mcp": mcp.mcp,
        "header": header.header,
        "init": init.init,
        "list": listing.list_things,
    },
)
app.add_typer(corpus.app, name="corpus")


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    leave(app)
