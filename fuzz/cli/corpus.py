"""`kernelfuzz corpus`: kept cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options

app = typer.Typer(help="Keep, list, check and tidy the cases of a corpus.", no_args_is_help=True)

Corpora = Annotated[
    Path | None, typer.Option("--corpora", help="The corpus folder. Default: corpora/ of the checkout or of here.")
]
Into = Annotated[str, typer.Option("--into", help="Folder of the corpus that they are written to.")]


@app.command("add")
def add(
    cases: Annotated[list[Path], typer.Argument(help="Case files.", show_default=False)],
    bug: Annotated[str, typer.Option("--bug", help="The bug that it shows, by its usual name.")] = "",
    source: Annotated[str, typer.Option("--source", help="Where that bug is documented.")] = "",
    why: Annotated[str, typer.Option("--why", help="What goes wrong, in a sentence.")] = "",
    into: Into = "regressions",
    corpora: Corpora = None,
) -> int:
    """Copy case files into the corpus, each under its digest."""
    from fuzz.cli.keeping import add_cases

    about = {"bug": bug, "source": source, "why": why}
    return add_cases(cases, corpora, into, {name: text for name, text in about.items() if text})


@app.command("list")
def list_cases(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    corpora: Corpora = None,
) -> int:
    """List the kept cases, and the suites with how many cases each expands to."""
    from fuzz.cli.keeping import list_corpus

    return list_corpus(corpora, markdown=markdown)


@app.command("verify")
def verify(
    run: Annotated[bool, typer.Option("--run", help="Run and judge every case as well.")] = False,
    target: options.Targets = None,
    pack: options.Pack = None,
    jobs: options.Jobs = 0,
    corpora: Corpora = None,
) -> int:
    """Check that every file loads, has the digest that it claims, and fits its op; with --run, that it can be judged.

    Exit code 4 names the first broken file; with --run, 1 if a kernel fails a case and 5 if nothing ran.
    """
    from fuzz.cli.keeping import verify_corpus

    return verify_corpus(corpora, run=run, patterns=tuple(target or ()), pack=pack, jobs=jobs)


@app.command("prune")
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    corpora: Corpora = None,
) -> int:
    """Remove findings that a smaller kept case already shows: same kernel, verdict and law, same kind of input.

    Documented cases always stay.
    """
    from fuzz.cli.keeping import prune_corpus

    return prune_corpus(corpora, dry_run=dry_run)


@app.command("merge")
def merge(
    source: Annotated[Path, typer.Argument(help="Another corpus, or a folder of findings.", show_default=False)],
    into: Into = "regressions",
    corpora: Corpora = None,
) -> int:
    """Copy the cases of another folder that this corpus does not have yet."""
    from fuzz.cli.keeping import merge_corpus

    return merge_corpus(source, corpora, into)
