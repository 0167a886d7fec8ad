"""The deviations of shipped libraries that are kept, and the table of them in the docs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fuzz.campaign.corpus.folder import Kept, load
from fuzz.core.adapters import pack

CHECKOUT = Path(__file__).resolve().parents[3]
PACKS = CHECKOUT / "kernels" / "thirdparty"
ABOUT = ("source", "bug", "why", "decision", "pack", "kernel", "found")
"""What is said of each: the library and its version, what is wrong, when it is, what was decided and why, the pack and
the kernel of it whose search found it, and after how many cases and seconds it did. `also` may name other kernels
that fail for the same cause."""


def trophies() -> list[Path]:
    """The folder of each."""
    return sorted(path.parent for path in (CHECKOUT / "corpora" / "trophies").glob("*/case.json"))


def told(trophy: Path) -> Mapping[str, str]:
    """What is said of it."""
    about: Mapping[str, str] = json.loads((trophy / "case.json").read_text(encoding="utf-8"))["about"]
    return about


def kept(trophy: Path) -> Kept:
    """Its case, checked, with what is said of it. Its op may be one that the pack of its library brings."""
    pack.load(PACKS / told(trophy)["pack"])
    return load(trophy / "case.json")


def fetched(trophy: Path) -> Path:
    """Where `.ci/fetch` puts its library, if it is one of those."""
    return PACKS / told(trophy)["pack"] / "fetched"


def table(folders: Sequence[Path]) -> str:
    """The table of the docs, in Markdown."""
    head = ("library", "what is wrong", "when", "decision, and why", "found after")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for folder in folders:
        about = told(folder)
        name = f"[{about['source']}](../../corpora/trophies/{folder.name}/report.md)"
        lines.append(" | ".join((name, about["bug"], about["why"], about["decision"], about["found"])))
    return "\n".join(f"| {line} |" for line in lines)
