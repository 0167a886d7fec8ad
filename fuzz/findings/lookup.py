"""Lookup: on a command line a case file is named by how its digest or its name begins."""

from __future__ import annotations

from pathlib import Path

FINDINGS = Path("findings")
"""The case files of a run are here, where nobody asks for another folder."""
OF_CHECKS = Path(".pytest_cache", "d", "kernelfuzz")
"""The case files of `fuzz.check` are here, in the folder in which pytest runs."""
SHORTEST = 4
"""A name has at least this many characters."""
_DIGEST = 6
"""The characters of a digest by which commands name a finding."""


def folders(findings: Path = FINDINGS, pack: Path | None = None) -> tuple[Path, ...]:
    """Return the folders in which findings are looked up: `findings`, or the folder of that name in it, that of checks,
    and that of a pack, which `kernelfuzz judge` writes."""
    first = findings / FINDINGS if (findings / FINDINGS).is_dir() else findings
    return (first, OF_CHECKS, *([pack / FINDINGS] if pack is not None else []))


def files_in(places: tuple[Path, ...]) -> list[Path]:
    """Return the case files of the folders, each of them once."""
    return sorted({path.absolute(): path for folder in places for path in folder.glob("*.json")}.values())


def fitting(text: str, files: list[Path]) -> list[Path]:
    """Return the files whose name or digest begins so. The digest, of twelve digits, ends their name."""
    return [path for path in files if path.stem.startswith(text) or path.stem.rpartition("-")[2].startswith(text)]


def short_words(path: Path, pack_option: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fewest words that name the case file on a command line which goes on with `pack_option`: how its
    digest or its name begins, and the folder where that is none in which findings are looked up anyway."""
    pack = Path(pack_option[1]) if pack_option[:1] == ("--pack",) else None
    usual = folders(pack=pack)
    is_usual = any(path.parent.absolute() == folder.absolute() for folder in usual)
    files = files_in(usual if is_usual else folders(path.parent, pack))
    name, _, digest = path.stem.rpartition("-")
    short = [digest[:_DIGEST], f"{name}-{digest[:_DIGEST]}", path.stem]
    is_judged = pack is not None and path.parent.absolute() == (pack / FINDINGS).absolute()
    for text in short[is_judged:]:  # what is judged later may fail on the same case
        if len(text) >= SHORTEST and [each.absolute() for each in fitting(text, files)] == [path.absolute()]:
            return (text,) if is_usual else (text, "--findings", str(path.parent))
    return (str(path),)
