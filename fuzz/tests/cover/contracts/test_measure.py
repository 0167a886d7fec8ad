"""What a kernel calculates of which nothing is declared is read off it, and told: it accuses nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.contracts.measuring import Seen, measured, tightened
from fuzz.contracts.orders import Meeting, Tree, UnreadableSumError, known, read_tree
from fuzz.core.adapters.registry import expand
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport.python import attest
from fuzz.tasks.check.reference import lenient, read, tried
from fuzz.tasks.check.request import Calling, GivenData
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.measured import lanes, loop, measure, pairs
from fuzz.tests.common.told import fails
from oracles.ops import OPS
from oracles.summation import Read
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")


def _answers(tree: Tree) -> Meeting:
    def meeting(asked: Sequence[tuple[int, int]]) -> list[int]:
        terms = np.ones((len(asked), tree.n))
        for row, (one, other) in enumerate(asked):
            terms[row, one], terms[row, other] = 2.0**80, -(2.0**80)
        return [tree.n - int(each) for each in tree.total(terms)]

    return meeting


@pytest.mark.parametrize("n", [2, 3, 37, 200])
def test_an_order_is_read_from_what_meets(n: int) -> None:
    for tree in known(n):
        found = read_tree(n, _answers(tree), 10 * n)
        assert (found.depths == tree.depths).all()
        assert found.words == tree.words


@pytest.mark.whole
def test_an_elementwise_function_of_many_dimensions_is_measured_on_few_elements() -> None:
    most = 0

    def mine(x: Any) -> Any:
        nonlocal most
        most = max(most, x.numel())
        return torch.relu(x)

    fuzz.check(mine, reference=torch.relu, shapes="x=a b c d e", max_cases=1, seed=1)
    assert 100 < most < 1 << 20


@pytest.mark.whole
def test_weights_that_are_always_large_do_not_keep_a_wrong_kernel_from_being_looked_at() -> None:
    """What else it is right as is asked of small cases: none is, if weights count."""

    def product(x: Any, w: Any) -> Any:
        return x @ w

    def mine(x: Any, w: Any) -> Any:
        return x.bfloat16().float() @ w.bfloat16().float()

    with pytest.raises(fuzz.CheckFailed, match="right as f32 with inputs rounded to bf16; wrong as f32"):
        fuzz.check(mine, reference=product, shapes="x=b k, w=k n", fixed={"k": 48, "n": 64}, max_cases=8, seed=1)


def test_what_is_no_tree_is_not_read() -> None:
    random = np.random.default_rng(0)
    with pytest.raises(UnreadableSumError):
        read_tree(37, lambda asked: [int(random.integers(2, 38)) for _ in asked], 10_000)
    with pytest.raises(UnreadableSumError, match="too many questions"):
        read_tree(37, _answers(known(37)[0]), 40)


def test_several_terms_that_are_added_at_once_are_read() -> None:
    """Hardware that adds four terms to a sum at once: all of them meet there."""

    def meeting(asked: Sequence[tuple[int, int]]) -> list[int]:
        return [min(4 * (max(one, other) // 4 + 1), 37) for one, other in asked]

    tree = read_tree(37, meeting, 1000)
    assert len(tree.joins) == 36
    assert tree.depths[0] >= 9


def total(x: Any) -> Any:
    return x.sum(-1)


def mean(x: Any) -> Any:
    return x.mean(-1)


def product(x: Any, w: Any) -> Any:
    return x @ w


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (loop, "accumulates in f32, sums over n one after the other, same bits each time"),
        (lambda x: loop(x[..., ::-1]), "accumulates in f32, sums over n from the last term to the first"),
        (lanes, "accumulates in f32, sums over n in 8 lanes, same bits each time"),
        (pairs, "accumulates in f32, sums over n in pairs, same bits each time"),
        (lambda x: loop(x.astype(np.float64)).astype(np.float32), "accumulates in f64, sums over n one after the"),
    ],
)  # fmt: skip
def test_the_order_of_a_sum_and_its_dtype_are_measured(kernel: Callable[..., Any], said: str) -> None:
    assert measure(kernel, total, "x=... n").text.startswith(f"measured: {said}")


def test_rows_that_are_summed_in_two_orders_have_the_longer_one() -> None:
    def mixed(x: Any) -> Any:
        found = lanes(x)
        found[1::2] = loop(x[1::2])
        return found / np.float32(x.shape[-1])

    [order] = measure(mixed, mean, "x=m n").sums
    assert (order.chain, order.words, order.read) == (order.terms - 1, "", True)


def test_a_sum_of_which_a_place_is_taken_afterwards_is_measured() -> None:
    """As in a loop over another dimension, of which the last place is what it returns."""

    def last(x: Any) -> Any:
        total = x.sum(-1)
        return total[:, -1] * 2.0

    def mine(x: Any) -> Any:
        return loop(x)[:, -1] * np.float32(2.0)

    assert measure(mine, last, "x=b m n").text.startswith("measured: sums over n one after the other")


def _rounded(values: Any) -> Any:
    """To the 11 bits of TF32."""
    return ((values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _products(x: Any, w: Any) -> Any:
    return loop(np.swapaxes(x[:, :, None] * w, 1, 2))


@pytest.mark.whole
def test_products_of_fewer_bits_are_measured_and_named() -> None:
    """And what is wrong by them is right as what it is."""
    plain = measure(_products, product, "x=m k, w=k n")
    assert (plain.products, plain.fused, plain.accumulator) == (None, False, 24)
    kernel = lambda x, w: _products(_rounded(x), _rounded(w))  # noqa: E731
    assert (
        "takes 11 bits of each element (TF32), sums over k one after the other"
        in measure(kernel, product, "x=m k, w=k n").text
    )
    with pytest.raises(fuzz.CheckFailed, match=r"measured: .*; right as TF32; wrong as f32"):
        fuzz.check(kernel, reference=product, shapes="x=m k, w=k n", arrays="numpy", max_cases=quarter(40), seed=1)


def norm(x: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def _norm(summed: Callable[[Any], Any], off: float = 0.0, least: int = 0) -> Callable[..., Any]:
    def mine(x: Any) -> Any:
        n = x.shape[-1]
        squares = summed(x * x)[..., None] * np.float32(1.0 + off * (n >= least))
        return x / np.sqrt(squares / np.float32(n) + np.float32(1e-6))

    return mine


@pytest.mark.parametrize(
    ("summed", "words", "chain"), [(loop, "one after the other", 1030), (lanes, "in 8 lanes", 274)]
)
def test_an_order_of_squares_is_the_one_that_fits(summed: Callable[[Any], Any], words: str, chain: int) -> None:
    """As a guess, its chain is taken twice as long. An error of all results hides nothing."""
    for off in (0.0, 2.0**-12):
        [order] = measure(_norm(summed, off), norm, "x=... n").sums
        assert (order.words, order.chain, order.read) == (words, chain, False)


def _check(kernel: Callable[..., Any], **more: Any) -> None:
    fuzz.check(kernel, reference=norm, shapes="x=... n", arrays="numpy", max_cases=quarter(64), seed=1, **more)


def test_what_was_measured_accuses_nobody_at_the_same_extents_either(capsys: pytest.CaptureFixture[str]) -> None:
    """An error that sums in any order might have is told."""
    _check(_norm(lanes, 2.0**-17, least=600))
    told = capsys.readouterr().err
    assert re.search(r"8 lanes, .*; off by more than this explains where n = \d+; right with sums in any order", told)


def test_an_error_that_was_measured_is_told_and_accuses_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """Off by 2 ulp but for numbers of few bits, such as those that it is measured with: any exp may be."""

    def exp(x: Any) -> Any:
        return torch.exp(x)

    def mine(x: Any) -> Any:
        y = np.exp(x.astype(np.float64)).astype(np.float32)
        is_short = x.view(np.int32) & 0xFF == 0
        return np.where(is_short, y, (y.view(np.int32) + 2).view(np.float32))

    fuzz.check(mine, reference=exp, arrays="numpy", max_cases=quarter(40), seed=1)
    assert "measured: exp rounded once" in capsys.readouterr().err


def test_what_was_measured_narrows_orders_and_casts_alone() -> None:
    """Where these two are contradicted that is told; nothing else of it is in a contract."""
    contract = fuzz.Contract(sums={"n": fuzz.AnyOrder()}, points={"h": "maybe bf16"}, accuracy={"exp": 4.0})
    found = tightened(contract, [Seen("n", 64, 8, (), True)], {"h": True})
    assert found == replace(contract, sums={"n": Read(((64, 8),))}, points={"h": "bf16"})


def test_what_is_run_to_measure_is_judged_too() -> None:
    """A tail of 63 lanes that no case of the search has: 1023 and 8191 are tried for the orders of sums."""

    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    def mine(x: Any) -> Any:
        y = torch.softmax(x, -1).clone()
        if x.shape[-1] > 64 and x.shape[-1] % 64 == 63:
            y[..., -1] = 0
        return y

    with fails():
        fuzz.check(mine, reference=softmax, max_cases=quarter(64), seed=1)


def test_designed_values_accuse_nobody_whose_inputs_are_others() -> None:
    """What is positive may be taken by its magnitude."""

    def summed(x: Any) -> Any:
        return x.sum(-1)

    def mine(x: Any) -> Any:
        return x.abs().sum(-1)

    fuzz.check(mine, reference=summed, values={"x": "positive"}, max_cases=quarter(32), seed=1)


@pytest.mark.whole
def test_an_order_that_changes_with_the_extents_accuses_nobody() -> None:
    """Lanes where it is measured first, a plain loop elsewhere."""
    _check(_norm(lambda x: lanes(x) if x.shape[-1] in (67, 256, 1031) else loop(x), 2.0**-17, least=600))


def test_what_it_refuses_is_one_line_to_declare() -> None:
    """What it takes is searched all the same; and declared, nothing is wrong."""

    def eights(x: Any) -> Any:
        if x.shape[-1] % 8:
            raise RuntimeError("n must be a multiple of 8")
        return _norm(lanes)(x)

    with pytest.raises(fuzz.CheckFailed) as caught:
        _check(eights)
    told = str(caught.value)
    assert told.count("FAIL") == 1
    assert '\n  takes n in multiples of 8 only: declare multiple_of={"n": 8} in its capabilities' in told
    _check(eights, capabilities=fuzz.Capabilities(multiple_of={"n": 8}, empty=False))


def _accepts(kernel: Callable[..., Any]) -> str:
    found = read(_softmax, GivenData())
    told = tried(kernel, found, None, Calling())
    return told.text if told is not None else ""


def _softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


_beside: Any = None
"""A function of Triton, where a test has one."""


def _exact(x: Any) -> Any:
    return torch.softmax(x.double(), -1).to(x.dtype)


def _launching(x: Any) -> Any:
    assert _beside is not None
    return _exact(x)


def test_what_it_does_with_what_is_not_declared_is_told_in_one_line() -> None:
    def of_two(x: Any) -> Any:
        _, _ = x.shape
        return _exact(x)

    def packed(x: Any) -> Any:
        if x.dtype != torch.float32:
            raise TypeError("f32 is taken")
        return _exact(x.as_strided(x.shape, torch.empty(x.shape).stride()))

    every = 'any strides, f64, f16 and bf16; declare strides="any", dtypes=("f32", "f64", "f16", "bf16") in its'
    assert _accepts(_exact) == f"accepts: {every} capabilities to have that judged"
    assert _accepts(of_two).startswith(f"accepts: x of 2 dimensions only (raises with 1, 3, 4 and 5), {every}")
    assert _accepts(packed) == (
        "accepts: contiguous x only (wrong values with pitched, padded, column_step and transposed), "
        "f32 only (raises with f64, f16 and bf16)"
    )

    def stepwise(x: Any) -> Any:
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    assert "f64, right as it rounds each step with f16 and bf16; declare " in _accepts(stepwise)
    assert not _accepts(lambda x: x)  # it is wrong, and says nothing
    [_, seen] = _accepts(lambda x: _softmax(x.float()).to(x.dtype)).split("\n  ")
    assert seen == (
        'wrong values with f64: no failure, as f32 alone is declared; to see where, declare dtypes=("f32", "f64")'
    )


def test_what_an_interpreter_gets_wrong_is_no_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import interpreter

    monkeypatch.setattr(attest, "faults_here", lambda: {"bf16": "its interpreter gets bf16 wrong"})
    monkeypatch.setitem(globals(), "_beside", interpreter.InterpretedFunction(_exact))
    assert "bf16 not tried" not in _accepts(_exact), "it does not reach what the module has beside it"
    assert ", f64 and f16, bf16 not tried (its interpreter gets bf16 wrong); declare " in _accepts(_launching)


@pytest.mark.whole
def test_dimensions_that_examples_do_not_have_are_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def of_two(x: Any) -> Any:
        rows, n = x.shape
        return _exact(x) if rows and n else x

    fuzz.check(of_two, reference=_softmax, example_inputs=(torch.ones(3, 5),), max_cases=8, seed=1)
    said = capsys.readouterr().err
    assert "\n  reference _softmax: x[m, n] -> y[m, n], " in said
    assert "\n  accepts: x of 2 dimensions only (raises with 1, 3, 4 and 5)," in said
    with pytest.raises(fuzz.CheckFailed, match="crashes"):  # where they are promised, it is one
        fuzz.check(of_two, reference=_softmax, shapes="x=... n", max_cases=12, seed=1)


def test_a_variance_is_measured_though_it_has_no_rows_of_one_element() -> None:
    kernel = PACK.kernel("row-var-backward-welford")
    (target,) = expand([kernel])
    with WorkerPool([target]) as pool:
        found = measured(pool, target, lenient(OPS[kernel.op], "torch"))
    assert (found.trouble, [each.along for each in found.sums], found.repeats) == ("", ["n"], True)
