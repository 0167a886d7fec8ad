"""`kernelfuzz corpus`: keeping cases, and checking and tidying the kept ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.core.base.text import counted

app = typer.Typer(help="Keep, list, check and tidy the cases of a corpus.", no_args_is_help=True)

Into = Annotated[str, typer.Option("--into", help="Folder of the corpus that they are written to.")]


def _folder(corpora: Path | None, pack: Path | None) -> Path:
    """Return the folder of a corpus, by default the built-in one. If a pack is named, it is loaded before any case is
    read: the case's op may come from it."""
    from fuzz.campaign.corpus.folder import built_in

    if pack is not None:
        loaded(pack)
    return corpora or built_in()


@dataclass(frozen=True)
class AddOptions:
    """The options of `kernelfuzz corpus add`."""

    cases: Annotated[tuple[Path, ...], typer.Argument(help="Case files.", show_default=False)]
    bug: Annotated[str, typer.Option("--bug", help="The bug that it shows, by its usual name.")] = ""
    source: Annotated[str, typer.Option("--source", help="Where that bug is documented.")] = ""
    why: Annotated[str, typer.Option("--why", help="What goes wrong, in a sentence.")] = ""
    into: Into = "regressions"
    corpora: options.Corpora = None
    pack: options.PackFolder = None


def add(options: AddOptions) -> Exit:
    """Keep case files in the corpus, each under its digest. A folder that is not there yet is made.

    For example: kernelfuzz corpus add findings/*.json --corpora corpora --bug 'the tail is not added'
    """
    from fuzz.campaign.corpus.folder import Kept, keep, kept_cases, load

    folder = _folder(options.corpora, options.pack)
    known = {kept.case.digest for kept in kept_cases(folder, others=True)} if folder.is_dir() else set()
    texts = {"bug": options.bug, "source": options.source, "why": options.why}
    about = {name: text for name, text in texts.items() if text}
    for path in options.cases:
        kept = load(path)
        if kept.case.digest in known:
            print(f"{path}: already kept")
            continue
        known.add(kept.case.digest)
        written = keep(Kept(path, kept.case, kept.found, {**kept.about, **about}), folder / options.into)
        print(f"{path}: kept as {written}")
    return Exit.OK


@dataclass(frozen=True)
class ContentsOptions:
    """The options of `kernelfuzz corpus list`."""

    markdown: options.Markdown = False
    corpora: options.Corpora = None
    pack: options.PackFolder = None


def list_(options: ContentsOptions) -> Exit:
    """List the kept cases.

    For example: kernelfuzz corpus list --corpora corpora
    """
    from fuzz.campaign.corpus.contents import contents
    from fuzz.report.console import print_table

    print_table(contents(_folder(options.corpora, options.pack)), markdown=options.markdown)
    return Exit.OK


@dataclass(frozen=True)
class VerifyOptions:
    """The options of `kernelfuzz corpus verify`."""

    run: Annotated[bool, typer.Option("--run", help="Run and judge every case as well.")] = False
    target: options.Targets = ()
    pack: options.PackFolder = None
    jobs: options.Jobs = 0
    corpora: options.Corpora = None


def verify(options: VerifyOptions) -> Exit:
    """Check that every file loads, has the digest that it claims, and fits its op; with --run, that it can be judged.

    Exit code 4 names the first broken file. With --run, 1 says that a kernel fails a case, and 5 that nothing ran.

    For example: kernelfuzz corpus verify --corpora corpora
    """
    from fuzz.campaign.corpus.contents import checked, judged
    from fuzz.campaign.starting import select_targets, started
    from fuzz.report import console
    from fuzz.report.outline import tally_broken
    from fuzz.report.totals import kernel_lines, print_kernels, remarks, session_notes
    from fuzz.report.use_outcome import outcome_of

    corpus = checked(_folder(options.corpora, options.pack))
    print(corpus)
    if not options.run:
        return Exit.OK
    out = console.results()
    targets = select_targets(loaded(options.pack).kernels, patterns=options.target)
    with started(targets, options.jobs, console.progress()) as pool:
        tally, untaken = judged(corpus, targets, pool)
    print_kernels(out, kernel_lines(tally))
    for line in (*session_notes(tally), *untaken):
        out.print(line, style="yellow")
    for each in tally_broken(tally):
        out.print(each.text("", whole=True))
    outcome = outcome_of(tally, failing=tally.findings > 0)
    for line in remarks(outcome):
        out.print(line, style="yellow")
    print(f"{counted(tally.judged, 'judged run')}, {tally.findings:,} failed")
    return outcome.code


@dataclass(frozen=True)
class PruneOptions:
    """The options of `kernelfuzz corpus prune`."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False
    corpora: options.Corpora = None
    pack: options.PackFolder = None


def prune(options: PruneOptions) -> Exit:
    """Remove findings that a smaller kept case already shows: same kernel, verdict and law, same kind of input.

    Cases that name a documented bug always stay.

    For example: kernelfuzz corpus prune --corpora corpora
    """
    from fuzz.campaign.corpus.folder import kept_cases, subsumed

    dropped = subsumed(kept_cases(_folder(options.corpora, options.pack), others=True))
    said = "would remove" if options.dry_run else "removed"
    for each in dropped:
        print(f"{said} {each.kept.path}: {each.by.path.name} shows the same")
        if not options.dry_run:
            each.kept.path.unlink()
    print(f"{counted(len(dropped), 'case')} {'to remove' if options.dry_run else 'removed'}")
    return Exit.OK


@dataclass(frozen=True)
class MergeOptions:
    """The options of `kernelfuzz corpus merge`."""

    source: Annotated[Path, typer.Argument(help="Another corpus, or a folder of findings.", show_default=False)]
    into: Into = "regressions"
    corpora: options.Corpora = None
    pack: options.PackFolder = None


def merge(options: MergeOptions) -> Exit:
    """Copy the cases of another folder that this corpus does not have yet.

    For example: kernelfuzz corpus merge findings --corpora corpora
    """
    from fuzz.campaign.corpus.folder import kept_cases
    from fuzz.campaign.corpus.folder import merge as merged_from

    folder = _folder(options.corpora, options.pack)
    known = kept_cases(folder, others=True) if folder.is_dir() else ()
    written = merged_from(options.source, folder / options.into, known)
    for path in written:
        print(f"kept {path}")
    print(counted(len(written), "new case"))
    return Exit.OK


options.add_verbs(app, (add, list_, verify, prune, merge))
