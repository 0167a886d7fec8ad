"""A reference becomes the formula that one would write by hand, or is refused in a line that says where and why."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from fuzz.references.elementwise import COMPARISONS, FUNCTIONS
from fuzz.references.rules import RULES
from oracles.algorithm import traced
from oracles.op import Op


def rms_norm(x, w):  # type: ignore[no-untyped-def]
    """y = x w / sqrt(mean(x^2) + eps)."""
    h = x.float()
    var = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(var + 1e-6)
    return w * h.to(x.dtype)


def attention(q, k, v):  # type: ignore[no-untyped-def]
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    s = s.masked_fill(torch.triu(torch.ones(s.shape[-2:], dtype=torch.bool), 1), -math.inf)
    return torch.softmax(s, -1) @ v


def cross_entropy(x, label):  # type: ignore[no-untyped-def]
    lse = torch.logsumexp(x, -1)
    return lse - x.gather(-1, label[:, None]).squeeze(-1)


def scaled(x: Any) -> Any:
    return _by(x, 0.5), x.amax(-1)


def _by(x: Any, factor: float) -> Any:
    shifted = x - 1.0
    return shifted * shifted * factor


def batch_norm(x, w, b):  # type: ignore[no-untyped-def]
    return torch.nn.functional.batch_norm(x, None, None, w, b, training=True)


def loss(x, y):  # type: ignore[no-untyped-def]
    return torch.nn.functional.mse_loss(x, y)


@pytest.mark.parametrize(
    ("reference", "shapes", "text"),
    [
        (
            batch_norm,
            "x=n c s, w=c, b=c",
            """
def batch_norm(x, w, b):
    mean = f.avg(x, ("n", "s"))
    away = x - mean
    var = f.avg(away * away, ("n", "s"))
    rstd = f.rsqrt(var + 1e-05)
    normal = away * rstd
    y = normal * w + b
    return {"y": y}
""",
        ),
        (
            loss,
            "x=b n, y=b n",
            """
def loss(x, y):
    away = x - y
    return {"out": f.avg(away * away, ("b", "n"))}
""",
        ),
        (
            rms_norm,
            "x=... n, w=n",
            '''
def rms_norm(x, w):
    """y = x w / sqrt(mean(x^2) + eps)."""
    var = f.avg(x * x, "n")
    h = x * f.rsqrt(var + 1e-06)
    return {"y": w * h}
''',
        ),
        (
            attention,
            {"q": "h m d", "k": "h n d", "v": "h n e"},
            """
def attention(q, k, v):
    product = f.dot(q, k, "d")
    s = product / f.sqrt(f.extent("d"))
    s2 = f.where(f.position("n") > f.position("m"), -float("inf"), s)
    most = f.greatest(s2, "n")
    e = f.exp(s2 - most)
    mass = f.total(e, "n")
    softmax = e / mass
    return {"y": f.dot(softmax, v, "n")}
""",
        ),
        (
            cross_entropy,
            "x=b n, label=b",
            """
def cross_entropy(x, label):
    most = f.greatest(x, "n")
    mass = f.total(f.exp(x - most), "n")
    lse = f.log(mass) + most
    return {"y": lse - f.take(x, label, "n")}
""",
        ),
        (
            scaled,
            None,
            """
def scaled(x):
    shifted = x - 1.0
    y0 = shifted * shifted * 0.5
    y1 = f.greatest(x, "n")
    return {"y0": y0, "y1": y1}
""",
        ),
    ],
)
def test_reads_as_written_by_hand(reference: Callable[..., Any], shapes: Any, text: str) -> None:
    """Names are those of the reference where it has any, and the text is what the op's formula was made by."""
    found = derive(reference, shapes)
    assert found.formula.text == text.lstrip("\n")
    assert inspect.getsource(found.op.formula) == found.formula.text
    space: dict[str, Any] = {}
    exec(found.module, space)  # what is printed to be kept
    [op] = space["OPS"]
    assert isinstance(op, Op)
    assert (op.name, op.inputs, op.outputs) == (found.op.name, found.op.inputs, found.op.outputs)


