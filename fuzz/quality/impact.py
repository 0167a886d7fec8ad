"""`python3 -m fuzz.quality impact`: since which version a library deviates. The program of each trophy is run with the
library's last releases, each in an environment that is made for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError
from fuzz.core.transport.python.attest import installed_version
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

CHECKOUT = Path(__file__).resolve().parents[2]
TROPHIES = CHECKOUT / "corpora" / "trophies"
KEPT = Path(__file__).with_suffix(".json")
"""The outcomes that are kept."""
DEVIATES, RIGHT = "deviates", "right"
"""The outcomes of a program. Another text is the reason why there is no outcome."""
ENDS = "the process ends here"
"""What a program prints before a call that ends the process."""
_BESIDE = ("einops", "jax", "numpy", "onnx", "scipy", "torch", "triton")
"""What programs need besides the library that they show: those whose name a program has are installed as they are here,
so that nothing but the library differs between two releases."""
_MOST_S = 600


@dataclass(frozen=True)
class Trophy:
    """A kept deviation of a shipped library."""

    folder: Path

    @property
    def about(self) -> Mapping[str, Any]:
        """What is said of it: in its case, or in a file of its own if no kernel of a pack has it."""
        case, other = self.folder / "case.json", self.folder / "about.toml"
        found: Mapping[str, Any] = (
            json.loads(case.read_text("utf-8"))["about"] if case.exists() else tomllib.loads(other.read_text("utf-8"))
        )
        return found

    @property
    def library(self) -> tuple[str, str]:
        """The name of its library, and the version that it was found in."""
        name, version = self.about["source"].replace(",", "").split()[:2]
        return name, version

    @property
    def program(self) -> Path:
        """The program that shows it: its exit code is 1 if the library deviates and 0 if not."""
        return self.folder / "repro.py"


def trophies() -> list[Trophy]:
    """Return all of them."""
    return [Trophy(path.parent) for path in sorted(TROPHIES.glob("*/repro.py"))]


@dataclass(frozen=True)
class ImpactOptions:
    """The options of `python3 -m fuzz.quality impact`."""

    names: Annotated[tuple[str, ...], typer.Argument(help="Folders of corpora/trophies.", show_default="all")] = ()
    releases: Annotated[int, typer.Option("--releases", min=1, help="Of how many minor versions the last one.")] = 5
    version: Annotated[tuple[str, ...], typer.Option("--version", help="Only this release. Repeatable.")] = ()
    save: Annotated[bool, typer.Option("--save", help="Keep the outcomes, in the reports too.")] = False
    markdown: options.Markdown = False
    json: options.Json = None


def impact(options: ImpactOptions) -> Exit:
    """Run the programs of kept deviations with the last releases of their libraries.

    For example: python3 -m fuzz.quality impact keras-torch-rms-norm-axis --releases 3
    """
    found = {each.folder.name: each for each in trophies()}
    if unknown := [name for name in options.names if name not in found]:
        raise UsageError(f"{unknown[0]}: no folder of corpora/trophies has that name")
    chosen, outcomes, err = [found[name] for name in options.names or found], dict[str, Any](), console.progress()
    groups = {
        name: [each for each in chosen if each.library[0] == name] for name in (each.library[0] for each in chosen)
    }
    # First of all, since a library that pip does not find ends the command, and nothing shall be lost.
    versions = {name: options.version or releases(group[0], options.releases) for name, group in groups.items()}
    for library, group in groups.items():
        for version in versions[library]:
            err.print(f"{library} {version}")
            for name, outcome in tried(group, version).items():
                kept = outcomes.setdefault(name, {"tried": date.today().isoformat(), "versions": {}})
                kept["versions"][version] = outcome
    if options.save:
        keep(outcomes)
    write_record(options.json, {"impact": outcomes})
    print_table(table(outcomes), markdown=options.markdown)
    return Exit.OK


def releases(trophy: Trophy, count: int) -> list[str]:
    """Return the last releases of its library; none of what only Debian has. Raises UsageError if pip finds none."""
    if "Debian" in trophy.about["source"]:
        return []
    done = _pip(sys.executable, "index", "versions", trophy.library[0])
    listed = re.findall(r"[^\s,]+", done.stdout.partition("Available versions: ")[2].partition("\n")[0])
    if not listed:
        raise UsageError(f"{trophy.library[0]}: pip finds no release of it: {_last_line(done.stderr)}")
    return last(listed, count)


def last(listed: Sequence[str], count: int) -> list[str]:
    """Return the last release of each of the last minor versions, the newest first as in what is listed; if there are
    fewer minor versions, the last releases."""
    minor = {".".join(each.split(".")[:2]): each for each in reversed(listed)}
    return [*(reversed(minor.values()) if len(minor) >= count else listed)][:count]


def tried(group: Sequence[Trophy], version: str) -> dict[str, str]:
    """Return the outcome of each trophy of one library in a version of it."""
    with tempfile.TemporaryDirectory() as folder:
        place, python = Path(folder), str(Path(folder) / "venv" / "bin" / "python")
        venv.create(place / "venv", symlinks=True)
        text = "\n".join(each.program.read_text("utf-8") for each in group)
        why = _install(python, place, group[0].library[0], version, text)
        return {each.folder.name: why or outcome(each.program, python, place) for each in group}


def _install(python: str, place: Path, library: str, version: str, text: str) -> str:
    """Install a release, as `.ci/thirdparty.txt` says how, and what the text of programs names besides it. Return why
    that failed, or nothing."""
    listed = (CHECKOUT / ".ci" / "thirdparty.txt").read_text("utf-8")
    found = re.search(rf"(?m)^(?:# (\w+): )?({re.escape(library)}(?:\[\w+\])?)==", listed)
    way, name = found.groups() if found else (None, library)
    named = [each for each in _BESIDE if each != library and re.search(rf"\b{each}\b", text)]
    others = [f"{each}=={here}" if (here := installed_version(each)) else each for each in named]
    calls = [["install", *others, *([] if way else [f"{name}=={version}"])]]
    if way == "alone":
        calls.append(["install", "--no-deps", f"{name}=={version}"])
    if way == "sdist":
        calls = [["download", "--no-deps", "--no-binary", name, "-d", str(place), f"{name}=={version}"]]
    for call in calls:
        done = _pip(python if call[0] == "install" else sys.executable, *call)
        if done.returncode:
            return f"not installed: {_last_line(done.stderr)}"
    for archive in place.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(place, [each for each in packed if "/llama.cpp/ggml/" in each.name], filter="data")
    return ""


def _pip(python: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def outcome(program: Path, python: str, place: Path) -> str:
    """Return what a program shows: that the library deviates, or is right, or why neither."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment["GGML"] = str(next(place.glob("*/vendor/llama.cpp/ggml"), ""))
    try:
        done = subprocess.run(
            [python, "-W", "ignore", str(program)],
            cwd=place, env=environment, check=False, capture_output=True, text=True, timeout=_MOST_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not run: not done after {_MOST_S} s"
    if done.returncode == 0:
        return RIGHT
    # An exception that nobody catches has exit code 1 too.
    said = done.returncode == 1 and "Traceback" not in done.stderr
    if said or (done.returncode < 0 and ENDS in done.stdout):
        return DEVIATES
    return f"not run: {_last_line(done.stderr) or f'exit code {done.returncode}'}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    # pip ends with notes and hints; an exception's last line begins with its name.
    said = [line for line in lines if line.lower().startswith("error: ")] or lines
    short = re.sub(r"(?i)^error: |(?<=Command )'\[.*\]' |: for help visit .*", "", said[-1] if said else "")
    return short.partition(". ")[0][:120].rstrip(".")


def table(outcomes: Mapping[str, Any]) -> PlainTable:
    """Return the versions with and without each deviation."""
    rows = [
        (name, Trophy(TROPHIES / name).library[0], *_sorted(each["versions"]), each["tried"])
        for name, each in sorted(outcomes.items())
    ]
    return PlainTable(("deviation", "library", "deviates in", "is right in", "could not be tried", "on"), rows)


def _sorted(versions: Mapping[str, str]) -> tuple[str, str, str]:
    by: dict[str, str] = {}
    for version, what in versions.items():
        by[what] = f"{by[what]}, {version}" if what in by else version
    deviates, right = by.pop(DEVIATES, ""), by.pop(RIGHT, "")
    return deviates, right, "; ".join(f"{some}: {why}" for why, some in by.items())


def since(trophy: Trophy, record: Mapping[str, Any]) -> str:
    """Return the line of a report that says since when."""
    if (kept := record.get(trophy.folder.name)) is None:
        return f"Since: only {' '.join(trophy.library)} was tried."
    words = zip(("deviates in", "right in", "could not be tried:"), _sorted(kept["versions"]), strict=True)
    return f"Since: {'; '.join(f'{word} {said}' for word, said in words if said)} (on {kept['tried']})."


def kept_outcomes() -> dict[str, Any]:
    """Return the outcomes that are kept of each trophy: the day, and what each version showed."""
    found: dict[str, Any] = json.loads(KEPT.read_text("utf-8"))
    return found


def keep(outcomes: Mapping[str, Any]) -> None:
    """Keep outcomes, in place of those of the same versions, and write them into the reports."""
    record = kept_outcomes()
    for name, each in outcomes.items():
        versions = {**record.get(name, each)["versions"], **each["versions"]}
        newest_first = sorted(versions.items(), key=lambda item: [*map(int, re.findall(r"\d+", item[0]))], reverse=True)
        record[name] = {**each, "versions": dict(newest_first)}
        report, line = TROPHIES / name / "report.md", since(Trophy(TROPHIES / name), record)
        report.write_text(re.sub(r"(?m)^Since: .*$", line.replace("\\", r"\\"), report.read_text("utf-8")), "utf-8")
    KEPT.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n", "utf-8")
