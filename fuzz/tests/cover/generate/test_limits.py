"""Extents at which kernels stop being right: powers of two, and the numbers of their own source."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import fuzz
from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.numbers import in_turn, numbers_in, numbers_of
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.generate.limits import Limits, apart_cases, far_cases
from fuzz.core.generate.search import Search, batches
from fuzz.tasks.check.setup import GIVEN, Options

_F32 = Capabilities(dtypes=("f32",))
_BLOCK = 777


def _drawn(op: str, able: Capabilities, *numbers: int, rank: int = 0) -> list[tuple[int, ...]]:
    """The shapes of the first input that the first turns from a rank on have for the sake of limits."""
    limits, found = Limits(Capability(op, able), numbers), list[tuple[int, ...]]()
    for place in range(30):
        draw = limits.draw(rank + place // 3, place % 3, Dice(Stream(place)))
        found += [] if draw is None else [(*draw.outer, draw.n)]
    return found


def test_lengths_beyond_a_power_of_two_come_first_and_those_of_the_source_next() -> None:
    assert [n for _, n in _drawn("softmax", _F32) if n > 8] == [4097, 8193, 4096, 4095]
    own = _drawn("softmax", _F32, 777)
    assert [n for _, n in own if n > 700] == [4097, 777, 8193, 4096, 4095, 778, 776]
    assert [rows for rows, _ in own if rows > 700] == [1025, 777, 778, 776]


def test_a_kernel_is_given_no_extent_that_it_does_not_take() -> None:
    able = Capabilities(dtypes=("f32",), max={"n": 5000}, multiple_of={"n": 8})
    found = _drawn("softmax", able, 777, 4096)
    assert {n for _, n in found} <= {*range(0, 5001, 8)}
    assert max(n for _, n in found) > 4000
    assert not [n for _, n in _drawn("cumsum", _F32) if n > 1000]  # its oracle takes one element after the other


def test_what_is_counted_is_many_late() -> None:
    assert not [shape for shape in _drawn("matmul", _F32) if max(shape[:-1]) > 5000]
    assert [shape for shape in _drawn("matmul", _F32, rank=64) if shape[-2] == 65537]
    assert [shape for shape in _drawn("matmul", _F32, rank=64) if shape[0] == 65537]


def test_every_dimension_alone_is_long_soon() -> None:
    """More than 2^8, from where on bf16 has not every whole number, and than a block has threads; few columns beside
    it."""
    for op in ("softmax", "matmul", "rope"):
        shapes = zip(*_drawn(op, _F32), strict=True)
        assert all(max(sizes) > 1024 for sizes in shapes), op
    assert (1025, 4) in _drawn("softmax", _F32)


def test_the_longest_are_long_along_each_dimension_and_two_together() -> None:
    shapes = [case.inputs["x"].layout.shape for case in far_cases(Capability("softmax", _F32), 1)]
    assert shapes == [(1, 65537), (65537, 1), (257, 257)]
    of_products = [case.inputs.values() for case in far_cases(Capability("matmul", _F32), 1)]
    sizes = [{size for each in inputs for size in each.layout.shape} for inputs in of_products]
    assert [max(each) for each in sizes].count(65537) == 4, "m, n, k and the batch"
    assert sum(257 in each for each in sizes) == 2
    assert len(far_cases(Capability("attention", _F32), 1)) < 12


def test_a_search_visits_them() -> None:
    drawn = [case.case for batch in islice(batches(Search("rms_norm", 3)), 3) for case in batch]
    assert {4095, 4096, 4097, 8193} <= {case.inputs["x"].layout.shape[int(case.params["axis"])] for case in drawn}


def test_numbers_are_read_from_sources() -> None:
    text = "// 555\n#define BLOCK (1 << 9)\n/* 666 */ float x = 1.777f; int n = 4*128, m = 0x100u, y888 = 3; a[1000];"
    assert numbers_in(Path("a.c"), text) == (512, 128, 256, 1000)
    assert numbers_in(Path("a.py"), 'WIDTH = 1 << 9  # 555\ndef f(x):\n    "777"\n    return x[:1000]\n') == (512, 1000)
    assert numbers_in(Path("a.py"), "def") == ()
    assert in_turn([(20, 30), (40,)]) == (20, 40, 30)


def test_numbers_are_read_from_what_a_function_calls() -> None:
    def inner(x: int) -> int:
        return min(x, _BLOCK)

    assert numbers_of(lambda x: inner(x) + 99) == (99, 777)
    assert numbers_of(print) == numbers_of(3) == ()


def _twice(x: Any) -> Any:
    return x * 2


@pytest.mark.some(1)
@pytest.mark.parametrize("extent", [777, 65537])
def test_a_check_finds_what_is_wrong_at_one_extent_of_the_source_or_far_out(
    extent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=0.0))

    def mine(x: Any) -> Any:
        return x * 2 + (x.shape[-1] == 777 if extent == 777 else x.shape[-1] > 65536.0)

    with pytest.raises(fuzz.CheckFailed, match=str(extent)):
        fuzz.check(mine, reference=_twice, shapes={"x": "... n"}, seed=1, max_cases=100)


def test_rows_far_apart_are_drawn_for_who_takes_them() -> None:
    able = Capability("matmul", Capabilities(strides="any"))
    [case] = apart_cases(able, 1)
    layouts = [each.layout for each in case.inputs.values()]
    assert all(each.extent > 2**31 > 2 * each.strides[0] > 0 for each in layouts)
    assert able.accepts(case)
    assert not Capability("matmul", _F32).accepts(case), "contiguous"