def test_what_is_rounded_to_16_bits_is_a_point_where_that_shows() -> None:
    """With f32 such a cast is none; the last one is that of the output."""
    found = derive(rms_norm, "x=... n, w=n", dtype="bfloat16")
    assert found.formula.text.endswith('return {"y": w * f.point(h)}\n')
    assert found.formula.points == ["h"]
    assert derive(rms_norm, "x=... n, w=n").formula.points == []
    assert derive(lambda x: (x.float() * 2.0).to(x.dtype), dtype="bfloat16").formula.points == []


def log_softmax(x):  # type: ignore[no-untyped-def]
    return torch.log_softmax(x, -1)


def test_known_rewrites_are_algorithms() -> None:
    """Each has the exact value of what it replaces, which `traced` tries."""
    found = derive(log_softmax)
    assert found.formula.algorithms == '{"y": {"by_lse": lambda x, most, mass: x - (f.log(mass) + most)}}'
    assert traced(found.op, ["x", "y"], {"y": "by_lse"}).outputs["y"] is not traced(found.op, ["x", "y"]).outputs["y"]


def test_a_condition_that_holds_everywhere_is_read() -> None:
    found = derive(lambda x: torch.where((x > -1.0).all(-1, keepdim=True), x, -x), "x=b n")
    assert 'f.greatest(f.where(~(x > -1.0), 1.0, 0.0), "n")' in found.module
    assert "f.where(~(flag > 0.0), x, -x)" in found.module


def test_a_logsumexp_of_infinities_is_read_where_they_are_judged() -> None:
    """As torch has it; and that a kernel may have either way is written down."""

    def reference(x):  # type: ignore[no-untyped-def]
        return torch.logsumexp(x, -1) + torch.logsumexp(2.0 * x, -1)

    found = derive(reference, "x=b n", values="any")
    assert found.op.open_ways == {"lse": ("formula", "limit"), "lse2": ("formula", "limit")}
    module: dict[str, Any] = {}
    exec(found.module, module)
    (op,) = module["OPS"]
    assert (op.open_ways, op.algorithms.keys()) == (found.op.open_ways, found.op.algorithms.keys())
    plain = derive(reference, "x=b n")
    assert (plain.op.open_ways, plain.formula.algorithms) == ({}, "")


def test_names_that_an_op_cannot_have_are_written_small() -> None:
    def scores(Q: Any, K: Any) -> Any:  # noqa: N803
        return Q @ K.mT

    found = derive(scores, "Q=B M D, K=B N D")
    assert [(each.name, each.dims) for each in found.op.inputs] == [("q", "b m d"), ("k", "b n d")]
    assert found.called == {"q": "Q", "k": "K"}
    with pytest.raises(UnreadableError, match="dimensions are named in small letters, and two become one"):
        derive(scores, "Q=B M n, K=B N n")


def test_functions_of_torch_and_modules_are_references_too() -> None:
    """The first have no signature, the others have that of their forward."""
    assert derive(torch.logit).formula.text.splitlines()[0] == "def logit(x):"
    assert [each.name for each in derive(torch.outer, "a=m, b=n").op.inputs] == ["a", "b"]
    assert derive(torch.nn.GELU(), {"input": "b n"}).op.name == "gelu"
    with pytest.raises(UnreadableError, match="that the reference has from elsewhere: make it an argument"):
        derive(torch.nn.LayerNorm(7), {"input": "b n"}, fixed={"n": 7})


def test_says_what_was_read() -> None:
    """In one line: shapes, how much, and how it was checked."""
    assert derive(rms_norm, "x=... n, w=n").said == (
        "reference rms_norm: x[..., n], w[n] -> y[..., n], 6 operations, "
        "same value as the reference in float64 at 3 sets of extents"
    )
    assert derive(rms_norm, "x=... n, w=n", dtype="bfloat16").said == derive(rms_norm, "x=... n, w=n").said
    assert derive(cross_entropy, "x=b n, label=b").op.operand("label").index == "n"


