"""The facts of platforms: those that a session relies on, as lines, and all of them, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from fuzz.core.adapters.target import Target
from fuzz.core.base.platform import Fact
from fuzz.core.base.platforms import FACTS, PLATFORMS
from fuzz.report.console import PlainTable
from oracles.formula.contract import Besides, Within
from oracles.ops import OPS


def taken_lines(targets: Iterable[Target]) -> list[str]:
    """Return lines like 'held to what triton@cuda documents: exp within 2.5 + 0.62 |x| ulp, sums in any order'."""
    found = dict[str, dict[Fact, None]]()
    for target in targets:
        kernel = target.kernel
        taken = target.platform.taken(
            kernel.contract, OPS[kernel.op], kernel.able.dtypes, asks_tf32=kernel.asks_tf32
        )  # fmt: skip
        found.setdefault(target.platform.name, {}).update(dict.fromkeys(taken))
    return [f"held to what {name} documents: {', '.join(map(_words, of))}" for name, of in found.items() if of]


def _words(fact: Fact) -> str:
    is_bound = isinstance(fact.value, Within | Besides)
    return f"{fact.about} {'within ' if is_bound else ''}{fact.value}"


def platforms_table() -> PlainTable:
    """Return a table with a line for each fact and its source, then the platforms that share the facts of others."""
    from fuzz.core.base.acceptance import ACCEPTED  # loaded only if it is asked for

    rows = [(each.platform, each.about, str(each.value), each.source) for each in (*FACTS, *ACCEPTED)]
    for name, platform in PLATFORMS.items():
        own = dict.fromkeys(each.platform for each in platform.facts if each.platform != name)
        rows += [(name, "all", f"as {' and '.join(own)}", "it calls those, or may")] if own else []
    return PlainTable(("platform", "fact", "value", "source"), rows)
