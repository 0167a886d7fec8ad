"""References of integers alone are run as they are, and solutions must return the same integers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.references.replay.cases import Meant, meant_of
from fuzz.references.replay.oracle import compared
from fuzz.tests.common.solutions import judged
from fuzz.tests.conftest import Cli
from oracles.tests.common.whole import quarter, some


def _definition(inputs: Mapping[str, str], outputs: Mapping[str, tuple[str, str]]) -> str:
    """Return a definition with tensors of one dimension, by dtype, whose outputs are expressions."""
    body = "".join(f"    {name} = {text}\n" for name, (_, text) in outputs.items())
    named = {name: {"shape": ["n"], "dtype": dtype} for name, dtype in inputs.items()}
    return json.dumps({
        "name": "table", "op_type": "elementwise", "axes": {"n": {"type": "var"}}, "inputs": named,
        "outputs": {name: {"shape": ["n"], "dtype": dtype} for name, (dtype, _) in outputs.items()},
        "reference": f"import torch\n\ndef run({', '.join(inputs)}):\n{body}    return {', '.join(outputs)}\n",
    })  # fmt: skip


def _solutions(
    inputs: Mapping[str, str], right: Mapping[str, str], wrong: Mapping[str, tuple[str, str]]
) -> dict[str, str]:
    """Return a right solution, and those with one wrong output each, by name."""
    texts = {"right": right, **{name: {**right, output: text} for name, (output, text) in wrong.items()}}
    return {
        name: f"import torch\n\ndef run({', '.join(inputs)}):\n    return {', '.join(own.values())}\n"
        for name, own in texts.items()
    }


_WIDE = {"a": "int32", "b": "int32"}
_WIDE_OUTPUTS = {
    "quotient": ("int32", "torch.div(a, b, rounding_mode='floor')"),
    "rest": ("int32", "torch.remainder(a, b)"),
    "shifted": ("int32", "a >> 3"),
    "less": ("bool", "a < b"),
    "ones": ("int32", "sum((a >> at) & 1 for at in range(32))"),
    "product": ("int64", "a.long() * b"),
}
_WIDE_RIGHT = {
    "quotient": "((a.long() - a.long() % b) // b).int()",
    "rest": "a - b * torch.div(a, b, rounding_mode='floor')",
    "shifted": "torch.div(a, 8, rounding_mode='floor')",
    "less": "(a.long() - b) < 0",
    "ones": "sum((a.long() >> at) & 1 for at in range(32)).int()",
    "product": "b.long() * a",
}
_WIDE_WRONG = {
    "truncates": ("quotient", "torch.div(a.long(), b, rounding_mode='trunc').int()"),
    "sign_of_rest": ("rest", "torch.fmod(a, b)"),
    "logical_shift": ("shifted", "((a.long() & 0xFFFFFFFF) >> 3).int()"),
    "unsigned": ("less", "(a.long() & 0xFFFFFFFF) < (b.long() & 0xFFFFFFFF)"),
    "by_difference": ("less", "(a - b) < 0"),
    "of_31_bits": ("ones", "sum((a >> at) & 1 for at in range(31))"),
    "in_floats": ("product", "(a.double() * b.double()).long()"),
}
_SHORT = {"a": "int8", "b": "int8", "c": "uint8", "f": "bool"}
_SHORT_OUTPUTS = {
    "wrapped": ("int8", "a + b"),
    "clamped": ("int8", "(a.int() + b).clamp(-128, 127).to(torch.int8)"),
    "magnitude": ("int8", "a.abs()"),
    "dot": ("int32", "(a.int() * b).sum(dtype=torch.int32).expand_as(a).contiguous()"),
    "packed": ("uint8", "(c & 15) | (c.flip(0) << 4)"),
    "flag": ("bool", "f ^ (a == b)"),
}
_SHORT_RIGHT = {
    "wrapped": "((a.int() + b + 128) % 256 - 128).to(torch.int8)",
    "clamped": "torch.minimum(torch.maximum(a.short() + b, torch.tensor(-128)), torch.tensor(127)).to(torch.int8)",
    "magnitude": "torch.where(a < 0, -a, a)",
    "dot": "(b.long() * a).sum().int().expand_as(a).contiguous()",
    "packed": "c % 16 + c.flip(0) % 16 * 16",
    "flag": "f != (a == b)",
}
_SHORT_WRONG = {
    "saturates": ("wrapped", "(a.int() + b).clamp(-128, 127).to(torch.int8)"),
    "wraps": ("clamped", "a + b"),
    "symmetric": ("clamped", "(a.int() + b).clamp(-127, 127).to(torch.int8)"),
    "off_at_the_minimum": ("magnitude", "a.int().abs().clamp(max=127).to(torch.int8)"),
    "sums_of_16_bits": ("dot", "(a.short() * b).sum(dtype=torch.int16).int().expand_as(a).contiguous()"),
    "bits_of_both": ("packed", "c | (c.flip(0) << 4)"),
    "either": ("flag", "f | (a == b)"),
}


@pytest.mark.parametrize(
    ("inputs", "outputs", "right", "wrong"),
    [(_WIDE, _WIDE_OUTPUTS, _WIDE_RIGHT, _WIDE_WRONG), (_SHORT, _SHORT_OUTPUTS, _SHORT_RIGHT, _SHORT_WRONG)],
    ids=["wide", "short"],
)
def test_solutions_of_integers_must_return_the_same_integers(
    cli_here: Cli, tmp_path: Path, inputs: Mapping[str, str], outputs: Mapping[str, tuple[str, str]],
    right: Mapping[str, str], wrong: Mapping[str, tuple[str, str]],
) -> None:  # fmt: skip
    wrong = {name: wrong[name] for name in some([*wrong], 3)}
    sources, reference = _solutions(inputs, right, wrong), _definition(inputs, outputs)
    words = ("--max-cases", str(quarter(40)), "--seed", "3", "--trusted")
    code, ruling = judged(cli_here, tmp_path, sources, *words, shapes="", reference=reference)
    rulings = {each["solution"][:-3]: each for each in ruling["solutions"]}
    assert {name: each["verdict"] for name, each in rulings.items()} == {
        "right": "right",
        **dict.fromkeys(wrong, "wrong"),
    }
    assert (code, ruling["oracle"], ruling["detection_floor"]) == (1, "replay", {})
    assert "compared exactly" in ruling["guarantee"]
    assert rulings["right"]["largest_error"] == {}
    for name, (output, _) in wrong.items():
        [failure, *_] = rulings[name]["failures"]
        assert failure["place"].startswith(f"y{[*outputs].index(output)}["), name
        assert (failure["allowed"], failure["dtype"]) == ("0", "")
        assert failure["got"] != failure["expected"]
    assert "spare" not in json.dumps(ruling["solutions"])
    assert {"f32"}.isdisjoint(" ".join(rulings["right"]["axes"]["dtypes"]).split())
    assert {"both", "no negative"} <= rulings["right"]["axes"]["signs"].keys()


def test_a_reference_that_makes_floats_of_integers_is_replayed(cli_here: Cli, tmp_path: Path) -> None:
    reference = _definition({"a": "int16"}, {"y": ("int16", "(a * 0.5).to(torch.int16)")})
    sources = {
        name: f"import torch\n\ndef run(a):\n    return {text}.to(torch.int16)\n"
        for name, text in {"right": "torch.div(a, 2, rounding_mode='trunc')", "floors": "(a >> 1)"}.items()
    }
    code, ruling = judged(
        cli_here, tmp_path, sources, "--seed", "3", "--max-cases", "12", "--trusted", shapes="", reference=reference
    )
    verdicts = {each["solution"]: each["verdict"] for each in ruling["solutions"]}
    assert (code, verdicts) == (1, {"right.py": "right", "floors.py": "wrong"})


def _drawn(reference: Callable[..., Any], dtypes: Mapping[str, str], count: int = 100) -> tuple[Meant, dict[str, Any]]:
    """Return what is meant by a reference of integers, and all numbers of some cases, by input."""
    shapes = ", ".join(f"{name}=n" for name in dtypes)
    meant = meant_of(reference, shapes, None, {}, "finite", ("f32",), dtypes)
    cases = [*islice(meant.cases(1), count)]
    return meant, {name: np.concatenate([each.arrays[name] for each in cases]) for name in dtypes}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_all_numbers_of_a_dtype_are_drawn_and_those_at_which_kernels_differ(dtype: str) -> None:
    meant, drawn = _drawn(lambda a: a + 1, {"a": dtype})
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert meant.is_exact
    assert {low, low + 1, high - 1, high, 0, 1, 63, 64, 65, *([-1, -64] if low else [])} <= {*drawn["a"].tolist()}


def test_a_divisor_is_never_zero_and_the_lowest_number_is_never_divided_by_minus_one() -> None:
    _, drawn = _drawn(lambda a, b: torch.div(a, b, rounding_mode="trunc"), {"a": "int32", "b": "int32"})
    assert 0 not in drawn["b"]
    assert -(2**31) not in drawn["a"]
    assert {-(2**31), -1, 1, 2**31 - 1} <= {*drawn["b"].tolist()}
    assert {1 - 2**31, -1, 0, 1, 2**31 - 1} <= {*drawn["a"].tolist()}


def test_integers_at_which_a_reference_looks_up_others_are_places() -> None:
    _, drawn = _drawn(lambda a, at: a[at], {"a": "int32", "at": "int64"})
    assert drawn["at"].min() == 0
    assert drawn["at"].max() < 4096
    assert drawn["a"].min() == -(2**31)


def test_a_check_by_replay_compares_integers_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    examples = [torch.arange(-20, 21, dtype=torch.int32), torch.arange(1, 42, dtype=torch.int32)]

    def floored(a: Any, b: Any) -> Any:
        return torch.div(a, b, rounding_mode="floor")

    asked: dict[str, Any] = {"reference": floored, "oracle": "replay", "example_inputs": examples, "seed": 1}
    fuzz.check(lambda a, b: (a.long() // b).int(), max_cases=20, **asked)
    assert "compared exactly" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(fuzz.CheckFailed, match="must be -"):
        fuzz.check(lambda a, b: torch.div(a.long(), b, rounding_mode="trunc").int(), max_cases=20, **asked)


def test_equal_elements_may_be_sorted_in_any_order() -> None:
    """Places are compared by the elements there; another output that depends on the order is not judged."""
    case = {"a": np.array([3, 1, 3, 2], np.int32), "b": np.array([5, 6, 7, 8], np.int32)}

    def places(a: Any, b: Any) -> Any:
        return torch.argsort(a), b[torch.argsort(a)]

    meant, _ = _drawn(places, {"a": "int32", "b": "int32"}, count=1)
    replays = meant.replays(case)
    assert replays is not None
    other = [np.array([1, 3, 2, 0]), np.array([6, 8, 7, 5])]
    assert compared(replays, other, "f32").wrong == ""
    assert compared(replays, [np.array([1, 3, 2, 2]), other[1]], "f32").wrong
    assert compared(replays, [np.array([1, 0, 2, 3]), other[1]], "f32").wrong
    assert compared(replays, other, "f32").judged == 4


def test_integers_of_64_bits_are_compared_as_they_are() -> None:
    meant, _ = _drawn(lambda a: a + 1, {"a": "int64"}, count=1)
    replays = meant.replays({"a": np.array([2**60, 5])})
    assert replays is not None
    assert compared(replays, [np.array([2**60 + 1, 6])], "f32").wrong == ""
    assert "must be 1152921504606846977" in compared(replays, [np.array([2**60, 6])], "f32").wrong