def middle(x):  # type: ignore[no-untyped-def]
    y = x * 2
    return y.median(-1).values


def branches(x):  # type: ignore[no-untyped-def]
    y = x * 2
    return y if y.sum() > 0 else x


def halves(x):  # type: ignore[no-untyped-def]
    return x * (2 if x.shape[-1] % 2 else 3)


def writes(x):  # type: ignore[no-untyped-def]
    return x.mul_(2)


def random(x):  # type: ignore[no-untyped-def]
    return x * torch.rand_like(x)


def rounds(x):  # type: ignore[no-untyped-def]
    return x.to(torch.float8_e5m2).float()


@pytest.mark.parametrize(
    ("reference", "words", "line"),
    [
        (middle, "aten.median (test_references.py line {}) has no formula", 2),
        (branches, "a value decides what it does, or becomes a number of Python (test_references.py line {})", 2),
        (halves, "it returns y[0, 0] = ", None),
        (writes, "writes 'x'", None),
        (random, "aten.rand_like (test_references.py line {}) has no formula", 1),
        (rounds, "aten._to_copy (test_references.py line {}) goes on from float8_e5m2", 1),
    ],
)
def test_refuses_in_one_line(reference: Callable[..., Any], words: str, line: int | None) -> None:
    """What cannot be read names the operation and the line of the reference."""
    with pytest.raises(UnreadableError) as caught:
        derive(reference)
    told = str(caught.value)
    assert told.startswith(f"reference {reference.__name__} cannot be read: ")
    assert words.format(reference.__code__.co_firstlineno + (line or 0)) in told
    assert "\n" not in told


def _optional(
    x: Any, bias: Any = None, y: torch.Tensor | None = None, eps: float | None = None, dim: int = -1, name: str = ""
) -> Any:
    return x if bias is None else x + bias


def test_says_which_optional_tensors_were_left_out() -> None:
    """What its annotation says to be no tensor is none."""
    found = derive(_optional, "x=b n")
    said = (
        "left out: bias, y other than None; to have one tried, check again with its dimensions in shapes, such as "
        "'bias=n'"
    )
    assert found.left_out == said
    assert f"; {said}." in " ".join(found.module.split())
    named = derive(_optional, {"x": "b n", "bias": "n", "y": None})
    assert not named.left_out
    assert not named.module.count("left out")


