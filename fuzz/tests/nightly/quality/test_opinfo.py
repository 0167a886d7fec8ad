"""One in eight entries of torch's own list, and those with deviations, bring none that nobody has read."""

from __future__ import annotations

from fuzz.quality.opinfo.verb import FORWARD, all_answers, entries, known, new_deviations
from fuzz.tasks.comparison import WRONG
from oracles.dtypes import COMPUTED

_ONE_IN = 8


def test_torch_deviates_only_where_somebody_has_read_it() -> None:
    wrong = {each.partition(" ")[0] for each in known() if not each.endswith(":cuda")}
    names = sorted({*[*entries()][::_ONE_IN], *wrong})
    found = [each for _, some in all_answers(names, COMPUTED, 2, 2) for each in some]
    assert not new_deviations(found)
    assert {each.entry for each in found if each.result == WRONG} == wrong
    assert len({each.entry for each in found if each.by and each.way == FORWARD}) > 0.8 * len(names)
