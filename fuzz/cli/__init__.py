"""The command line: one file per verb. Engine imports happen inside the verbs, so that --help answers at once."""

from __future__ import annotations

import sys

import typer

from fuzz.cli import calibrate, corpus, doctor, explain_budget, gate, listing, nightly, repro, run, selftest
from fuzz.cli.exits import Exit
from fuzz.cli.failures import describe
from fuzz.quality import bench

app = typer.Typer(
    name="kernelfuzz",
    help="Fuzz numeric kernels against a high-precision oracle.",
    epilog="Start with: kernelfuzz doctor, then: kernelfuzz run --max-time 1m",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("repro")(repro.repro)
app.command("gate")(gate.gate)
app.add_typer(corpus.app, name="corpus")
app.command("nightly")(nightly.nightly)
app.command("explain-budget")(explain_budget.explain_budget)
app.command("bench")(bench.bench)
app.command("calibrate")(calibrate.calibrate)
app.command("selftest")(selftest.selftest)
app.command("doctor")(doctor.doctor)
app.command("list")(listing.list_things)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from fuzz.base import __version__

        print(f"kernelfuzz {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


_TYPER_INTERRUPTED = 130
"""what typer returns for a KeyboardInterrupt."""


def main() -> None:
    """Run the command line; every expected failure becomes one clear line and the right exit code."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = _TYPER_INTERRUPTED
    except Exception as error:
        message, code = describe(error)
        print(message, file=sys.stderr)
        sys.exit(code)
    if code == _TYPER_INTERRUPTED:
        print("kernelfuzz: interrupted", file=sys.stderr)
        sys.exit(Exit.INTERRUPTED)
    sys.exit(code if isinstance(code, int) else Exit.OK)
