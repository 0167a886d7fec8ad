"""Rows of shipped libraries: right calls are right, planted faults are seen, and what is not here says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.quality.__main__ import app
from fuzz.quality.impact import trophies
from fuzz.quality.shipped.judging import all_answers
from fuzz.quality.shipped.rows import ABSENT, ShippedAnswer, ShippedOp, shipped_ops
from fuzz.quality.shipped.verb import deviations, new_deviations, reasons, shares
from fuzz.tasks.comparison import FORMULA, OPEN, REPLAY, RIGHT, WRONG
from fuzz.tests.common.trophies import DOCS
from fuzz.tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("unexplained")
_CASES = 12
EXPIT = "scipy special.expit"


def answered(monkeypatch: pytest.MonkeyPatch, *ops: ShippedOp) -> list[ShippedAnswer]:
    """Return the answers about rows."""
    found = {each.key: each for each in ops}
    monkeypatch.setattr("fuzz.quality.shipped.verb.shipped_ops", lambda: found)
    monkeypatch.setattr("fuzz.quality.shipped.judging.shipped_ops", lambda: found)
    return sorted(all_answers([*found], 1, _CASES, 1), key=lambda each: [*found].index(each.key))


def test_a_right_call_is_right_and_a_planted_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = shipped_ops()[EXPIT]
    wrong = replace(right, name="off", call="special.expit(x) * np.asarray(1.001, x.dtype)")
    ranked = replace(shipped_ops()["scipy special.i0"], name="off by replay", call="special.i0(x) * np.float32(1.01)")
    found = answered(monkeypatch, right, wrong, ranked)
    assert [(each.result, each.by) for each in found] == [(RIGHT, FORMULA), (WRONG, FORMULA), (WRONG, REPLAY)]
    assert " x = [" in found[1].said or " x " in found[1].said
    assert "next:" not in found[1].said
    assert new_deviations(found) == found[1:]
    assert [line[0] for line in deviations(found).rows] == [wrong.key, ranked.key]
    assert shares(found).rows[-1][2:] == ("3", "1", "2", "0", "0")


def test_what_cannot_be_judged_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    right = shipped_ops()[EXPIT]
    absent = replace(right, name="absent", modules={**right.modules, "nowhere": "no_such_library"})
    unread = replace(right, name="unread", means="x.median(-1).values")
    found = answered(monkeypatch, absent, unread)
    assert [each.result for each in found] == [ABSENT, OPEN]
    assert found[0].said == "ModuleNotFoundError: No module named 'no_such_library'"
    assert "aten.median (scipy.toml line " in found[1].said
    assert [line[0] for line in reasons(found).rows] == ["scipy", unread.key]


def test_a_library_that_cannot_be_imported_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "half_built.py").write_text("raise RuntimeError('operator half_built::nms does not exist')\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    right = shipped_ops()[EXPIT]
    (found,) = answered(monkeypatch, replace(right, modules={**right.modules, "nowhere": "half_built"}))
    assert (found.result, reasons([found]).rows) == (
        ABSENT, [("scipy", "RuntimeError: operator half_built::nms does not exist")]
    )  # fmt: skip


def test_a_row_may_have_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    right = replace(
        shipped_ops()[EXPIT], name="of integers", shapes="s=m, a=m k", call="s[:, None] * a.astype(s.dtype)",
        means="s[:, None] * a.float()", options={"dtypes": {"a": "int8"}},
    )  # fmt: skip
    wrong = replace(right, name="without a sign", call="s[:, None] * a.view(np.uint8).astype(s.dtype)")
    assert [each.result for each in answered(monkeypatch, right, wrong)] == [RIGHT, WRONG]
    assert shipped_ops()["bitsandbytes int8_linear_matmul"].options["dtypes"] == {"a": "int8", "b": "int8"}


def test_rows_of_scipy_and_torch_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("scipy special.softmax", "scipy ndimage.sobel", "scipy sparse.csr matvec", "torch SGD momentum")
    assert [each.result for each in answered(monkeypatch, *(shipped_ops()[name] for name in names))] == [RIGHT] * 4


def test_each_row_can_be_read_and_its_deviation_is_on_the_page() -> None:
    page = (DOCS / "shipped.md").read_text("utf-8")
    kept = {each.folder.name for each in trophies()}
    for key, op in shipped_ops().items():
        for text in (op.call, op.means):
            compile(text, key, "eval")
        assert op.known in ("", *kept) or " " in op.known, f"{key}: neither a kept deviation nor a reason"
        assert not op.known or f"| {key} | " in page, key
    assert len(shipped_ops()) >= 200


def test_a_name_that_no_row_has_is_one_line(cli_here: Cli) -> None:
    done = cli_here("shipped", "--match", "no such", app=app)
    assert (done.returncode, done.stderr) == (4, "kernelfuzz: --match no such: no such row or library\n")
