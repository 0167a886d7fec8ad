"""Hints say what a source mentions, as far as it decides something, and nothing that a comment or a string says."""

from __future__ import annotations

import pytest

from fuzz.core.base.hints import EXTENT, SIZE, TWO_THREADS, WAY, hints_in
from fuzz.core.base.probe import AUTOGRAD, CALLER, FRESH, OVERWRITE, PAUSE, PROCESS


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("if x.shape[-1] == 1237: pass", (EXTENT, 1237.0)),
        ("if x.shape[-1] > 1237: pass", (EXTENT, 1238.0)),
        ("if 1237 <= n: pass", (EXTENT, 1236.0)),
        ("if 3.1 < abs(x).max() < 3.2: pass", (SIZE, 3.1500000000000004)),
        ("y = where(x > 6.5, x, 0)", (SIZE, 6.5)),
        ("if x[0] < -6.5: pass", (SIZE, 6.5)),
        ("place = x.data_ptr()", (WAY, FRESH)),
        ("kept[id(x)] = y", (WAY, OVERWRITE)),
        ("import inspect\ninspect.stack()", (WAY, CALLER)),
        ("os.environ.get('HOME')", (WAY, PROCESS)),
        ("time.monotonic()", (WAY, PAUSE)),
        ("x.requires_grad", (WAY, AUTOGRAD)),
        ("torch.get_num_threads()", (TWO_THREADS, "2")),
    ],
)
def test_what_a_source_looks_at_is_a_hint(text: str, hint: tuple[str, float | str]) -> None:
    assert hint in hints_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "# if n == 1237", "'os.environ, n == 1237'", "x = 1237 * y", "def f(:", "if x.shape[-1] == 0: pass", "",
        "if x < 1e999: pass", f"if x < {'9' * 400}: pass",
    ],
)  # fmt: skip
def test_what_decides_nothing_is_no_hint(text: str) -> None:
    assert hints_in(text) == ()


def test_a_length_is_no_magnitude_and_hints_are_few() -> None:
    assert not [each for each in hints_in("if x.shape[-1] > 1237: pass") if each[0] == SIZE]
    assert len(hints_in("\n".join(f"if n == {number}: pass" for number in range(2, 900)))) < 50
