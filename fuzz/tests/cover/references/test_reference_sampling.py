"""Steps of sampling and routing are read: flags, counts, log-sums up to a place, nucleus masks and steps of a beam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import fuzz

Kernel = Callable[..., Any]


def classes(x: Any, ids: Any) -> Any:
    return x[:, None] * torch.nn.functional.one_hot(ids, 8)


def counts(ids: Any, w: Any) -> Any:
    return torch.bincount(ids, weights=w, minlength=16)


def log_sums(x: Any) -> Any:
    return torch.logcumsumexp(x, -1)


def nucleus(x: Any) -> Any:
    row, order = torch.sort(x, dim=-1, descending=True)
    p = torch.softmax(row, -1)
    drop = p.cumsum(-1) - p > 0.75
    return x.masked_fill(torch.zeros_like(drop).scatter(-1, order, drop), float("-inf"))


def beam(scores: Any, logits: Any) -> Any:
    v = logits.shape[-1]
    best, at = torch.topk((scores[..., None] + torch.log_softmax(logits, -1)).flatten(-2), 4)
    return best, at // v, at % v


_R = torch.Generator().manual_seed(0)
_GIVEN: dict[Kernel, tuple[Any, ...]] = {
    classes: (torch.randn(40, generator=_R), torch.arange(40) % 8),
    counts: (torch.arange(200) ** 2 % 16, torch.randn(200, generator=_R)),
    log_sums: (3 * torch.randn(3, 50, generator=_R),),
    nucleus: (3 * torch.randn(20, 30, generator=_R),),
    beam: (torch.randn(6, 3, generator=_R), 3 * torch.randn(6, 3, 20, generator=_R)),
}


def classes_by_numpy(x: Any, ids: Any) -> Any:
    return np.eye(8, dtype=np.float32)[ids] * np.asarray(x)[:, None]


def classes_by_jax(x: Any, ids: Any) -> Any:
    return np.array(jax.nn.one_hot(jnp.asarray(ids), 8) * jnp.asarray(x)[:, None])


def classes_by_writing(x: Any, ids: Any) -> Any:
    y = torch.zeros(len(x), 8)
    y[torch.arange(len(x)), ids] = x
    return y


def counts_by_numpy(ids: Any, w: Any) -> Any:
    return np.bincount(ids, weights=w, minlength=16).astype(np.float32)


def counts_by_jax(ids: Any, w: Any) -> Any:
    return np.array(jnp.bincount(jnp.asarray(ids), weights=jnp.asarray(w), length=16))


def counts_by_flags(ids: Any, w: Any) -> Any:
    return w @ (ids[:, None] == torch.arange(16)).float()


def log_sums_by_numpy(x: Any) -> Any:
    return np.logaddexp.accumulate(np.asarray(x), -1)


def log_sums_by_jax(x: Any) -> Any:
    return np.array(jax.lax.cumlogsumexp(jnp.asarray(x), axis=1))


def log_sums_by_maximum(x: Any) -> Any:
    most = x.amax(-1, keepdim=True)
    return (x - most).exp().cumsum(-1).log() + most


def nucleus_by_numpy(x: Any) -> Any:
    x = np.asarray(x)
    e = np.exp(x - x.max(-1, keepdims=True))
    larger = (x[..., None, :] > x[..., :, None]) | (
        (x[..., None, :] == x[..., :, None]) & np.tri(x.shape[-1], k=-1, dtype=bool)
    )
    before = np.where(larger, e[..., None, :], 0).sum(-1)
    return np.where(before <= 0.75 * e.sum(-1, keepdims=True), x, -np.inf)


def nucleus_by_ranks(x: Any) -> Any:
    row, order = torch.sort(x, dim=-1)
    drop = torch.softmax(row, -1).cumsum(-1) < 0.25
    return x.masked_fill(drop.gather(-1, order.argsort(-1)), float("-inf"))


def nucleus_by_jax(x: Any) -> Any:
    row = jnp.sort(jnp.asarray(x), -1)[..., ::-1]
    p = jax.nn.softmax(row, -1)
    last = jnp.where(jnp.cumsum(p, -1) - p <= 0.75, row, jnp.inf).min(-1, keepdims=True)
    return np.where(np.asarray(x) >= np.asarray(last), np.asarray(x), -np.inf)


def beam_by_numpy(scores: Any, logits: Any) -> Any:
    scores, logits = np.asarray(scores), np.asarray(logits)
    total = scores[..., None] + logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    flat, v = total.reshape(len(total), -1), logits.shape[-1]
    at = np.argsort(-flat, axis=-1)[:, :4]
    return np.take_along_axis(flat, at, -1), at // v, at % v


def beam_in_two_stages(scores: Any, logits: Any) -> Any:
    best, at = (scores[..., None] + logits - logits.logsumexp(-1, keepdim=True)).topk(4, -1)
    top, which = best.flatten(1).topk(4)
    return top, which // 4, at.flatten(1).gather(1, which)


def beam_by_jax(scores: Any, logits: Any) -> Any:
    total = jnp.asarray(scores)[..., None] + jax.nn.log_softmax(jnp.asarray(logits), -1)
    best, at = jax.lax.top_k(total.reshape(len(total), -1), 4)
    return tuple(np.array(each) for each in (best, at // logits.shape[-1], at % logits.shape[-1]))


_RIGHT = [
    (classes, classes_by_numpy), (classes, classes_by_jax), (classes, classes_by_writing), (counts, counts_by_numpy),
    (counts, counts_by_jax), (counts, counts_by_flags), (log_sums, log_sums_by_numpy), (log_sums, log_sums_by_jax),
    (log_sums, log_sums_by_maximum), (nucleus, nucleus_by_numpy), (nucleus, nucleus_by_ranks),
    (nucleus, nucleus_by_jax), (beam, beam_by_numpy), (beam, beam_in_two_stages), (beam, beam_by_jax),
]  # fmt: skip


@pytest.mark.some(5)
@pytest.mark.parametrize(("reference", "kernel"), _RIGHT)
def test_right_kernels_pass(reference: Kernel, kernel: Kernel) -> None:
    given = _GIVEN[reference]
    found = kernel(*given)
    found = tuple(map(torch.as_tensor, found)) if isinstance(found, tuple) else torch.as_tensor(found)
    fuzz.assert_right(found, reference, given)


def _nucleus(drop_of: Callable[[Any, Any], Any], back: bool = True) -> Kernel:
    def kernel(x: Any) -> Any:
        row, order = torch.sort(x, dim=-1, descending=True)
        drop = drop_of(torch.softmax(row, -1), row)
        return x.masked_fill(torch.zeros_like(drop).scatter(-1, order, drop) if back else drop, float("-inf"))

    return kernel


def _beam(change: Callable[[Any, Any, int, Any], Any]) -> Kernel:
    def kernel(scores: Any, logits: Any) -> Any:
        return change(scores, logits, logits.shape[-1], torch.log_softmax(logits, -1))

    return kernel


def _chosen(by: Any, total: Any, v: int) -> Any:
    at = by.flatten(1).topk(4).indices
    return total.flatten(1).gather(1, at), at // v, at % v


def _last_of_equal(ids: Any, w: Any) -> Any:
    y = torch.zeros(16)
    y[ids] = w
    return y


_WRONG: list[tuple[Kernel, Kernel]] = [
    (classes, lambda x, ids: classes_by_writing(x, ids.clamp(max=6))),
    (classes, lambda x, ids: classes_by_writing(x, (ids + 1) % 8)),
    (classes, lambda x, ids: classes_by_writing(x.abs(), ids)),
    (classes, lambda x, ids: classes_by_writing(x, ids) * (ids != 0)[:, None]),
    (counts, _last_of_equal),
    (counts, lambda ids, w: counts_by_flags(ids, torch.ones_like(w))),
    (counts, lambda ids, w: counts_by_flags(ids[:-1], w[:-1])),
    (counts, lambda ids, w: counts_by_flags(ids.clamp(max=8), w)),
    (log_sums, lambda x: x.logsumexp(-1, keepdim=True).expand_as(x)),
    (log_sums, lambda x: x.exp().cumsum(-1).roll(1, -1).log()),
    (log_sums, lambda x: torch.cat([each.logcumsumexp(-1) for each in x.split(32, -1)], -1)),
    (log_sums, lambda x: x.cummax(-1).values),
    (nucleus, _nucleus(lambda p, _: p.cumsum(-1) > 0.75)),
    (nucleus, _nucleus(lambda p, _: p.cumsum(-1) - p > 0.75, back=False)),
    (nucleus, _nucleus(lambda p, _: p.cumsum(-1) - p > 0.8)),
    (nucleus, _nucleus(lambda p, row: row.exp().cumsum(-1) > 0.75)),
    (beam, _beam(lambda s, x, v, y: _chosen(s[..., None] + x, s[..., None] + y, v))),
    (beam, _beam(lambda s, x, v, y: _chosen(y, y, v))),
    (beam, _beam(lambda s, x, v, y: _chosen(s[..., None] + y, s[..., None] + y, x.shape[1]))),
    (beam, _beam(lambda s, x, v, y: _chosen((s[..., None] + y)[:, :1], s[..., None] + y, v))),
]


@pytest.mark.some(5)
@pytest.mark.parametrize(("reference", "kernel"), _WRONG)
def test_wrong_kernels_fail(reference: Kernel, kernel: Kernel) -> None:
    given = _GIVEN[reference]
    with pytest.raises(AssertionError, match="wrong"):
        fuzz.assert_right(kernel(*given), reference, given)


def test_a_cumulated_probability_at_the_limit_may_be_on_either_side() -> None:
    x = torch.tensor([[0.0, 0.0, 0.0, 0.0, -9.0e9]])  # three of four equal ones are 0.75 of the mass, four are the rest
    for last in range(4):
        kept = x.clone()
        kept[0, [last, 4]] = float("-inf")
        fuzz.assert_right(kept, nucleus, (x,))
    with pytest.raises(AssertionError):
        fuzz.assert_right(torch.full_like(x, 1.0), nucleus, (x,))


def test_equal_scores_of_beams_may_stand_in_any_order() -> None:
    scores, logits = torch.zeros(1, 2), torch.zeros(1, 2, 8)
    best = torch.full((1, 4), -float(np.log(8.0)))
    at = torch.tensor([[3, 15, 0, 8]])
    fuzz.assert_right((best, at // 8, at % 8), beam, (scores, logits))
    with pytest.raises(AssertionError):
        fuzz.assert_right((best + 0.5, at // 8, at % 8), beam, (scores, logits))


def test_as_many_results_as_values_say_are_refused() -> None:
    def flags(ids: Any, x: Any) -> Any:
        return torch.nn.functional.one_hot(ids).sum(-1) * x

    def bins(ids: Any, x: Any) -> Any:
        return torch.bincount(ids, x)

    for reference, word in ((flags, "num_classes"), (bins, "minlength")):
        with pytest.raises(fuzz.CheckError, match=f"write {word}"):
            fuzz.check(reference, reference=reference, shapes="ids=n, x=n", dtypes={"ids": "int64"})
