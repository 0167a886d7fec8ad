"""What a reference is in float64, and how far a kernel may be off that is held against a replay of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fuzz.references.dims import UnreadableError
from fuzz.references.rerun import replayed, ways_of

F = torch.nn.functional


def solve(a: Any, b: Any) -> Any:
    return torch.linalg.solve(a, b)


def rnn(x: Any, w: Any) -> Any:
    h = torch.zeros(len(x), len(w), dtype=x.dtype)
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] + h @ w)
    return h


def clipped(x: Any) -> Any:
    size = x.norm()
    return x / size if size > 1 else x


def layer_norm(x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:])


def _of(**shapes: tuple[int, ...]) -> Mapping[str, NDArray[Any]]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32).astype(np.float64) for name, shape in shapes.items()}


def jax_clipped(x: Any) -> Any:
    size = jax.numpy.linalg.norm(x)
    return jax.lax.cond(size > 1, lambda x: x / size, lambda x: x, x)


def jax_rnn(x: Any, w: Any) -> Any:
    def turn(h: Any, own: Any) -> Any:
        return jax.numpy.tanh(own + h @ w), None

    return jax.lax.scan(turn, jax.numpy.zeros((len(x), len(w))), x.transpose(1, 0, 2))[0]


def jax_solve(a: Any, b: Any) -> Any:
    return jax.numpy.linalg.solve(a, b)


_IN_JAX: Mapping[Callable[..., Any], Mapping[str, NDArray[Any]]] = {
    jax_clipped: _of(x=(3, 5)), jax_rnn: _of(x=(3, 5, 4), w=(4, 4)), jax_solve: _of(a=(8, 8), b=(8, 2)),
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("reference", _IN_JAX, ids=lambda each: each.__name__)
def test_so_it_is_of_references_in_jax(reference: Callable[..., Any]) -> None:
    """Branches, loops and linear algebra have rounding errors of their own in each turn."""
    arrays = _IN_JAX[reference]
    [found] = replayed(ways_of(reference, "jax"), arrays)
    plain = {name: array.astype(np.float32) for name, array in arrays.items()}
    coarse = {name: (each * np.float32(2.0**13) + each) - each * np.float32(2.0**13) for name, each in plain.items()}
    right, wrong = (np.asarray(reference(**given), dtype=np.float64) for given in (plain, coarse))
    assert (np.abs(right - found.value) <= found.allowed / 4).all()
    assert (np.abs(wrong - found.value) > found.allowed).any()
    with jax.enable_x64(True):
        assert np.allclose(found.value, reference(**arrays), rtol=1e-12)


def test_what_a_reference_draws_at_random_is_not_judged() -> None:
    """In another dtype it has other numbers, whatever seed it sets."""

    def shaken(x: Any) -> Any:
        torch.manual_seed(0)
        return x + torch.randn(x.shape, dtype=x.dtype)

    [found] = replayed(ways_of(shaken), _of(x=(16, 24)))
    assert np.isnan(found.value).all()


_CASES: Mapping[Callable[..., Any], Mapping[str, NDArray[Any]]] = {
    solve: _of(a=(8, 8), b=(8, 2)), rnn: _of(x=(3, 5, 4), w=(4, 4)), clipped: _of(x=(3, 5)), layer_norm: _of(x=(3, 40)),
}  # fmt: skip


@pytest.mark.some(2)
@pytest.mark.parametrize("reference", _CASES, ids=lambda each: each.__name__)
def test_a_kernel_in_f32_is_allowed_and_one_of_11_bits_is_not(reference: Callable[..., Any]) -> None:
    arrays = _CASES[reference]
    [found] = replayed(ways_of(reference), arrays)
    plain = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    coarse = {name: (each * 2.0**13 + each) - each * 2.0**13 for name, each in plain.items()}  # 11 bits are left
    right, wrong = (reference(**given).double().numpy() for given in (plain, coarse))
    assert (np.abs(right - found.value) <= found.allowed).all()
    assert (np.abs(wrong - found.value) > found.allowed).any()
    exact = reference(**{name: torch.from_numpy(array) for name, array in arrays.items()}).numpy()
    assert np.allclose(found.value, exact, rtol=1e-12)


def _spectrum(x: Any) -> Any:
    return torch.view_as_real(torch.fft.rfft(x, norm="ortho"))


def _summed_spectrum(x: Any) -> Any:
    """By sums of products, in which what cancels out leaves roundings of the largest element."""
    n = x.shape[-1]
    angles = (torch.arange(n)[:, None] * torch.arange(n // 2 + 1) % n).double() * (2 * torch.pi / n)
    return torch.stack((x @ angles.cos().to(x.dtype), -x @ angles.sin().to(x.dtype)), -1) / n**0.5


def _resized(x: Any) -> Any:
    return F.interpolate(x, size=(7, 5), mode="bilinear")


def _resized_by_places(x: Any) -> Any:
    for at, size in ((-2, 7), (-1, 5)):
        x = x.movedim(at, -1)
        n = x.shape[-1]
        source = ((torch.arange(size, dtype=x.dtype) + 0.5) * (n / size) - 0.5).clamp(min=0)
        low = source.long()
        share = source - low
        x = (x[..., low] * (1 - share) + x[..., (low + 1).clamp(max=n - 1)] * share).movedim(-1, at)
    return x


@pytest.mark.parametrize(("reference", "way"), [(_spectrum, _summed_spectrum), (_resized, _resized_by_places)])
def test_another_way_to_a_transform_or_a_resize_is_allowed(
    reference: Callable[..., Any], way: Callable[..., Any]
) -> None:
    x = torch.randn(4, 4, 8, 9, generator=torch.Generator().manual_seed(1)).abs() * (-1.0) ** torch.arange(9)
    x[0, :2] = torch.tensor([[[1e4 + 0.1]], [[3e-7]]])  # of equal elements, all but the first of a spectrum are 0
    [found] = replayed(ways_of(reference), {"x": x.double().numpy()})
    right, wrong = way(x).double().numpy(), way(x * 1.001).double().numpy()
    assert (np.abs(right - found.value) <= found.allowed).all()
    assert (np.abs(wrong - found.value) > found.allowed).any()


def test_casts_of_a_reference_are_no_part_of_its_value() -> None:
    [found] = replayed(ways_of(lambda x: (x.bfloat16() * 3).to(x.dtype)), {"x": np.array([1.0 + 2.0**-20])})
    assert found.value.tolist() == [3.0 * (1.0 + 2.0**-20)]


def test_a_matrix_that_is_badly_conditioned_allows_more() -> None:
    near = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-12]])
    [bad], [good] = (replayed(ways_of(solve), {"a": a, "b": np.ones((2, 1))}) for a in (near, np.eye(2)))
    assert bad.allowed.max() > 100 * good.allowed.max()


def test_what_rounding_decides_is_not_judged() -> None:
    def stepped(x: Any) -> Any:
        return torch.floor(x * (1 / 3))

    def shortened(x: Any) -> Any:
        return x[x * (1 / 3) * 3 > 1]

    near = 1.0 + 2.0**-21  # as far from its threshold as right kernels may be off
    [found] = replayed(ways_of(lambda x: torch.sign(x - 1.0)), {"x": np.array([near, *np.linspace(1.01, 2.0, 31)])})
    assert np.isnan(found.value).tolist() == [True] + [False] * 31
    [found] = replayed(ways_of(stepped), {"x": np.array([3.0, *np.linspace(4.0, 5.0, 31)])})
    assert np.isnan(found.value).tolist() == [True] + [False] * 31
    assert found.allowed[1:].max() < 1e-3
    [found] = replayed(ways_of(stepped), {"x": np.array([3.0, 4.0])})  # each second one hangs on a decision
    assert np.isnan(found.value).all()
    [found] = replayed(ways_of(shortened), {"x": np.array([1.0, 2.0])})
    assert np.isnan(found.value).all()
    [found] = replayed(ways_of(lambda x: torch.log(x)), {"x": np.array([-1.0, 1.0])})
    assert np.isnan(found.value).tolist() == [True, False]


def test_what_another_dtype_has_no_equal_for_is_not_replayed() -> None:
    """The next number of bf16 was called wrong, since float64 has another."""
    with pytest.raises(UnreadableError, match="depends on the dtype"):
        replayed(ways_of(lambda x: torch.nextafter(x, x + 1.0)), _of(x=(3, 4)))


def _attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def _attention_by_parts(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


_LAYER = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval().requires_grad_(requires_grad=False)


def _encoder(x: Any, **weights: Any) -> Any:
    return torch.func.functional_call(_LAYER, {name.replace("_of_", "."): each for name, each in weights.items()}, (x,))


def _encoder_by_parts(x: Any, **weights: Any) -> Any:
    of = {name: weights[name.replace(".", "_of_")] for name in _LAYER.state_dict()}
    q, k, v = (
        F.linear(x, of["self_attn.in_proj_weight"], of["self_attn.in_proj_bias"]).unflatten(-1, (3, 2, 8)).unbind(2)
    )
    seen = _attention_by_parts(*(each.transpose(1, 2) for each in (q, k, v))).transpose(1, 2).flatten(2)
    seen = F.linear(seen, of["self_attn.out_proj.weight"], of["self_attn.out_proj.bias"])
    x = F.layer_norm(x + seen, (16,), of["norm1.weight"], of["norm1.bias"])
    inner = F.relu(F.linear(x, of["linear1.weight"], of["linear1.bias"]))
    outer = F.linear(inner, of["linear2.weight"], of["linear2.bias"])
    return F.layer_norm(x + outer, (16,), of["norm2.weight"], of["norm2.bias"])


_WEIGHTS = {name.replace(".", "_of_"): each.double().numpy() for name, each in _LAYER.state_dict().items()}


@pytest.mark.parametrize(("reference", "kernel", "arrays"), [
    (_attention, _attention_by_parts, _of(q=(1, 2, 256, 32), k=(1, 2, 256, 32), v=(1, 2, 256, 32))),
    (_encoder, _encoder_by_parts, {**_of(x=(2, 48, 16)), **_WEIGHTS}),
], ids=["attention", "encoder"])  # fmt: skip
def test_what_torch_fuses_allows_what_its_parts_round(
    reference: Callable[..., Any], kernel: Callable[..., Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """A kernel by parts was accused: the fused operation counted as one that rounds its result alone."""
    [found] = replayed(ways_of(reference), arrays)
    got = kernel(**{name: torch.from_numpy(each).float() for name, each in arrays.items()})
    share = np.abs(got.numpy() - found.value) / found.allowed
    assert 0.0 < share.max() < 0.15
