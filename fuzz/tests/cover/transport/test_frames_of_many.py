"""Many small cases travel together: what a kernel does in the middle of a frame is said of the case that it was called
for. Native and emulated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from fuzz.core.base.case import Case, contiguous
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.execute.batch import Wait
from fuzz.core.transport.process import Process
from fuzz.core.transport.steps import Steps
from fuzz.tests.common.planted import HANGS, Run, a_case
from fuzz.tests.common.python_planted import TORCH_HEAD, indented, outcomes, python_target

MANY, CULPRIT = 64, 40
COUNTED = "static int calls; copy(c); row(&c->y, 0)[1] = ++calls; const int number = row(&c->x, 0)[0]; (void)number;"
"""Copies, and writes the number of the call in its process into the second element. Cases are told by the first."""


NOTED = 'FILE *note = fopen("%s", "a"); fputc(10, note); fclose(note);'
"""Counts the calls in all processes."""


@pytest.fixture(params=["native"])
def place(request: pytest.FixtureRequest) -> str:
    """The night emulates all of it, see `nightly/transport`."""
    return str(request.param)


def numbered(count: int = MANY, columns: int = 4) -> list[Case]:
    first = np.zeros((3, columns), "<f4")
    cases = []
    for number in range(count):
        first[0, 0] = number
        cases.append(a_case(contiguous((3, columns)), bits=first.tobytes()))
    return cases


def calls(outcomes: Sequence[Outcome]) -> list[float]:
    """The number of the call in its process that each case was."""
    return [float(np.frombuffer(each.outputs["y"], "<f4")[1]) for each in outcomes]


def acting(acts: Mapping[int, str]) -> str:
    """Does something in the cases of these numbers."""
    return "".join(f"if (number == {number}) {{ {act} }}\n" for number, act in acts.items())


def test_a_death_in_the_middle_is_that_cases_and_those_before_it_are_not_run_again(run: Run, tmp_path: Path) -> None:
    note, acts = tmp_path / "calls", {20: "abort();", 21: "_Exit(3);", CULPRIT: "raise(SIGKILL);"}
    found = run(f"{NOTED % note} {COUNTED} {acting(acts)}", *numbered())
    assert [place for place, each in enumerate(found) if each.status is not Status.RAN] == list(acts)
    assert {found[place].status for place in acts} == {Status.DIED}
    for start, end in ((0, 20), (22, CULPRIT), (CULPRIT + 1, MANY)):
        assert calls(found[start:end]) == list(range(1, end - start + 1))
    again = 1 + 1 + 3  # alone; an operator may have sent the signal
    assert note.stat().st_size == MANY + again


@pytest.mark.whole
def test_a_death_in_the_middle_of_what_a_python_kernel_is_given(tmp_path: Path, cache: Path) -> None:
    note = tmp_path / "calls"
    act = f"y.copy_(x)\nopen({str(note)!r}, 'a').write(f'{{int(x[0, 0])}} ')\nif x[0, 0] == {CULPRIT}: os.abort()"
    found = outcomes(python_target(tmp_path, TORCH_HEAD + indented(act)), cache, *numbered())
    assert [place for place, each in enumerate(found) if each.status is not Status.RAN] == [CULPRIT]
    assert found[CULPRIT].status is Status.DIED
    assert note.read_text().split()[: CULPRIT + 2] == [*map(str, range(CULPRIT + 1)), str(CULPRIT)]


def test_a_hang_in_the_middle_is_that_cases_and_it_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Wait] = []

    def watch(waits: Sequence[Wait]) -> Collection[str]:
        seen.extend(waits)
        return []

    monkeypatch.setattr("fuzz.core.execute.pool.patient", watch)
    cases = numbered()
    found = run(f"{COUNTED} if (number == {CULPRIT}) {HANGS}", *cases, limit=1.0)
    assert [place for place, each in enumerate(found) if each.status is not Status.RAN] == [CULPRIT]
    assert found[CULPRIT].status is Status.HUNG
    assert calls(found[:CULPRIT]) == list(range(1, CULPRIT + 1))
    named = Counter(id(wait.case) for wait in seen if wait.case is not None)
    assert named.most_common(1)[0][0] == id(cases[CULPRIT])


def test_the_time_limit_is_that_of_a_case_and_not_of_the_frame(run: Run) -> None:
    slow = "struct timespec t = {.tv_nsec = 100000000}; nanosleep(&t, NULL);"
    found = run(f"{COUNTED} {slow}", *numbered(26), limit=2.0, before="#include <time.h>\n")
    assert calls(found) == list(range(1, 27))


def test_an_input_that_is_written_in_the_last_case_but_one(run: Run) -> None:
    found = run(f"{COUNTED} if (number == {MANY - 2}) row(&c->x, 1)[2] = 7;", *numbered())
    assert [place for place, each in enumerate(found) if each.damage] == [MANY - 2]
    [damage] = found[MANY - 2].damage
    assert (damage.tensor, damage.kind, damage.row, damage.column) == ("x", "input", 1, 2)
    assert calls(found) == list(range(1, MANY + 1))


WRITES = "char b[64] = {1}; for (int f = 3; f < 512; f++) if (write(f, b, sizeof b) < 0) continue;"
CLOSES = "for (int f = 3; f < 512; f++) close(f);"
REPLACES = 'dup2(open("/dev/null", O_RDWR), 65);'
"""The answers' descriptor, and not that of the requests."""


def test_who_breaks_the_way_of_the_answers_is_found_although_they_are_lost(run: Run) -> None:
    acts = {20: WRITES, 30: CLOSES, CULPRIT: REPLACES}
    # Headers that define inline functions, as some systems' do, cannot be included in a function.
    head = "#include <fcntl.h>\n#include <unistd.h>\n"
    found = run(f"{COUNTED} {acting(acts)}", *numbered(), limit=2.0, before=head)
    assert [place for place, each in enumerate(found) if each.status is not Status.RAN] == list(acts)
    assert {found[place].status for place in acts} == {Status.DIED}


def test_answers_that_the_journal_has_no_room_for_keep_their_order(run: Run) -> None:
    """Some larger than the journal, with small ones in between, and 64 that fill it several times."""
    large, small = numbered(3, 30_000), numbered(3)
    mixed = [small[0], large[0], large[1], small[1], small[2], large[2]]
    for cases in (mixed, numbered(MANY, 1500)):
        found = run(COUNTED, *cases)
        assert calls(found) == list(range(1, len(cases) + 1))
        got = [np.frombuffer(each.outputs["y"], "<f4") for each in found]
        assert [float(each[0]) for each in got] == [
            float(np.frombuffer(case.inputs["x"].bits, "<f4")[0]) for case in cases
        ]


def test_a_worker_waits_while_nobody_takes_its_answers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine judges meanwhile, and may take longer than a case may."""
    took = 0
    receive = Process._receive

    def late(self: Process, deadline: float) -> Steps[None]:
        nonlocal took
        if took == 0:
            time.sleep(2)
        took += 1
        yield from receive(self, deadline + 2)

    monkeypatch.setattr(Process, "_receive", late)
    note = tmp_path / "calls"
    found = run(f"{NOTED % note} {COUNTED}", *numbered(MANY, 10_000), limit=0.5)
    assert calls(found) == list(range(1, MANY + 1))
    assert note.stat().st_size == MANY
