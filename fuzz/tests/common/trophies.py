"""The deviations of shipped libraries that are kept, and the tables of them in the docs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fuzz.campaign.corpus.folder import Kept, load
from fuzz.core.adapters import pack
from fuzz.quality.impact import CHECKOUT, Trophy, trophies

PACKS = CHECKOUT / "kernels" / "thirdparty"
DOCS = CHECKOUT / "fuzz" / "docs"
ABOUT = ("source", "bug", "why", "decision", "found")
"""What is said of each: the library and its version, what is wrong, when it is, what was decided and why, and after how
many cases and seconds, or by what, it was found."""
CASED = ("pack", "kernel")
"""What is said of those with a case too: the pack and the kernel of it whose search found it. `also` may name other
kernels that fail for the same cause."""


def has_case(trophy: Trophy) -> bool:
    """Whether a kernel of a pack has it, so that a search finds it and `kernelfuzz repro` runs its case. No pack has
    torch's list of operations, nor functions of single numbers."""
    return (trophy.folder / "case.json").exists()


def cased() -> list[Trophy]:
    """Those with a case."""
    return [each for each in trophies() if has_case(each)]


def kept(trophy: Trophy) -> Kept:
    """Its case, checked, with what is said of it. Its op may be one that the pack of its library brings."""
    pack.load(PACKS / trophy.about["pack"])
    return load(trophy.folder / "case.json")


def fetched(trophy: Trophy) -> Path:
    """Where `.ci/fetch` puts its library, if it is one of those."""
    return PACKS / str(trophy.about.get("pack")) / "fetched"


def table(kept_ones: Sequence[Trophy]) -> str:
    """The table of the docs, in Markdown."""
    head = ("library", "what is wrong", "when", "decision, and why", "found after")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for trophy in kept_ones:
        about = trophy.about
        name = f"[{about['source']}](../../corpora/trophies/{trophy.folder.name}/report.md)"
        lines.append(" | ".join((name, about["bug"], about["why"], about["decision"], about["found"])))
    return "\n".join(f"| {line} |" for line in lines)
