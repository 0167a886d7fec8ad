"""References in JAX are read as those in torch are: by their jaxprs, and held against JAX itself in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from fuzz.references.jaxprs.tracing import program
from fuzz.references.parameters import library_of

jnp, lax = jax.numpy, jax.lax
Array = Any


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("nd,md->nm", q, k) / math.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((q.shape[0], k.shape[0]), dtype=bool))
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def cross_entropy(x: Array, label: Array) -> Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], axis=-1).mean()


def self_attention(x: Array) -> Array:
    place = jnp.arange(x.shape[0])
    scores = jnp.where(place[:, None] >= place, x @ x.T, -1e9)
    return jax.nn.softmax(scores) @ x


def decayed(a: Array, x: Array) -> Array:
    def turn(h: Array, own: tuple[Array, Array]) -> tuple[Array, Array]:
        h = own[0] * h + own[1]
        return h, h

    return lax.scan(turn, jnp.zeros(x.shape[1:], jnp.float32), (a, x))[1]


@partial(jax.jit, static_argnames="eps")
def rms_norm(x: Array, w: Array, eps: float = 1e-6) -> Array:
    h = x.astype(jnp.float32)
    h = h * lax.rsqrt(jnp.mean(h * h, axis=-1, keepdims=True) + eps)
    return h.astype(x.dtype) * w


TEXTS = {
    attention: ("q=n d, k=m d, v=m d", """
        product = f.dot(q, k, "d")
        scores = product / f.sqrt(f.extent("d"))
        mask = f.position("n") >= f.position("m")
        chosen = f.where(mask, scores, -float("inf"))
        most = f.greatest(chosen, "m")
        e = f.exp(chosen - most)
        total = f.total(e, "m")
        t = e / total
        return {"y": f.dot(t, v, "m")}"""),
    layer_norm: ("x=b n, w=n, b=n", """
        mean = f.avg(x, "n")
        t = x - mean
        mean2 = f.avg(t * t, "n")
        root = f.sqrt(mean2 + 1e-05)
        normal = t / root
        y = normal * w + b
        return {"y": y}"""),
    cross_entropy: ("x=b n, label=b", """
        most = f.greatest(x, "n")
        t = x - most
        total = f.total(f.exp(t), "n")
        mean = f.avg(f.take(t - f.log(total), label, "n"), "b")
        return {"y": -mean}"""),
    self_attention: ("x=n d", """
        n_copy = f.position("n_copy", f.extent("n"))
        taken = f.take(x, n_copy, "n")
        product = f.dot(x, taken, "d")
        scores = f.where(f.position("n") >= n_copy, product, -1000000000.0)
        most = f.greatest(scores, "n_copy")
        e = f.exp(scores - most)
        total = f.total(e, "n_copy")
        t = e / total
        return {"y": f.dot(t, taken, "n_copy")}"""),
    decayed: ("a=t n, x=t n", """
        return {"y": f.scan(a, x, "t")}"""),
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", TEXTS, ids=lambda each: each.__name__)
def test_the_formula_is_the_one_that_one_would_write(reference: Callable[..., Any]) -> None:
    shapes, text = TEXTS[reference]
    found = derive(reference, shapes)
    lines = [line.strip() for line in found.formula.text.splitlines()[1:]]
    assert lines == [line.strip() for line in text.strip().splitlines()]
    assert "same value as the reference in float64 at 3 sets of extents" in found.said


def test_casts_are_points_and_numbers_are_as_they_are_written() -> None:
    """What is calculated in f32 by name has its numbers rounded to that; what is not has them as in Python."""
    found = derive(rms_norm, "x=... n, w=n", dtype="bfloat16")
    assert 'return {"y": f.point(h) * w}' in found.formula.text
    assert "mean + 1e-06" in found.formula.text
    assert found.constants == {"eps": 1e-6}
    exact = derive(lambda x: jnp.exp(x) + x * 0.1, "x=b n", dtype="bfloat16")
    assert "f.exp(x) + x * 0.1" in exact.formula.text


def _each(x: Array) -> tuple[Array, ...]:
    away = jnp.abs(x) + 0.5
    return (
        jnp.tanh(x) + jnp.sin(x) * jnp.cos(x) - jnp.tan(x) + jnp.arctan(x), jnp.exp2(x) + jnp.expm1(x) / away,
        jnp.log1p(away) + jnp.log(away) + jnp.sqrt(away) * lax.rsqrt(away) + away ** 1.5 + away**-2 + x**3,
        jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.softplus(x) + jax.nn.elu(x) + jax.nn.gelu(x, approximate=False),
        jnp.clip(x, -1, 1) + jnp.minimum(x, 0.2) + jnp.sign(x) + jnp.floor(x) + jnp.ceil(x) + jnp.round(x) + x % 0.7,
        jnp.sinh(x) + jnp.cosh(x) + jnp.arcsinh(x) + jnp.arccosh(away + 1) + jnp.arctanh(x / (away + 1)) + jnp.cbrt(x),
        jnp.arcsin(x / (away + 1)) - jnp.arccos(x / (away + 1)) + lax.lgamma(away) + lax.erfc(x) + lax.tan(x),
        jnp.where((x > 0) & ~(x > 1) | (x < -1), x, 2 * x) + jnp.isfinite(x) + jnp.logical_xor(x > 0, x > 1) * x,
    )  # fmt: skip


def _along(x: Array) -> tuple[Array, ...]:
    return (
        x.max(-1) - x.min(-1) + x.std(-1, ddof=1) + jnp.linalg.norm(x, axis=-1), jax.nn.logsumexp(x, axis=-1),
        jnp.cumsum(x, -1) + lax.cumsum(x, 1, reverse=True), jnp.prod(x, axis=-1) + jnp.any(x > 1, axis=-1) * 1.0,
        jnp.all(x > -1, axis=-1), jnp.argmax(x, axis=-1), lax.top_k(x, 3)[0], jnp.sort(x, axis=-1),
    )  # fmt: skip


def _moved(x: Array, y: Array) -> tuple[Array, ...]:
    return (
        jnp.concatenate([x[:, 1:], y], 1), jnp.pad(x, ((0, 0), (2, 1))), jnp.flip(x, 1) + jnp.roll(x, 2, axis=1),
        jnp.stack([x, y], 1), x.at[:, 0].set(y[:, 0]), x[:, ::2], jnp.tile(x, (1, 2)), x[:, -1] * y[0, 1],
        jnp.arange(x.shape[1] + 1) * 0.5, jnp.arange(x.shape[1]) // 2 * x,
        lax.dynamic_update_slice(x, y[:, :2], (0, 1)),
    )  # fmt: skip


def _taken(t: Array, i: Array, s: Array) -> tuple[Array, ...]:
    chosen = jax.nn.one_hot(i, t.shape[0]) @ t
    return t[i], jnp.take(t, i, axis=0) + chosen, t.at[i].add(s), s[jnp.arange(s.shape[0]), jnp.argmax(s, axis=-1)]


def _windows(x: Array, w: Array) -> tuple[Array, ...]:
    layout = ("NHWC", "HWIO", "NHWC")
    return (
        lax.conv_general_dilated(x, w, (2, 1), ((1, 1), (2, 0)), rhs_dilation=(1, 2), dimension_numbers=layout),
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9,
    )  # fmt: skip


def _online(x: Array) -> Array:
    def turn(before: tuple[Array, Array], own: Array) -> tuple[tuple[Array, Array], None]:
        new = jnp.maximum(before[0], own)
        return (new, before[1] * jnp.exp(before[0] - new) + jnp.exp(own - new)), None

    most, mass = lax.scan(turn, (jnp.full(x.shape[1:], -jnp.inf), jnp.zeros(x.shape[1:])), x)[0]
    return most + jnp.log(mass)


def test_a_maximum_may_be_kept_up_to_date() -> None:
    text = derive(_online, "x=t n").formula.text
    assert text.count("f.greatest(") == text.count("f.scan(") == 1


def _rotated(x: Array, cos: Array, sin: Array) -> tuple[Array, ...]:
    half = x.shape[-1] // 2
    found = []
    for one, two in ((x[..., :half], x[..., half:]), jnp.split(x, 2, axis=-1)):
        found.append(jnp.concatenate((one * cos - two * sin, two * cos + one * sin), axis=-1))
    one, two = x[..., ::2], x[..., 1::2]
    return (*found, jnp.stack((one * cos - two * sin, one * sin + two * cos), axis=-1).reshape(x.shape))


def test_an_extent_is_half_of_another_one() -> None:
    found = derive(_rotated, "x=b s d, cos=s h, sin=s h")
    assert ", where h = d / 2, " in found.said
    assert [each.dims for each in found.op.outputs] == ["b s d"] * 3


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("reference", "shapes", "more"),
    [
        (_along, "x=b n", {}), (_each, "x=b n", {}), (_moved, "x=b n, y=b n", {}), (_windows, "x=b h w c, w=k l c o",
        {"fixed": {"k": 3, "l": 2}}), (_taken, "t=v n, i=s, s=s n", {"dtypes": {"i": "int64"}}),
    ],
)  # fmt: skip
def test_what_jax_has_is_read(reference: Callable[..., Any], shapes: str, more: Any) -> None:
    """The guard holds all of it against JAX: in float64, at three sets of extents."""
    assert "same value" in derive(reference, shapes, **more).said


def _by_vjp(a: Array, x: Array, w: Array, dy: Array) -> tuple[Array, ...]:
    def forward(a: Array, x: Array, w: Array) -> Array:
        y = decayed(a, x)
        return y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6) * w

    return tuple(jax.vjp(forward, a, x, w)[1](dy))


def _by_grad(x: Array, label: Array) -> Array:
    return jax.grad(cross_entropy)(x, label)


@pytest.mark.whole
def test_gradients_are_references_by_what_jax_makes_of_them() -> None:
    found = derive(_by_vjp, "a=t n, x=t n, w=n, dy=t n")
    assert found.formula.text.count("f.scan(") == 2
    assert [each.name for each in derive(_by_grad, "x=b n, label=b").op.outputs] == ["y"]


def branch(x: Array) -> Array:
    return x if jnp.sum(x) > 0 else -x


def recurrent(x: Array) -> Array:
    return lax.scan(lambda h, own: (jnp.tanh(h + own),) * 2, jnp.zeros(x.shape[1:]), x)[1]


def looped(x: Array) -> Array:
    h = jnp.zeros(x.shape[1:])
    for t in range(x.shape[0]):
        h = 0.5 * h + x[t]
    return h


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (branch, r"a value decides what it does, or becomes a number of Python \(test_reference_jax.py line \d+\)"),
        (
            recurrent,
            r"a loop \(test_reference_jax.py line \d+\) makes more of what the iteration before made than a factor",
        ),
        (looped, "with other extents it does something else: .* read if it is jax.lax.scan or fori_loop"),
        (lambda x: jnp.exp(np.exp(x)), "it gives an array of JAX to NumPy .*: write jnp for np"),
        (lambda x: x * jax.random.normal(jax.random.key(0), x.shape), r"lax.random_\w+ \(.* line \d+\) has no formula"),
        (lambda x: jnp.linalg.cholesky(x @ x.T), r"lax.cholesky \(.* line \d+\) has no formula"),
        (
            lambda x: lax.while_loop(lambda c: c.sum() > 1, lambda c: c / 2, x),
            r"lax.while .* loops as often as a value",
        ),
        (lambda x: lax.cond(x.sum() > 1, lambda c: c / 2, lambda c: c, x), r"lax.cond .* does what a value says"),
        (lambda x: str(jnp.exp(x)), "it returns str: a reference calculates with jax.numpy, and returns arrays"),
        (lambda x: jnp.exp(x) * np.arange(x.shape[1]), "a constant.* of several elements"),
        (lambda x: jnp.exp(x)[..., :640], "does something else at larger extents"),
        (lambda x: jnp.unstack(x), r"with other extents it does something else: lax.unstack"),  # as many as rows
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(reference: Callable[..., Any], said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        derive(reference, "x=m n")


def test_jax_is_told_by_what_a_function_is_and_nobodys_settings_change() -> None:
    def only_methods(x: Array) -> Array:
        return x.at[:, 0].set(0.0)

    def imports_inside(x: Array) -> Array:
        import jax.numpy

        return jax.numpy.exp(x)

    assert {library_of(each) for each in (attention, rms_norm, jnp.exp, jax.grad(attention), imports_inside)} == {"jax"}
    assert library_of(np.exp) == library_of(lambda x: np.exp(x)) == "numpy"
    assert library_of(only_methods) in ("jax", "numpy")
    assert not jax.config.jax_enable_x64


def test_a_loop_of_a_jax_that_is_too_new_is_refused_with_a_way_out() -> None:
    """0.11 says its parts in another way."""
    looped = program(lambda x: lax.scan(lambda c, each: (c + each, c), 0.0, x), {"x": ((3,), "float32")})
    [scan] = [each for each in looped.equations if each.name == "scan"]
    assert scan.constants_and_carried == (0, 1)
    with pytest.raises(UnreadableError, match=r"jax<0\.11: install that"):
        _ = replace(scan, params={"length": 3, "reverse": False}).constants_and_carried
