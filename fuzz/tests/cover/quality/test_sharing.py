"""Nights that share the time of recorded searches: what is counted is true of searches that are known."""

from __future__ import annotations

from fuzz.campaign.nightly.sharing import FLOOR
from fuzz.quality.detection import PlantedBugs
from fuzz.quality.throughput import Recorded, RecordedTurn, SharedNight, SharingOptions, compared, recorded
from fuzz.tests.common.hunting import PACK

DRY = tuple(RecordedTurn(1.0, 0) for _ in range(100))
RICH = tuple(RecordedTurn(1.0, 10, (f"bug-{place}",) if place % 10 == 9 else ()) for place in range(100))


def test_a_night_by_what_is_new_finds_more_where_bugs_go_with_news() -> None:
    searches = {"dry": DRY, "rich": RICH, "also dry": DRY}
    in_turn, by_news = (SharedNight(searches, 1, 2.0, floor).run(90.0) for floor in (1.0, FLOOR))
    assert in_turn.count(90.0) == 3
    assert by_news.count(90.0) == 5
    assert [by_news.count(part) for part in (0.0, 45.0)] == [0, 2]
    assert sum(part.seconds for part in by_news.used["dry"]) >= 0.9 * FLOOR * 30.0
    assert by_news.found == SharedNight(searches, 1, 2.0, FLOOR).run(90.0).found


def test_a_search_that_was_not_recorded_for_longer_takes_its_time_and_shows_nothing() -> None:
    night = SharedNight({"short": RICH[:10], "long": DRY}, 1, 2.0, FLOOR).run(60.0)
    assert night.count(60.0) == 1
    assert 60.0 <= sum(part.seconds for parts in night.used.values() for part in parts) < 62.0


def test_the_table_has_a_row_for_each_night_and_one_for_all() -> None:
    found = [Recorded("rich", (RICH, DRY)), Recorded("dry", (DRY, DRY))]
    table = compared(found, 2, 30.0)
    quarter, half, whole = ("0", "1"), ("1", "2"), ("2", "4")
    assert table.rows == [
        ("1", *quarter, *half, *whole),
        ("2", *"000000"),
        ("all", *quarter, *half, *whole),
    ]


def test_a_search_is_recorded_with_the_bugs_that_it_finds() -> None:
    bugs = PlantedBugs(keyword="generic-divides-by-n-plus-1").of(PACK)["generic"]
    known = recorded(PACK, "generic", bugs, SharingOptions(seeds=1, each=0.05, most=1.0))
    [steps] = known.searches
    assert [name for step in steps for name in step.found] == ["c-generic-divides-by-n-plus-1@native:gcc-O0"]
    assert steps[0].found
    assert steps[0].new > 10
    assert all(step.seconds >= 0 for step in steps)
