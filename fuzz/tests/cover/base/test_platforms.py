"""What platforms document stands for what a kernel does not say, and nothing else does."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz import AnyOrder, Besides, Capabilities, CKernel, Contract, Pairwise, PythonKernel, Within
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.acceptance import ACCEPTED, TABLES
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.platform import Inherited, May, operations
from fuzz.core.base.platforms import FACTS, PLATFORMS, platform_of
from fuzz.report.platforms import platforms_table, taken_lines
from oracles.formula.contract import INHERITING, stated
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.summation import NumericsError
from oracles.truth import Truth

HOST = Host("x86_64", frozenset())
BASE_2 = {"exp2": Within(2.5, flushes=True)}
"""What an algorithm of softmax calculates with, by which alone a kernel may be right."""


def kernel(op: str, framework: str = "triton", contract: Contract | None = None) -> PythonKernel:
    plain = PythonKernel("k", op, Path("k.py"), framework)
    return plain if contract is None else replace(plain, contract=contract)


def on(place: str, of: Kernel) -> Target:
    return next(target for target in expand([of], HOST) if target.name.site == place)


def test_a_kernel_that_declares_nothing_and_one_that_declares_a_contract_of_nothing_have_the_facts() -> None:
    for contract in (None, Contract()):
        found = on("cuda", kernel("softmax", contract=contract)).contract
        assert found.accuracy == {"exp": Within(2.5, growth=0.62), "divide": Within(2.5), **BASE_2}
        assert found.order("mass", "n") == AnyOrder()
        assert found.platform == "none"


def test_what_is_declared_wins() -> None:
    said = Contract(accuracy={"exp": 1.0}, sums={"n": Pairwise(4)})
    found = on("cuda", kernel("softmax", contract=said)).contract
    assert found.accuracy == {"exp": 1.0, "divide": Within(2.5), **BASE_2}
    assert found.order("mass", "n") == Pairwise(4)
    strict = on("cuda", kernel("softmax", contract=Contract(platform="none"))).contract
    assert strict == Contract(platform="none")


def test_a_contract_that_platforms_widen_has_what_is_wider() -> None:
    said = Contract(accuracy={"exp": 4.0, "divide": 4.0}, platform="widens")
    assert on("cuda", kernel("softmax", contract=said)).contract.accuracy == {
        "exp": Within(4.0, growth=0.62), "divide": Within(4.0), **BASE_2,
    }  # fmt: skip


def test_an_error_besides_gives_way_to_either_declaration_of_a_function() -> None:
    plain = on("cpu", kernel("gelu", "torch")).contract
    assert plain.absolute == {"erf": 5.0}
    for said in (Contract(accuracy={"erf": 1.0}), Contract(absolute={"erf": 1.0})):
        assert on("cpu", kernel("gelu", "torch", said)).contract.absolute == said.absolute


def test_torch_may_err_absolutely_next_to_a_zero_of_lgamma_and_overflow_early_in_cosh() -> None:
    torch = PLATFORMS["torch@cpu"]
    assert torch.accuracy["cosh"] == Within(3.0, low=-88.5, high=88.5)
    assert torch.accuracy["lgamma"] == Within(4.0, high=4e36)
    assert torch.absolute["lgamma"] == Besides(0.1, -(2.0**24), 0.0)


def test_each_place_has_its_own_facts() -> None:
    places = {
        "cuda": {"rsqrt": Within(4.1, flushes=True), "divide": Within(2.5)}, "interpret": {"rsqrt": Within(2.0)},
    }  # fmt: skip
    for place, accuracy in places.items():
        assert on(place, kernel("layer_norm")).contract.accuracy == accuracy
    assert on("cpu", kernel("layer_norm", "torch")).contract.accuracy == {"rsqrt": Within(2.0)}
    assert on("native", CKernel("k", "layer_norm", Path("k.c"))).contract == Contract(platform="none")
    assert platform_of("fortran", "native").facts == ()


def test_where_two_platforms_are_one_place_both_hold() -> None:
    found = PLATFORMS["torch@cuda"]
    for name in ("torch@cpu", "triton@cuda"):
        assert {each for each in PLATFORMS[name].facts if each.value is not May.FLUSH_BF16} <= {*found.facts}
        assert all(found.accuracy[each].wider(bound) == found.accuracy[each] for each, bound in
                   PLATFORMS[name].accuracy.items())  # fmt: skip


def test_a_completed_contract_is_complete() -> None:
    for platform in PLATFORMS.values():
        for op in ("softmax", "gelu", "layer_norm", "attention"):
            once = platform.completed(Contract(), OPS[op])
            assert platform.completed(once, OPS[op]) == once


def test_a_row_with_an_infinity_has_either_logsumexp_where_nothing_is_said() -> None:
    """Libraries give the infinity, and what subtracts the maximum plainly NaN; of FlashAttention's rows only those all
    of minus infinity are guarded."""
    inf, nan = np.inf, np.nan
    x = np.array([[1, inf], [-inf, -inf], [-inf, 1]], np.float32)
    rows = [inf, -inf, 1.0], [nan, nan, 1.0], [nan, -inf, 1.0]
    gradients = [[0.0, nan], [nan, nan], [0.0, 1.0]], [[nan, nan], [nan, nan], [0.0, 1.0]]
    ones = np.ones(3, np.float32)
    for op, given, of, right in (
        ("logsumexp", {"x": x}, "y", rows), ("logsumexp_backward", {"x": x, "dy": ones}, "dx", gradients)
    ):  # fmt: skip
        problem, wrong = Problem(op, {}, given, {of: "f32"}), np.zeros_like(right[0])
        for contract, passing in ((Contract(), len(right)), (Contract(algorithm={"most": "finite"}), 1)):
            meant = on("cpu", kernel(op, "torch", contract)).contract
            found = [Truth(problem).check(meant, {of: np.array(y, np.float32)})[0] for y in (*right, wrong)]
            assert [each.result == "pass" for each in found] == [at < passing for at in range(len(right) + 1)]
    given_y = Problem("logsumexp_backward", {}, {"x": x, "dy": ones, "y": ones}, {"dx": "f32"})
    assert len(Truth(given_y).op.formulas(meant)) == 1


def test_a_row_with_an_infinity_has_either_loss_where_nothing_is_said() -> None:
    """NaN, as torch.nn.functional.cross_entropy has it, or what is left of torch.logsumexp less the logit."""
    inf, nan = np.inf, np.nan
    x = np.array([[1, inf], [1, inf], [-inf, -inf], [-inf, 1]], np.float32)
    given = {"x": x, "label": np.array([0, 1, 0, 0])}
    first = {"x": x[:1], "label": given["label"][:1]}
    backward = {**given, "dloss": np.ones(4, np.float32)}
    limits, shifted = [[-1, nan], [0, nan], [nan, nan], [-1, 1]], [*[[nan, nan]] * 3, [-1, 1]]
    for op, inputs, output, right, wrong, failing in (
        ("cross_entropy", given, "loss", ([inf, nan, nan, inf], [nan, nan, nan, inf]), [1, inf, inf, inf], 3),
        ("cross_entropy", given, "lse", ([inf, inf, -inf, 1], [nan, nan, nan, 1]), [1, -inf, inf, 1], 3),
        ("cross_entropy", first, "mean", (inf, nan), 1, 1),
        ("cross_entropy_backward", backward, "dx", (limits, shifted), [*[[1, 1]] * 3, [-1, 1]], 6),
    ):
        problem = Problem(op, {}, inputs, {output: "f32"})
        for contract, passing in ((Contract(), 2), (Contract(algorithm={"most": "finite"}), 1)):
            meant = on("cpu", kernel(op, "torch", contract)).contract
            found = [Truth(problem).check(meant, {output: np.array(y, np.float32)})[0] for y in (*right, wrong)]
            assert [each.result == "pass" for each in found] == [at < passing for at in range(3)], (op, output)
            assert found[2].failing == failing


def test_a_platform_allows_no_less_than_a_contract_by_itself() -> None:
    plain = Contract()
    for platform in PLATFORMS.values():
        assert all(bound.wider(plain.bound(name)) == bound for name, bound in platform.accuracy.items())


def test_only_functions_of_an_op_are_in_its_contract() -> None:
    assert operations(OPS["softmax"]) == {"exp", "divide", "exp2", "log"}
    assert operations(OPS["softmax"], frozenset({("mass", "online")})) == {"exp", "divide"}
    assert {"sigmoid", "exp", "divide"} <= operations(OPS["silu_mul"]), "the formula and its algorithms"
    assert operations(OPS["matmul"]) == {"dot"}


def test_each_row_has_a_source_and_is_about_something_that_there_is() -> None:
    for each in (*FACTS, *ACCEPTED):
        assert each.source
        assert each.platform in {*PLATFORMS, *TABLES}
        assert not isinstance(each.value, Inherited) or each.about in INHERITING, each
        assert not isinstance(each.value, Within | Besides) or each.about in stated(), each
        assert each.value is not May.FLUSH_BF16 or each.about in ("dot", *stated()), each
    kinds = [(each.platform, each.about, type(each.value)) for each in (*FACTS, *ACCEPTED)]
    assert len({*kinds}) == len(kinds), "one row for each fact"


def test_a_plain_softmax_is_right_on_a_gpu_under_a_contract_of_nothing_and_one_in_bf16_is_wrong() -> None:
    x = np.stack([np.zeros(512), np.linspace(-1, -100, 512)], axis=1).astype(np.float32)
    of, target = Problem("softmax", {"axis": 1}, {"x": x}, {"y": "f32"}), on("cuda", kernel("softmax"))
    products = x * np.float32(1.4426950408889634)
    cut = (products.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    for exponents, passes in ((products, True), (cut, False)):
        e = np.exp2(exponents.astype(np.float64)).astype(np.float32)
        y = e / e.sum(axis=1, keepdims=True, dtype=np.float32)
        (check,) = Truth(of).check(target.contract, {"y": y})
        assert (check.failing == 0) == passes
        if passes:
            (check,) = Truth(of).check(Contract(platform="none"), {"y": y})
            assert check.failing > 10, "it is the platform that allows it"


def test_a_layer_norm_of_subnormal_variance_may_be_flushed_on_a_gpu_and_not_on_a_processor() -> None:
    x = np.array([[1e-20, -1e-20, 1e-20, -1e-20]], np.float32)
    of = Problem("layer_norm", {"axis": 1, "eps": 0.0}, {"x": x}, {"y": "f32"})
    flushed = (x * np.float32(np.inf)).astype(np.float32)
    for place, fails in (("cuda", 0), ("interpret", 4)):
        (check,) = Truth(of).check(on(place, kernel("layer_norm")).contract, {"y": flushed})
        assert check.failing == fails


def test_subnormal_numbers_of_bf16_are_flushed_by_what_processors_have_instructions_for() -> None:
    narrow, wide = Capabilities(dtypes=("f32", "bf16")), Capabilities(dtypes=("f32", "f16"))
    for op, place, able, contract, denormals in (
        ("matmul", "cpu", narrow, Contract(), "flush bf16"),
        ("gelu", "cpu", narrow, Contract(), "flush bf16"),
        ("gelu", "cpu", narrow, Contract(platform="widens"), "flush bf16"),
        ("gelu", "cpu", narrow, Contract(platform="none"), "preserve"),
        ("gelu", "cpu", narrow, Contract(denormals="flush results"), "flush results"),
        ("gelu", "cpu", wide, Contract(), "preserve"),
        ("gelu", "cuda", narrow, Contract(), "preserve"),
        ("softmax", "cpu", narrow, Contract(), "preserve"),
    ):
        target = on(place, replace(kernel(op, "torch", contract), capabilities=able))
        assert target.contract.denormals == denormals, (op, place, contract)
        line = "".join(taken_lines([target]))
        assert ("with subnormals of bf16 flushed" in line) == (denormals == "flush bf16"), line


def test_a_product_of_bf16_may_take_subnormal_numbers_for_zero_on_a_processor_and_not_on_a_gpu() -> None:
    bf16 = STORAGE["bf16"]
    a, b = np.full((1, 2), 2.0**-128).astype(bf16), np.full((2, 1), 2.0**20).astype(bf16)
    of = Problem("matmul", {}, {"a": a, "b": b}, {"c": "bf16"})
    able = Capabilities(dtypes=("bf16",))
    for place, fails in (("cpu", 0), ("cuda", 1)):
        contract = on(place, replace(kernel("matmul", "torch"), capabilities=able)).contract
        for got, failing in ((0.0, fails), (2.0**-107, 0), (2.0**-100, 1)):
            (check,) = Truth(of).check(contract, {"c": np.full((1, 1), got).astype(bf16)})
            assert check.failing == failing, (place, got)


def test_factors_may_be_tf32_where_the_source_says_so_and_only_on_a_gpu(tmp_path: Path) -> None:
    source, cut = tmp_path / "k.py", dict.fromkeys("ab", "maybe tf32 towards zero")
    for text, options, place, points in (
        ("tl.dot(a, b, input_precision='tf32')", (), "cuda", cut),
        ("tl.dot(a, b, allow_tf32 = True)", (), "cuda", cut),
        ("tl.dot(a, b, input_precision=HOW)", (("how", "tf32"),), "cuda", cut),
        ("tl.dot(a, b, input_precision='tf32')", (), "interpret", {}),
        ("tl.dot(a, b, input_precision='tf32x3')", (), "cuda", {}),
        ("tl.dot(a, b, allow_tf32=False)", (), "cuda", {}),
        ("tl.dot(a, b)", (), "cuda", {}),
    ):
        source.write_text(text)
        of = PythonKernel("k", "matmul", source, "triton", options=options)
        assert on(place, of).contract.points == points, text
        for other in ("none", "widens"):
            assert on(place, replace(of, contract=Contract(platform=other))).contract.points == {}, text
        said = "held to what triton@cuda documents: sums in any order, dot in TF32, where the source says so"
        assert (taken_lines([on(place, of)]) == [said]) == bool(points)
    source.write_text(
        "def cut(a, b): return tl.dot(a, b, input_precision='tf32')\nprogram = tuned(cut)\n"
        "def whole(a, b): return tl.dot(a, b)  # not with allow_tf32=True\n"
        "def matmul(a, b): return program[1](a, b)\ndef other(a, b): return whole(a, b)\n"
    )
    for entry, points in (("matmul", cut), ("other", {})):
        of = PythonKernel("k", "matmul", source, "triton", entry=entry)
        assert on("cuda", of).contract.points == points, f"{entry}: a comment asks for nothing"
    source.write_text("tl.dot(a, b, input_precision='tf32')")
    of = PythonKernel("k", "matmul", source, "triton", Contract(points={"a": "tf32"}))
    assert on("cuda", of).contract.points == {"a": "tf32", "b": cut["b"]}, "what is declared wins"
    assert on("cuda", PythonKernel("k", "softmax", source, "triton")).contract.points == {}, "it has no product"
    wide = PythonKernel("k", "matmul", source, "triton", capabilities=Capabilities(dtypes=("f32", "f64")))
    assert on("cuda", wide).contract.points == {}, "f64 has no TF32"


def test_a_run_says_in_a_line_which_facts_it_takes() -> None:
    targets = [on(place, kernel("softmax")) for place in ("cuda", "interpret")]
    assert taken_lines(targets) == [
        "held to what triton@cuda documents: exp within 2.5 + 0.62 |x| ulp, divide within 2.5 ulp, sums in any order",
        "held to what triton@interpret documents: exp within 3 ulp, sums in any order",
    ]
    (line,) = taken_lines([on("cuda", kernel("softmax", contract=Contract(algorithm={"e": "base 2"})))])
    assert "exp2 within 2.5 ulp" in line, "of an algorithm that it has"
    assert taken_lines([on("cuda", kernel("softmax", contract=Contract(platform="none")))]) == []
    assert taken_lines([on("cuda", kernel("row_max"))]) == []


def test_the_table_has_each_fact_with_its_source() -> None:
    rows = platforms_table().rows
    assert [row[:2] for row in rows[: len(FACTS)]] == [(each.platform, each.about) for each in FACTS]
    assert ("torch@cuda", "all", "as triton@cuda and torch@cpu", "it calls those, or may") in rows


def test_the_table_of_wgsl_has_what_it_says_of_f16() -> None:
    full, half = TABLES["wgsl"], TABLES["wgsl-f16"]
    assert (full.documented["exp"], half.documented["exp"]) == (Within(3.0, growth=2.0), Within(1.0, growth=2.0))
    assert (full.documented["atan"], half.documented["atan"]) == (Within(4096.0), Within(5.0))
    assert full.documented["log"] == half.documented["log"] == Within(3.0)
    # In f32 an ulp of 1 is 2^-23, in f16 2^-10.
    for table, unit, near_1, turn in ((full, 2.0**-23, 2.0**-21, 2.0**-11), (half, 2.0**-10, 2.0**-7, 2.0**-7)):
        assert table.absolute["log"] == Besides(near_1 / unit, 0.5, 2.0)
        assert table.absolute["sin"] == pytest.approx(turn / unit)
        assert table.absolute["tanh"] == pytest.approx(1e-5 / unit)
    assert half.absolute["asin"] == half.absolute["acos"] == pytest.approx(3.91e-3 * 2**10)
    assert (full.absolute["asin"], full.absolute["acos"]) == (6.81e-5 * 2**23, 6.77e-5 * 2**23)
    assert {each.about for each in half.facts} == {each.about for each in full.facts}


def test_a_contract_may_name_the_table_of_a_standard() -> None:
    assert TABLES["wgsl"].accuracy["sin"] == Within(2.0, low=-math.pi, high=math.pi)
    assert TABLES["wgsl"].absolute["log"] == Besides(4.0, 0.5, 2.0)
    root = on("cuda", kernel("layer_norm", contract=Contract(platform="vulkan"))).contract
    assert root.accuracy == {"rsqrt": Within(2.0), "divide": Within(2.5)}
    gelu = on("cuda", kernel("gelu_tanh", contract=Contract(platform="wgsl"))).contract
    assert (gelu.inherited, gelu.denormals, gelu.nonfinite, gelu.platform) == (
        ("sinh", "cosh", "tanh"),
        "flush",
        "unspecified",
        "none",
    )
    assert gelu.accuracy == {"exp": Within(3.0, growth=2.0), "divide": Within(2.5)}
    strict = on("cuda", kernel("gelu_tanh", contract=Contract(platform="opencl", accuracy={"divide": 0.5}))).contract
    assert (strict.inherited, strict.accuracy) == ((), {"exp": Within(3), "tanh": Within(5), "divide": 0.5})
    (line,) = taken_lines([on("cuda", kernel("gelu_tanh", contract=Contract(platform="wgsl")))])
    assert line.startswith(
        "held to what wgsl documents: exp within 3 + 2 |x| ulp, divide within 2.5 ulp, sinh as (exp(x) - exp"
    )
    with pytest.raises(NumericsError, match=r"platform: 'vulcan' is neither 'fills', .* nor one of vulkan, wgsl, "):
        assert on("cuda", kernel("softmax", contract=Contract(platform="vulcan"))).platform
    for table in TABLES.values():
        for op in ("gelu_tanh", "softmax", "layer_norm"):
            once = table.completed(Contract(), OPS[op])
            assert table.completed(once, OPS[op]) == once
