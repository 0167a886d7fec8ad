"""What cannot be read is held against a replay in float64, if one asks for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fuzz

pytestmark = pytest.mark.usefixtures("quick_checks")


def clipped(x: Any) -> Any:
    """A value decides what it does."""
    size = x.norm()
    return x / size if size > 1 else x


def mine(rows: Any) -> Any:
    return rows / max(1.0, float(rows.square().sum().sqrt()))


def always(x: Any) -> Any:
    return x / x.norm()


def test_a_refusal_names_the_replay_which_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        fuzz.CheckError, match=r'a value decides what it does.*; oracle="replay" compares a kernel with'
    ):
        fuzz.check(mine, reference=clipped, shapes="x=b n")
    fuzz.check(mine, reference=clipped, shapes="x=b n", oracle="replay", max_cases=12, seed=1)
    said = capsys.readouterr().err
    assert "mine passed a replay: 12 cases, " in said
    assert "oracle: replay, weaker than a formula: errors below what 12 replays" in said
    with pytest.raises(fuzz.CheckFailed, match=r"FAIL  always  wrong values\n    the output\[") as caught:
        fuzz.check(always, reference=clipped, shapes="x=b n", oracle="replay", max_cases=12, seed=1)
    assert "oracle: replay, weaker than a formula" in str(caught.value)


def test_an_extent_may_follow_from_another_one() -> None:
    def scaled(x: Any, w: Any) -> Any:
        y = x[:, : w.shape[0]] * w
        return y / y.norm() if y.norm() > 1 else y

    def near(x: Any, w: Any) -> Any:
        y = x.chunk(2, -1)[0] * w
        return y / max(1.0, float(y.square().sum().sqrt()))

    fuzz.check(near, reference=scaled, shapes="x=b n, w=n/2", oracle="replay", max_cases=6, seed=1)


def test_what_is_no_output_of_the_reference_is_said() -> None:
    def told(kernel: Any) -> str:
        with pytest.raises(fuzz.CheckFailed) as caught:
            fuzz.check(kernel, reference=clipped, shapes="x=b n", oracle="replay", max_cases=2, seed=1)
        return str(caught.value).splitlines()[0]

    assert "the output has the shape " in told(lambda x: mine(x)[:, :0])
    assert told(lambda x: (mine(x), x)).endswith("returned 2 outputs, where the reference has 1")
    assert "raised ValueError: none of this" in told(lambda x: (_ for _ in ()).throw(ValueError("none of this")))


def test_what_a_replay_does_not_judge_is_refused() -> None:
    with pytest.raises(fuzz.CheckError, match="a plain function is held against a reference"):
        fuzz.check(mine, op="softmax", oracle="replay")
    with pytest.raises(fuzz.CheckError, match="without op and contract"):
        fuzz.check(mine, reference=clipped, contract=fuzz.Contract(), oracle="replay")
    with pytest.raises(fuzz.CheckError, match="oracle='reply': it is 'formula' or 'replay'"):
        fuzz.check(mine, reference=clipped, oracle="reply")  # type: ignore[arg-type]
    able = fuzz.Capabilities(dtypes=("e4m3fn",))
    with pytest.raises(fuzz.CheckError, match="tensors of e4m3fn are not compared with a replay"):
        fuzz.check(mine, reference=clipped, shapes="x=b n", oracle="replay", capabilities=able)
    with pytest.raises(fuzz.CheckFailed, match="NOTHING WAS JUDGED"):
        fuzz.check(lambda x: x, reference=lambda x: x * float("nan"), oracle="replay", max_cases=2, seed=1)


def test_equal_elements_have_the_places_that_are_documented_and_any_where_none_are() -> None:
    def largest(x: Any) -> Any:
        return tuple(torch.topk(x, 2, -1))

    def stable(x: Any) -> Any:
        values, places = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[..., :2], places[..., :2]

    fuzz.check(stable, reference=largest, shapes="x=... n", oracle="replay", max_cases=40, seed=1)
    with pytest.raises(fuzz.CheckFailed, match="must be 0"):
        fuzz.check(last, reference=first, shapes="x=b n", oracle="replay", max_cases=40, seed=1)


@pytest.mark.usefixtures("unexplained")
def test_of_equal_elements_the_first_one_is_meant_where_torch_documents_it() -> None:
    def greatest(x: Any) -> Any:
        return torch.max(x, -1)

    fuzz.check(first, reference=first, shapes="x=b n", max_cases=40, seed=1)
    with pytest.raises(fuzz.CheckFailed, match=r"y\[.*must be "):
        fuzz.check(last, reference=first, shapes="x=b n", max_cases=40, seed=1)
    fuzz.check(last, reference=first, shapes="x=b n", max_cases=40, seed=1, contract={"ties": "either"})
    with pytest.raises(fuzz.CheckFailed, match=r"indices\["):
        fuzz.check(lambda x: (x.max(-1).values, last(x)), reference=greatest, shapes="x=b n", max_cases=40, seed=1)


def first(x: Any) -> Any:
    return torch.argmax(x, -1)


def last(x: Any) -> Any:
    return x.shape[-1] - 1 - torch.argmax(x.flip(-1), -1)
