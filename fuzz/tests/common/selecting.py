"""References that select by order or round to integers, other right ways to the same, and wrong ones."""

from __future__ import annotations

from typing import Any

import torch


def routed(x: Any) -> Any:
    weights, places = torch.topk(torch.softmax(x, -1), 2)
    return weights / weights.sum(-1, keepdim=True), places


def routed_by_logits(x: Any) -> Any:
    values, places = x.sort(-1, descending=True)
    weights = torch.exp(values[..., :2] - values[..., :1])
    return weights / weights.sum(-1, keepdim=True), places[..., :2]


def routed_from_the_end(x: Any) -> Any:
    weights, places = routed(x.flip(-1))
    return weights, x.shape[-1] - 1 - places


def same_expert_twice(x: Any) -> Any:
    weights, places = routed(x)
    return weights, places[..., :1].expand_as(places).clone()


def third_for_second(x: Any) -> Any:
    p, some = torch.softmax(x, -1), [0, 2] if x.shape[-1] > 2 else [0, 1]
    weights, places = (each[..., some] for each in torch.topk(p, min(3, x.shape[-1])))
    return weights / weights.sum(-1, keepdim=True), places


def last_expert_left_out(x: Any) -> Any:
    return routed(x[..., : max(2, x.shape[-1] - 1)])


def weights_as_they_are(x: Any) -> Any:
    return torch.topk(torch.softmax(x, -1), 2)


def best(x: Any) -> Any:
    return x.argmax(-1)


def best_from_the_end(x: Any) -> Any:
    return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


def last_left_out(x: Any) -> Any:
    return x[..., : max(1, x.shape[-1] - 1)].argmax(-1)


def largest_size(x: Any) -> Any:
    return x.abs().argmax(-1)


def best_in_16_bits(x: Any) -> Any:
    return x.bfloat16().argmax(-1)


def falling(x: Any) -> Any:
    return torch.sort(x, -1, descending=True)


def falling_by_places(x: Any) -> Any:
    places = torch.argsort(-x, -1)
    return x.gather(-1, places), places


def rising(x: Any) -> Any:
    return torch.sort(x, -1)


def tail_not_sorted(x: Any) -> Any:
    n = x.shape[-1]
    m = n // 8 * 8 if n > 8 else n
    values, places = falling(x[..., :m])
    rest = torch.arange(m, n).expand(*x.shape[:-1], n - m)
    return torch.cat([values, x[..., m:]], -1), torch.cat([places, rest], -1)


def sorted_in_16_bits(x: Any) -> Any:
    places = torch.argsort(x.bfloat16().float(), -1, descending=True)
    return x.gather(-1, places), places


def _step(x: Any, most: float = 127.0) -> Any:
    return x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / most


def _codes(y: Any) -> Any:
    return torch.clamp(torch.round(y), -128, 127).to(torch.int8)


def coded(x: Any) -> Any:
    scale = _step(x)
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale.squeeze(-1)


def coded_by_the_reciprocal(x: Any) -> Any:
    most = x.abs().amax(-1, keepdim=True).clamp(min=1e-8)
    return _codes(x * (127 / most)), (most * (1 / 127.0)).squeeze(-1)


def by_128(x: Any) -> Any:
    return _codes(x / _step(x, 128.0)), _step(x).squeeze(-1)


def cut(x: Any) -> Any:
    return (x / _step(x)).to(torch.int8), _step(x).squeeze(-1)


def wraps(x: Any) -> Any:
    return torch.round(x / _step(x, 128.0)).to(torch.int32).to(torch.int8), _step(x).squeeze(-1)


def rounded_up(x: Any) -> Any:
    return _codes(torch.floor(x / _step(x) + 0.75)), _step(x).squeeze(-1)


def step_without_the_last(x: Any) -> Any:
    scale = _step(x[..., : max(1, x.shape[-1] - 1)])
    return _codes(x / scale), scale.squeeze(-1)


RIGHT = [
    (routed, routed), (routed, routed_by_logits), (routed, routed_from_the_end), (best, best),
    (falling, falling), (falling, falling_by_places), (coded, coded),
    (coded, coded_by_the_reciprocal),
]  # fmt: skip
WRONG = [
    (routed, same_expert_twice), (routed, third_for_second), (routed, last_expert_left_out),
    (routed, weights_as_they_are), (best, best_from_the_end), (best, last_left_out), (best, largest_size),
    (best, best_in_16_bits), (falling, rising), (falling, tail_not_sorted), (falling, sorted_in_16_bits),
    (coded, by_128), (coded, cut), (coded, wraps), (coded, rounded_up), (coded, step_without_the_last),
]  # fmt: skip
QUICK = [(best, last_left_out), (routed, third_for_second), (falling, tail_not_sorted), (coded, by_128)]
"""One wrong way to each."""


def name(each: Any) -> str:
    """Return what a test is called by."""
    return str(each.__name__)
