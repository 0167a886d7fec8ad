"""What a kernel may do otherwise than the plain function that it is held against, and what it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz import Capabilities, Contract
from fuzz.tasks.check.reference import lenient, read
from fuzz.tasks.check.request import GivenData, Promises
from fuzz.tests.common.references import checked, softmax
from fuzz.tests.common.told import fails
from oracles.ops import OPS
from oracles.problem import Problem
from oracles.rounding import STORAGE
from oracles.tests.common.whole import quarter
from oracles.truth import Truth

pytestmark = pytest.mark.usefixtures("quick_checks")


def linear(x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.linear(x, w, b)


@pytest.mark.whole
def test_an_accumulator_may_start_as_the_bias() -> None:
    def bias_first(x: Any, w: Any, b: Any) -> Any:
        y = b.expand(len(x), len(w))
        for place in range(x.shape[1]):
            y = y + x[:, place, None] * w[:, place]
        return y.clone()

    def bias_twice(x: Any, w: Any, b: Any) -> Any:
        return bias_first(x, w, b) + (b if len(b) % 4 == 3 else 0.0)

    shapes = {"x": "m k", "w": "n k", "b": "n"}
    checked(bias_first, linear, shapes=shapes)
    with fails("bias_twice"):
        checked(bias_twice, linear, shapes=shapes)


def taps(x: Any, w: Any, b: Any) -> Any:
    n = x.shape[2] - 2
    return sum(torch.einsum("bcn,oc->bon", x[..., k : k + n], w[..., k]) for k in range(3)) + b[:, None]


@pytest.mark.whole
def test_terms_that_a_reference_adds_one_by_one_may_be_added_in_any_order() -> None:
    """A kernel has one sum over channels and taps, which starts as the bias."""
    shapes, fixed = {"x": "b c n", "w": "o c three", "b": "o"}, {"three": 3}
    checked(lambda x, w, b: torch.nn.functional.conv1d(x, w, b), taps, shapes=shapes, fixed=fixed)


@pytest.mark.whole
def test_a_term_that_is_missing_is_found_among_others_of_any_order() -> None:
    def short(x: Any, w: Any, b: Any) -> Any:
        y = torch.nn.functional.conv1d(x, w, b)
        y[..., 5:6] -= x[:, :1, 7:8] * w[:, 0, 2:]
        return y

    shapes, fixed = {"x": "b c n", "w": "o c three", "b": "o"}, {"three": 3}
    with fails("short"):
        checked(short, taps, shapes=shapes, fixed=fixed)


def overflowing(x: Any) -> Any:
    return (x * x).sum(-1)


def test_overflow_is_judged_where_it_is_asked_for() -> None:
    """By default a square that overflows says nothing; with any values it is a failure."""
    kernel = lambda x: torch.where((x * x).sum(-1) < torch.inf, (x * x).sum(-1), 0.0)  # noqa: E731
    checked(kernel, overflowing)
    with pytest.raises(fuzz.CheckFailed, match="FAIL"):
        checked(kernel, overflowing, values="any", max_cases=quarter(80))


def batch_norm(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
    return torch.nn.functional.batch_norm(x, m, v.abs(), w, b)


@pytest.mark.whole
def test_a_normalisation_may_make_a_factor_and_a_term_first() -> None:
    def folded(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        factor = w * (v.abs() + 1e-5).rsqrt()
        return x * factor[:, None] + (b - m * factor)[:, None]

    def forgets(x: Any, w: Any, b: Any, m: Any, v: Any) -> Any:
        factor = w * (v.abs() + 1e-5).rsqrt()
        return x * factor[:, None] + (b - m * factor.bfloat16().float())[:, None]

    shapes = "x=b c n, w=c, b=c, m=c, v=c"
    fuzz.check(folded, reference=batch_norm, shapes=shapes, max_cases=8, seed=1)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(forgets, reference=batch_norm, shapes=shapes, max_cases=8, seed=1)


def cross_entropy(x: Any, t: Any) -> Any:
    return torch.nn.functional.cross_entropy(x, t, reduction="none")


def test_another_order_of_the_same_operations_is_no_error() -> None:
    """Less a large mean first, or last: both are known ways to a logarithm of a softmax."""
    found = read(cross_entropy, GivenData("x=b n, t=b"))
    assert found.contract.algorithm == {"log_softmax": ("formula", "by_lse")}
    checked(by_lse, cross_entropy, shapes="x=b n, t=b")


def lse(x: Any) -> Any:
    return torch.logsumexp(x, -1)


def lse_by_max(x: Any) -> Any:
    most = x.amax(-1, keepdim=True)
    return (torch.log(torch.exp(x - most).sum(-1, keepdim=True)) + most)[..., 0]


def by_lse(x: Any, t: Any) -> Any:
    return torch.logsumexp(x, -1) - x.gather(-1, t[:, None])[:, 0]


def test_a_row_with_an_infinity_has_what_torch_says_or_what_is_left_of_its_maximum() -> None:
    """With any values, of a reference that calls torch.logsumexp, or whose log-softmax a kernel makes of that."""
    inf = np.inf
    x, t = torch.tensor([[1.0, inf], [-inf, -inf], [-inf, 1.0], [1.0, 2.0]]), torch.tensor([0, 1, 1, 1])
    for reference, shapes, ways, given in (
        (lse, "x=b n", (lse, lse_by_max), {"x": x}),
        (by_lse, "x=b n, t=b", (by_lse, cross_entropy), {"x": x, "t": t}),
        (cross_entropy, "x=b n, t=b", (by_lse, cross_entropy), {"x": x, "t": t}),
        (lambda x: torch.log_softmax(x, -1), "x=b n", (lambda x: x - lse(x)[:, None],), {"x": x}),
    ):
        found = read(reference, GivenData(shapes, values="any"))
        truth = Truth(Problem(found.op, {}, {name: each.numpy() for name, each in given.items()}, {"y": "f32"}))
        for way in ways:
            y = way(**given)
            (check,) = truth.check(found.contract, {"y": y.numpy()})
            assert check.result == "pass", (reference, way)
            (check,) = truth.check(found.contract, {"y": torch.where(y.isfinite(), y, 3e38).numpy()})
            assert check.failing == (~y.isfinite()).sum(), (reference, way)


def test_the_way_that_is_meant_can_be_said_of_a_logsumexp() -> None:
    said = "; y may be NaN, or the maximum of its terms, where that is infinite"
    assert said in read(lse, GivenData("x=b n", values="any")).said
    assert said not in read(lse, GivenData("x=b n")).said
    x = np.array([[1.0, np.inf], [-np.inf, -np.inf]], np.float32)
    of = Problem(read(lse, GivenData("x=b n", values="any")).op, {}, {"x": x}, {"y": "f32"})
    for way, mine in (("limit", lse), ("formula", lse_by_max)):
        found = read(lse, GivenData("x=b n", values="any"), Promises({"algorithm": {"y": way}}))
        assert said not in found.said
        for each in (lse, lse_by_max):
            (check,) = Truth(of).check(found.contract, {"y": each(torch.from_numpy(x)).numpy()})
            assert (check.failing == 0) == (each is mine)


def lerp(a: Any, b: Any, t: Any) -> Any:
    return a + t * (b - a)


def lerp_from_end(a: Any, b: Any, t: Any) -> Any:
    return b - (b - a) * (1 - t)


def lerp_by_shares(a: Any, b: Any, t: Any) -> Any:
    return (1 - t) * a + t * b


def torch_lerp(a: Any, b: Any, t: Any) -> Any:
    return torch.lerp(a, b, t)


@pytest.mark.parametrize("reference", [lerp, torch_lerp])
def test_a_product_of_a_sum_is_judged_as_it_is_written_and_torch_lerp_says_no_way(reference: Any) -> None:
    found = read(reference, GivenData("a=n, b=n, t=n"))
    same = np.linspace(1000, 1001, 32)  # where both are equal, and where the far end cancels
    given = {"a": [*same, 0.6567754, 0.7], "b": [*same, 236.79321, 1000.0]}
    given["t"] = [*np.linspace(0.1, 0.9, 32), -0.5567872, 1e-6]
    x = {name: np.array(values, np.float32) for name, values in given.items()}
    truth = Truth(Problem(found.op, {}, x, {"y": "f32"}))
    for way in (lerp, lerp_from_end, lerp_by_shares, torch_lerp):
        y = way(*map(torch.from_numpy, x.values())).numpy()
        (check,) = truth.check(found.contract, {"y": y})
        assert (check.result == "pass") == (reference is torch_lerp or way is lerp), way
    (check,) = truth.check(found.contract, {"y": y * np.float32(1.001)})
    assert check.failing == 34


def averaged(m: Any, g: Any, b: Any) -> Any:
    return b * m + (1 - b) * g


def by_tenths(m: Any, g: Any) -> Any:
    return 0.9 * m + (1 - 0.9) * g


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_torch_lerp_in_place_of_a_moving_average_is_right_as_arranged_so_and_no_other_weight_is(dtype: str) -> None:
    """It steps from the nearer end, by a share that is rounded before: where b is tiny, 1 - (1 - b) is another one. The
    cast to f16 hides both here."""
    random, n = np.random.default_rng(0), 4096
    m, g = (random.standard_normal(n) * 2.0 ** random.integers(-8, 8, n) for _ in "mg")
    b = np.where(np.arange(n) % 2, random.random(n), 2.0 ** -random.uniform(1, 30, n))
    given = {name: torch.from_numpy(each.astype(STORAGE[dtype])) for name, each in {"m": m, "g": g, "b": b}.items()}
    wide = {name: each.float() for name, each in given.items()}
    for reference, share in ((averaged, wide["b"]), (by_tenths, 0.9)):
        shapes = "m=n, g=n, b=n" if reference is averaged else "m=n, g=n"
        inputs = {name: each.numpy() for name, each in given.items() if f"{name}=" in shapes}
        ways: tuple[Callable[[Any], Any], ...] = (
            lambda w: torch.lerp(wide["g"], wide["m"], w),
            lambda w: torch.lerp(wide["m"], wide["g"], 1 - w),
        )
        arranged = True if reference is averaged else "lerp"
        for contract, right in (({"expanded": False}, dtype == "f16"), ({"expanded": arranged}, True)):
            found = read(reference, GivenData(shapes), Promises(contract))
            truth = Truth(Problem(found.op, {}, inputs, {"y": dtype}))

            def passes(y: Any, truth: Truth = truth, contract: Contract = found.contract) -> bool:
                return truth.check(contract, {"y": y.numpy().astype(STORAGE[dtype])})[0].result == "pass"

            assert all(passes(way(share)) for way in ways) == right, (reference, contract)
            for wrong in (1 - share, share * 1.01, share + (1 - share) * 0.01):
                assert not any(passes(way(wrong)) for way in ways)


def llama(x: Any, w: Any) -> Any:
    h = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


@pytest.mark.whole
def test_a_cast_of_the_reference_is_allowed_and_not_required() -> None:
    able = Capabilities(dtypes=("bf16",), empty=False)

    def once(x: Any, w: Any) -> Any:
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)

    def less(x: Any, w: Any) -> Any:
        return once(x, w) * (1.0 - 2.0**-6)

    for right in (llama, once):
        checked(right, llama, shapes="x=... n, w=n", capabilities=able)
    with pytest.raises(fuzz.CheckFailed):
        checked(less, llama, shapes="x=... n, w=n", capabilities=able)
    found = read(llama, GivenData("x=... n, w=n"), Promises(capabilities=able))
    assert "; h may be rounded to the dtype of the inputs; " in found.said


def test_the_contract_follows_from_the_dtypes() -> None:
    """Sums in any order, functions as libraries have them, no sign of zero; in float64 where that is all it takes."""
    found = read(softmax, GivenData(), Promises(capabilities=Capabilities(dtypes=("f64",)))).contract
    assert (found.compute, found.zeros, found.nonfinite) == ("at least f32", "any", "unspecified")
    assert found.accuracy["exp"] == 4.0
    checked(softmax, softmax, capabilities=Capabilities(dtypes=("f32", "f64"), empty=False))
    both = Capabilities(dtypes=("bf16", "f64"))
    checked(softmax, softmax, capabilities=both)
    assert [Contract("at least f32").settled({"x": dtype}).compute for dtype in ("bf16", "f64")] == ["f32", "f64"]
    own = Contract(compute="f64")
    given = read(softmax, GivenData(), Promises(own, capabilities=both))
    assert given.contract is own
    assert given.said.endswith(": NaN, infinities, overflow, subnormals, tensors without elements")
    strict = lenient(OPS["softmax"], "torch", strict=True)
    assert (strict.compute, strict.nonfinite, strict.denormals) == ("at least f32", "ieee", "preserve")


@pytest.mark.whole
def test_float64_of_an_op_is_calculated_in_float64() -> None:
    """Elements that f32 does not have are no NaN there, of a function that says which dtypes it takes and no more."""

    def mine(x: Any) -> Any:
        return torch.softmax(x, -1)

    both = Capabilities(dtypes=("f32", "bf16", "f64"), empty=False)
    for able in (both, Capabilities(dtypes=("f64",), empty=False)):
        fuzz.check(mine, op="softmax", capabilities=able, max_cases=100, seed=1)
    with pytest.raises(fuzz.CheckFailed):
        fuzz.check(lambda x: mine(x.float()).to(x.dtype), op="softmax", capabilities=both, max_cases=100, seed=1)


@pytest.mark.whole
def test_what_a_reference_casts_down_is_allowed_and_not_required_of_f64() -> None:
    """So a kernel may keep f64, or calculate in f32 as the reference does; but not in fewer bits."""

    def norm(x: Any) -> Any:
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def wide(x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    f64: dict[str, Any] = {
        "reference": norm,
        "shapes": "x=b n",
        "capabilities": Capabilities(dtypes=("f64",), empty=False),
    }
    for right in (norm, wide):
        fuzz.check(right, max_cases=20, seed=1, **f64)
    with pytest.raises(fuzz.CheckFailed, match="f64 is judged as"):
        fuzz.check(lambda x: norm(x.bfloat16()).double(), max_cases=20, seed=1, **f64)


def residual(x: Any, r: Any) -> Any:
    """Its sum is one of numbers of the dtype of its inputs, and is widened then."""
    h = x + r
    return (h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype), h


@pytest.mark.whole
def test_what_is_widened_after_it_was_calculated_may_be_rounded() -> None:
    able = Capabilities(dtypes=("bf16",), empty=False)

    def once(x: Any, r: Any) -> Any:
        h = x.float() + r.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype), h.to(x.dtype)

    for right in (residual, once):
        checked(right, residual, shapes="x=... n, r=... n", capabilities=able)
    found = read(residual, GivenData("x=... n, r=... n"), Promises(capabilities=able))
    assert "; h may be rounded to the dtype of the inputs; " in found.said


def test_what_is_widened_after_it_was_moved_is_not_rounded() -> None:
    def moved(x: Any, w: Any) -> Any:
        return x.flip(-1).float() * w.float()

    found = read(moved, GivenData("x=... n, w=n"), Promises(capabilities=Capabilities(dtypes=("bf16",))))
    assert "may be rounded" not in found.said
