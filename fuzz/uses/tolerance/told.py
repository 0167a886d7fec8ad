"""What is told of the tolerances of an output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fuzz.report.console import PlainTable
from fuzz.uses.tolerance.needs import OURS, Needs, Ruler

VERSION = 1
_NAMES = {"torch": "torch.testing.assert_close", "numpy": "numpy.allclose", OURS: "what correct kernels need"}
_USELESS = 0.5
"""A tolerance that lets errors of half a value through tests nothing."""


def record(
    op: str, dtype: str, n: int, rows: int, extents: Mapping[str, int], found: Sequence[Needs]
) -> Mapping[str, Any]:
    """What `--json` prints, as JSON has it."""
    return {
        "schema": VERSION, "op": op, "dtype": dtype, "n": n, "rows": rows, "extents": dict(extents),
        "outputs": [asdict(each) for each in found],
    }  # fmt: skip


def record_text(op: str, dtype: str, n: int, rows: int, extents: Mapping[str, int], found: Sequence[Needs]) -> str:
    """The same as text."""
    return json.dumps(record(op, dtype, n, rows, extents, found), indent=1)


def tolerance_table(found: Needs) -> PlainTable:
    """A line for each tolerance."""
    columns = (f"{found.output}, {found.dtype}", "atol", "rtol", "lets through", "may refuse a correct kernel")
    return PlainTable(columns, [_row(each, found) for each in found.rulers])


def _row(each: Ruler, found: Needs) -> tuple[str, ...]:
    refuses = f"at {each.refuses:,} of {found.elements:,} elements" if each.refuses else "nowhere"
    return _NAMES[each.whose], f"{each.absolute:.2g}", f"{each.relative:.2g}", _share(each.lets_through), refuses


def tolerance_lines(found: Needs) -> Iterator[str]:
    """Yield what the table means, and what to type next."""
    yield f"relative to the exact value, rounded: typical {_share(found.typical)}, worst {_share(found.worst)}"
    yield f"each element by its own limit, as kernelfuzz judges: an error of {_share(found.floor)} is seen"
    ours = next(each for each in found.rulers if each.whose == OURS)
    if ours.lets_through >= _USELESS:
        yield "no pair of atol and rtol is of use here: values that cancel are judged with ones that do not"
    else:
        yield f"next: assert_close(mine, right, atol={ours.absolute:g}, rtol={ours.relative:g}), for values like these"


def _share(value: float) -> str:
    return "0" if value == 0 else f"{100 * value:.2g}%" if value >= 1e-4 else f"{value:.2g}"
