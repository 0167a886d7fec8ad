"""One wrong kernel of each kind of operation is found, of those that the night tries whole."""

from __future__ import annotations

import pytest

from fuzz.tests.common.rows.running import ROWS, loaded, tried

pytestmark = pytest.mark.usefixtures("quick_checks")
_QUICK = {
    "selection": "found_right",
    "places": "lost_duplicates",
    "integers": "not_saturated",
    "random": "seeded_by_sum",
    "complex": "inner_without_conjugate",
    "geometry": "nearest_by_rounding",
    "state": "momentum_kept",
    "solves": "lower_with_unit_diagonal",
    "conversions": "bf16_with_carry",
    "extents": "doubled_but_for_the_last_rows",
}


@pytest.mark.parametrize("row", ROWS)
def test_a_wrong_kernel_of_each_row_is_found(row: str) -> None:
    entries = {each.kernel.__name__: each for each in loaded([row])}
    assert sum(not each.bug for each in entries.values()) >= 3
    assert sum(bool(each.bug) for each in entries.values()) >= 6
    assert tried(entries[_QUICK[row]], 1).outcome == "failed"
