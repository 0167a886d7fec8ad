"""The deviations of shipped libraries that are kept, and the table of them in the docs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fuzz.uses.corpus.folder import Kept, load

CHECKOUT = Path(__file__).resolve().parents[3]
ABOUT = ("source", "bug", "why", "decision", "pack", "kernel", "found")
"""What is said of each: the library and its version, what is wrong, when it is, what was decided and why, the pack and
the kernel of it whose search found it, and after how many cases and seconds it did."""


def trophies() -> list[Path]:
    """The folder of each."""
    return sorted(path.parent for path in (CHECKOUT / "corpora" / "trophies").glob("*/case.json"))


def kept(trophy: Path) -> Kept:
    """Its case, checked, with what is said of it."""
    return load(trophy / "case.json")


def table(folders: Sequence[Path]) -> str:
    """The table of the docs, in Markdown."""
    head = ("library", "what is wrong", "when", "decision, and why", "found after")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for folder in folders:
        about = kept(folder).about
        name = f"[{about['source']}](../../corpora/trophies/{folder.name}/report.md)"
        lines.append(" | ".join((name, about["bug"], about["why"], about["decision"], about["found"])))
    return "\n".join(f"| {line} |" for line in lines)