def test_guard_finds_a_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which output, with which extents, and both values."""

    def wrong(reader: Any, self: Any) -> Any:
        return reader.each("self * f.sigmoid(-self)", "silu", self=self)

    def silu(x: Any) -> Any:
        return torch.nn.functional.silu(x)

    monkeypatch.setitem(RULES, "silu", wrong)
    with pytest.raises(
        UnreadableError, match=r"with normal values of x\[5, 11\] it returns y\[0, 0\] = .*, and the formula"
    ):
        derive(silu)


def test_positive_where_a_logarithm_is_taken() -> None:
    """An input of which normal values give NaN has no negative numbers, and zeros where these give none."""

    def divergence(p: Any, q: Any) -> Any:
        return torch.nn.functional.kl_div(p, q, reduction="none").sum(-1)

    found = derive(divergence, {"p": "b n", "q": "b n"})
    assert {each.name: each.values for each in found.op.inputs} == {"p": "finite", "q": "not_negative"}
    assert "q drawn without negative numbers: they give NaN" in found.said


def _call(name: str) -> Callable[..., Any]:
    operation = getattr(torch.ops.aten, name.partition(".")[0])
    more: Mapping[str, tuple[float, ...]] = {
        "hardtanh": (-1.0, 0.5), "threshold": (0.25, -2.0), "clamp_min": (0.25,), "clamp_max": (0.25,),
        "div.Scalar": (3.0,),
    }  # fmt: skip
    if name in ("add", "sub", "rsub"):
        return lambda x, y: operation(x, y, alpha=3)
    if name in ("addcmul", "addcdiv"):
        return lambda x, y: operation(x, x, y, value=0.5)
    if name in ("mul", "div.Tensor", "maximum", "minimum", "hypot", "atan2", "logaddexp", "logaddexp2", "floor_divide",
                "fmax", "fmin", "heaviside", "ldexp"):  # fmt: skip
        return lambda x, y: operation(x, y)
    return lambda x: operation(x, *more.get(name, ()))


@pytest.mark.some(8)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_what_torch_computes(name: str) -> None:
    """Each row of the table, by the guard."""
    call = _call(name)
    found = derive(call, dict.fromkeys(inspect.signature(call).parameters, "b n"))
    assert found.op.outputs[0].dims == "b n"


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_are_those_of_torch(name: str) -> None:
    """Where values are the same, too."""
    compare = getattr(torch, name)
    derive(lambda x: torch.where(compare(x, x.abs()), x + 1.0, compare(x, 0.5).float()))


def test_a_copied_view_is_read_as_a_view() -> None:
    found = derive(lambda x: torch.squeeze_copy(torch.transpose_copy(torch.unsqueeze_copy(x, 0), -1, -2), 0), "x=b n")
    assert found.op.outputs[0].axes == ("n", "b")


def test_products_are_read_along_an_axis_or_all() -> None:
    def last(reference: Callable[..., Any]) -> str:
        return derive(reference, "x=b n").formula.text.splitlines()[-1].strip()

    assert last(lambda x: x.cumprod(-1)) == 'return {"y": f.cumprod(x, "n")}'
    assert last(lambda x: x.prod(0, keepdim=True) * x) == 'return {"y": f.prod(x, "b") * x}'
    assert last(lambda x: x.prod()) == 'return {"y": f.prod(f.prod(x, "n"), "b")}'


@pytest.mark.parametrize(
    ("reference", "shapes"),
    [(torch.addmv, "x=m, a=m n, b=n"), (torch.addr, "x=m n, a=m, b=n"), (torch.addbmm, "x=m n, a=b m k, b=b k n")],
)
def test_a_product_may_be_added_to_a_tensor(reference: Any, shapes: str) -> None:
    def added(x: Any, a: Any, b: Any) -> Any:
        return reference(x, a, b, beta=0.5, alpha=3)

    found = derive(added, shapes).formula.text
    assert "0.5 * x" in found
    assert "3.0 * " in found


class _Centred(NamedTuple):
    centred: Any
    mean: Any


def _named(x: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    return _Centred(x - mean, mean)


def _listed(x: Any) -> Any:
    def less(mean: Any) -> Any:
        return x - mean

    middle = x.mean(-1, keepdim=True)
    return [less(middle), middle]


def _forward(_: Any, x: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred, mean


_MODULE = type("Centred", (torch.nn.Module,), {"forward": _forward})


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        (_named, ["centred", "mean"]),
        (_listed, ["y0", "middle"]),
        (_MODULE(), ["centred", "mean"]),
        (lambda x: torch.max(x, -1), ["values", "indices"]),
        (lambda x: (x + 1.0, x * 2.0), ["y0", "y1"]),
    ],
)
def test_outputs_are_called_as_the_reference_calls_them(reference: Callable[..., Any], names: list[str]) -> None:
    assert [each.name for each in derive(reference, {"x": "... n"}).op.outputs] == names


@pytest.mark.parametrize(
    "name", ["tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "log10", "lgamma", "arcsin"]
)
def test_a_function_of_torch_is_the_function_of_formulas(name: str) -> None:
    own = {"arcsin": "asin"}.get(name, name)
    text = derive(lambda x: getattr(torch, name)(x) * 2.0, "x=b n").formula.text
    assert f"f.{own}(x)" in text
