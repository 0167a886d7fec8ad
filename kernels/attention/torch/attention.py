"""Attention in torch: scaled_dot_product_attention, and elementary operations for all that it does not have."""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention


def fused(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, axis: int, softmax_scale: float, o: torch.Tensor,
    mask: torch.Tensor | None = None, causal: float = 0.0, backend: str,
) -> None:  # fmt: skip
    """The library's own, in float32 or wider: that the corner is at the top left it is told, any other mask it is
    given. Heads are filled up with zeros to one width, which not all of its kernels do without."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    b, g, h, _, d = q.shape
    j, e = v.shape[2:]
    dense = torch.contiguous_format
    queries, keys, values = (
        pad(each, (0, max(d, e, 1) - each.shape[-1]))
        .reshape(b, -1, *each.shape[-2:-1], max(d, e, 1))
        .clone(memory_format=dense)
        for each in (q.to(wide), *(each.to(wide)[:, :, None].expand(b, g, h, j, -1) for each in (k, v)))
    )
    seen = None if mask is None and causal in (0, 1) else _seen(q, j, mask, causal, -1.0)[:, 0]
    with sdpa_kernel(getattr(SDPBackend, backend)):
        found = scaled_dot_product_attention(
            queries, keys, values, attn_mask=seen, is_causal=seen is None and causal == 1, scale=softmax_scale
        )
    o.copy_(found[..., :e].reshape(o.shape))


def composed(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, axis: int, softmax_scale: float, o: torch.Tensor,
    mask: torch.Tensor | None = None, bias: torch.Tensor | None = None, lse: torch.Tensor | None = None,
    causal: float = 0.0, window: float = -1.0, cap: float = 0.0, blank: float = 0.0,
) -> None:  # fmt: skip
    """One operation after the other, in float32 or wider."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    s = torch.matmul(q.to(wide), k.to(wide)[:, :, None].transpose(-1, -2)) * softmax_scale
    if cap > 0:
        s = cap * torch.tanh(s / cap)
    s = s if bias is None else s + bias.to(wide)
    s = s.masked_fill(~_seen(q, k.shape[2], mask, causal, window), float("-inf"))
    most = s.amax(-1, keepdim=True) if s.shape[-1] else s.new_full((*s.shape[:-1], 1), float("-inf"))
    nothing = most == float("-inf")
    m = most.masked_fill(nothing, 0.0)
    p = torch.exp(s - m)
    mass = p.sum(-1, keepdim=True)
    found = torch.matmul(p, v.to(wide)[:, :, None]) / mass
    o.copy_(found.masked_fill(nothing, float("nan") if blank >= 0.5 else 0.0))
    if lse is not None:
        lse.copy_((m + torch.log(mass))[..., 0])


def attention_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dy: torch.Tensor, *, axis: int, softmax_scale: float,
    dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor, o: torch.Tensor | None = None,
    lse: torch.Tensor | None = None, mask: torch.Tensor | None = None, bias: torch.Tensor | None = None,
    causal: float = 0.0, window: float = -1.0, cap: float = 0.0,
) -> None:  # fmt: skip
    """The gradients, one operation after the other."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    queries, keys, values, given = q.to(wide), k.to(wide)[:, :, None], v.to(wide)[:, :, None], dy.to(wide)
    s = torch.matmul(queries, keys.transpose(-1, -2)) * softmax_scale
    slope = torch.ones_like(s)
    if cap > 0:
        t = torch.tanh(s / cap)
        s, slope = cap * t, 1 - t * t
    s = s if bias is None else s + bias.to(wide)
    s = s.masked_fill(~_seen(q, k.shape[2], mask, causal, window), float("-inf"))
    hidden = s == float("-inf")
    sums = torch.logsumexp(s, -1) if lse is None else lse.to(wide)
    p = torch.exp(s - sums[..., None]).masked_fill(hidden, 0.0)
    whole = torch.matmul(p, values) if o is None else o.to(wide)
    delta = (given * whole).sum(-1, keepdim=True)
    ds = p * (torch.matmul(given, values.transpose(-1, -2)) - delta) * slope.masked_fill(hidden, 1.0)
    dq.copy_(torch.matmul(ds, keys) * softmax_scale)
    dk.copy_(torch.einsum("bghij,bghid->bgjd", ds, queries) * softmax_scale)
    dv.copy_(torch.einsum("bghij,bghie->bgje", p, given))


def _seen(q: torch.Tensor, keys: int, mask: torch.Tensor | None, causal: float, window: float) -> torch.Tensor:
    """The keys that each query sees, with a dimension for batch, group and head each."""
    queries = q.shape[3]
    more = keys - queries if causal >= 1.5 else 0
    ahead = torch.arange(keys, device=q.device) - torch.arange(queries, device=q.device)[:, None] - more
    seen = torch.ones_like(ahead, dtype=torch.bool)
    if causal > 0:
        seen = seen & (ahead <= 0)
    if window >= 0:
        seen = seen & (ahead >= -window)
    return seen[None, None, None] if mask is None else seen & mask[:, None, None].bool()
