"""What the operators of ONNX calculate: functions of torch, whose parameters are inputs, then attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch.nn import functional

from fuzz.quality.onnx_nodes.moves import Function, along, every, integers, padded, resize, spread, windows


def _reduced(function: Function) -> Function:
    """Return an operator that reduces axes by a function of a tensor, a list of axes, and whether to keep them."""

    def operator(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        if noop_with_empty_axes and not integers(axes):
            return function(x.unsqueeze(-1), [-1], False)
        return function(x, every(x, axes), bool(keepdims))

    return operator


def _prod(x: Any, axes: Sequence[int], keep: bool) -> Any:
    return reduce(lambda x, axis: x.prod(axis, keepdim=keep), sorted(axes, reverse=True), x)


def _cumulated(name: str, first: float) -> Function:
    def operator(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        axis = int(axis)
        x = x.flip(axis) if reverse else x
        if exclusive:
            x = torch.cat([torch.full_like(x.narrow(axis, 0, 1), first), x.narrow(axis, 0, x.shape[axis] - 1)], axis)
        found = getattr(torch, name)(x, axis)
        return found.flip(axis) if reverse else found

    return operator


def _gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, **turned: int) -> Any:
    found = (a.T if turned.get("transA") else a) @ (b.T if turned.get("transB") else b)
    found = found if alpha == 1.0 else alpha * found
    return found if c is None else found + (c if beta == 1.0 else beta * c)


def _conv(x: Any, w: Any, b: Any = None, *, group: int = 1, kernel_shape: Any = None, **how: Any) -> Any:
    strides, dilations, _, before, after = spread(x, w.shape[2:], **how)
    called = (functional.conv1d, functional.conv2d, functional.conv3d)[x.ndim - 3]
    padding: Any = 0
    if before == after:
        padding = before
    else:
        x = padded(x, before, after)
    return called(x, w, b, strides, padding, dilations, group)


def _conv_transpose(
    x: Any, w: Any, b: Any = None, *, group: int = 1, kernel_shape: Any = None, output_padding: Any = None,
    output_shape: Any = None, auto_pad: str = "NOTSET", **how: Any,
) -> Any:  # fmt: skip
    strides, dilations, whole, before, after = spread(x, w.shape[2:], **how)
    more = integers(output_padding) or [0] * len(whole)
    sizes = [s * (n - 1) + w + m for n, s, w, m in zip(x.shape[2:], strides, whole, more, strict=True)]
    if auto_pad.startswith("SAME"):
        output_shape = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if output_shape:
        both = [size - n for size, n in zip(sizes, output_shape[-len(sizes) :], strict=True)]
        before = [each // 2 if auto_pad == "SAME_UPPER" else each - each // 2 for each in both]
        after = [each - first for each, first in zip(both, before, strict=True)]
    called = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[x.ndim - 3]
    if before == after and min(before) >= 0:
        return called(x, w, b, strides, before, more, group, dilations)
    found = called(x, w, None, strides, 0, 0, group, dilations)
    found = padded(found, [0] * len(more), [max(m - each, 0) for m, each in zip(more, after, strict=True)])
    for axis, (first, end, n) in enumerate(zip(before, after, sizes, strict=True)):
        found = found.narrow(2 + axis, first, n - first - end)
    return found if b is None else found + b.reshape(-1, *[1] * len(whole))


def _average_pool(x: Any, *, kernel_shape: Any, count_include_pad: int = 0, ceil_mode: int = 0, **how: Any) -> Any:
    strides, dilations, _, before, after = spread(x, kernel_shape, **how)
    if before == after and max(dilations) == 1 and all(2 * p <= k for p, k in zip(before, kernel_shape, strict=True)):
        pool = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[x.ndim - 3]
        return pool(x, kernel_shape, strides, before, bool(ceil_mode), bool(count_include_pad))
    how["ceil_mode"] = ceil_mode
    count = windows(torch.ones(1, 1, *x.shape[2:]), float(count_include_pad), kernel_shape, beyond=0.0, **how).sum(-1)
    return windows(x, 0.0, kernel_shape, **how).sum(-1) / count


def _lp_pool(x: Any, *, kernel_shape: Any, p: int = 2, **how: Any) -> Any:
    powers = x.square() if p == 2 else x.abs() ** p
    found = _average_pool(powers, kernel_shape=kernel_shape, count_include_pad=1, **how) * math.prod(kernel_shape)
    return found.sqrt() if p == 2 else found ** (1 / p)


def _normalized(x: Any, axes: Sequence[int], epsilon: float) -> tuple[Any, Any, Any]:
    mean = x.mean(axes, keepdim=True)
    inverse = 1 / ((x - mean).square().mean(axes, keepdim=True) + epsilon).sqrt()
    return (x - mean) * inverse, mean, inverse


def _layer_norm(
    x: Any, scale: Any, b: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    found, mean, inverse = _normalized(x, [*range(axis % x.ndim, x.ndim)], epsilon)
    return found * scale if b is None else found * scale + b, mean, inverse


def _rms_norm(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    return x / (x.square().mean([*range(axis % x.ndim, x.ndim)], keepdim=True) + epsilon).sqrt() * scale


def _batch_norm(
    x: Any, scale: Any, b: Any, mean: Any, var: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:  # fmt: skip
    own_mean, own_var = mean, var
    if training_mode:
        axes = [0, *range(2, x.ndim)]
        own_mean = x.mean(axes)
        own_var = (x - along(x, own_mean)).square().mean(axes)
        mean, var = (old * momentum + new * (1 - momentum) for old, new in ((mean, own_mean), (var, own_var)))
    found = (x - along(x, own_mean)) / (along(x, own_var) + epsilon).sqrt()
    return found * along(x, scale) + along(x, b), mean, var


def _group_norm(x: Any, scale: Any, b: Any, *, num_groups: int = 0, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    rows = x.reshape(x.shape[0], num_groups or x.shape[1], -1)
    found = _normalized(rows, [2], epsilon)[0].reshape(x.shape)
    return found * along(x, scale) + along(x, b)


def _lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    norm = x.square().sum(axis, keepdim=True).sqrt() if p == 2 else x.abs().sum(axis, keepdim=True)
    return x / norm


def _shrink(x: Any, *, lambd: float = 0.5, bias: float = 0.0) -> Any:
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x)))


def _selu(x: Any, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507009873554805) -> Any:
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


def _swish(x: Any, *, alpha: float = 1.0) -> Any:
    return x * torch.sigmoid(x if alpha == 1.0 else alpha * x)


def _loss(x: Any, target: Any, weight: Any = None, *, ignore_index: Any = None, reduction: str = "mean") -> Any:
    is_own = target.unsqueeze(1) == torch.arange(x.shape[1]).reshape(-1, *[1] * (x.ndim - 2))
    weights = torch.ones(x.shape[1]) if weight is None else weight
    of_each = torch.where(is_own, weights.reshape(-1, *[1] * (x.ndim - 2)), 0.0).sum(1)
    of_each = of_each if ignore_index is None else torch.where(target == ignore_index, 0.0, of_each)
    found = -torch.where(is_own, x, 0.0).sum(1) * of_each
    return found if reduction == "none" else found.sum() / (of_each.sum() if reduction == "mean" else 1)


def _softmax_loss(x: Any, target: Any, weight: Any = None, **how: Any) -> Any:
    found = torch.log_softmax(x, 1)
    return _loss(found, target, weight, **how), found


def _rotary(
    x: Any, cos: Any, sin: Any, places: Any = None, *, num_heads: int = 0, interleaved: int = 0,
    rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    rows = x.transpose(1, 2) if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1)
    if places is not None:
        cos, sin = cos[places], sin[places]
    size = rotary_embedding_dim or rows.shape[-1]
    own, rest, cos, sin = rows[..., :size], rows[..., size:], cos.unsqueeze(2), sin.unsqueeze(2)
    a, b = (own[..., ::2], own[..., 1::2]) if interleaved else own.split(size // 2, -1)
    both = [cos * a - sin * b, sin * a + cos * b]
    found = torch.stack(both, -1).reshape(own.shape) if interleaved else torch.cat(both, -1)
    found = torch.cat([found, rest], -1) if rest.shape[-1] else found
    return found.transpose(1, 2) if x.ndim == 4 else found.reshape(x.shape)


def _attention(
    q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None, past_v: Any = None, lengths: Any = None, *,
    scale: float | None = None, is_causal: int = 0, softcap: float = 0.0, qk_matmul_output_mode: int = 0,
    kv_num_heads: int = 0, q_num_heads: int = 0, softmax_precision: int = 1, left_window_size: int = -1,
    right_window_size: int = -1,
) -> Any:  # fmt: skip
    is_flat = q.ndim == 3
    if is_flat:
        q, k, v = (
            each.reshape(*each.shape[:2], heads, -1).transpose(1, 2)
            for each, heads in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))
        )
    if past_k is not None:
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    rows, columns = q.shape[2], k.shape[2]
    shared = q.shape[1] != k.shape[1]  # by several heads of queries
    queries, keys, values = (q.unflatten(1, (k.shape[1], -1)), k.unsqueeze(2), v.unsqueeze(2)) if shared else (q, k, v)
    scores = queries @ keys.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores.flatten(1, 2) if shared else scores
    capped = softcap * torch.tanh(scores / softcap) if softcap else scores
    biased, allowed = capped, list[Any]()
    places, at = torch.arange(columns), torch.arange(rows)[:, None]
    if past_k is not None:
        at = at + past_k.shape[2]
    elif lengths is not None:
        at = at + (lengths[:, None, None, None] - rows)
        allowed.append(places < lengths[:, None, None, None])
    if is_causal:
        allowed.append(places <= at)
    if left_window_size >= 0:
        allowed.append(places >= at - left_window_size)
    if right_window_size >= 0:
        allowed.append(places <= at + right_window_size)
    if mask is not None:
        short = columns - mask.shape[-1]
        if mask.dtype == torch.bool:
            allowed.append(functional.pad(mask, [0, short]) if short else mask)
        else:
            biased = biased + (functional.pad(mask, [0, short], value=-torch.inf) if short else mask)
    if allowed:
        biased = torch.where(reduce(torch.logical_and, allowed), biased, -torch.inf)
    shares = torch.softmax(biased, -1)
    if mask is not None or lengths is not None or len(allowed) > 1:
        shares = torch.where(biased.amax(-1, keepdim=True) == -torch.inf, 0.0, shares)
    rest = shares.unflatten(1, (k.shape[1], -1)) if shared else shares
    found = (rest @ values).flatten(1, 2) if shared else rest @ values
    if is_flat:
        found = found.transpose(1, 2).flatten(2)
    return found, k, v, (scores, capped, biased, shares)[qk_matmul_output_mode]


def _linear_attention(
    q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None, *, q_num_heads: int,
    kv_num_heads: int, scale: float = 0.0, update_rule: str = "gated_delta", chunk_size: int = 64,
) -> Any:  # fmt: skip
    q, (k, v) = q.unflatten(-1, (q_num_heads, -1)), (each.unflatten(-1, (kv_num_heads, -1)) for each in (k, v))
    state = torch.zeros(*k.shape[:1], *k.shape[2:], v.shape[-1], dtype=q.dtype) if past is None else past
    found, scale = [], scale or q.shape[-1] ** -0.5
    for t in range(q.shape[1]):
        if "gated" in update_rule:
            state = state * decay[:, t].unflatten(-1, (kv_num_heads, -1)).exp().unsqueeze(-1)
        new = v[:, t]
        if "delta" in update_rule:
            new = beta[:, t].unsqueeze(-1) * (new - (state * k[:, t].unsqueeze(-1)).sum(-2))
        state = state + k[:, t].unsqueeze(-1) * new.unsqueeze(-2)
        own = state.repeat_interleave(q_num_heads // kv_num_heads, 1)
        found.append(scale * (own * q[:, t].unsqueeze(-1)).sum(-2))
    return torch.stack(found, 1).flatten(2), state


def _causal_conv(x: Any, w: Any, b: Any = None, past: Any = None, *, activation: str = "none") -> Any:
    size = w.shape[-1] - 1
    x = functional.pad(x, [size, 0]) if past is None else torch.cat([past, x], -1)
    found = functional.conv1d(x, w, b, groups=w.shape[0])
    return found if activation == "none" else functional.silu(found), x[..., x.shape[-1] - size :]


def _dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    axis = -2 if axis is None else int(axis)
    axis, size = (axis - x.ndim if axis >= 0 else axis) + 1, None if length is None else int(length)
    z = torch.view_as_complex(x if x.shape[-1] == 2 else functional.pad(x, [0, 1]))
    if inverse and onesided:
        return torch.fft.irfft(z, size, axis).unsqueeze(-1)
    if onesided:
        return torch.view_as_real(torch.fft.rfft(x[..., 0], size, axis))
    return torch.view_as_real((torch.fft.ifft if inverse else torch.fft.fft)(z, size, axis))


def _stft(x: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    size = int(length) if length is not None else len(window)
    rows = x[..., 0].unfold(1, size, int(step))
    rows = rows if window is None else rows * window
    return torch.view_as_real((torch.fft.rfft if onesided else torch.fft.fft)(rows))


def _grid_sample(
    x: Any, grid: Any, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Any:
    named = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return functional.grid_sample(x, grid, named, padding_mode, bool(align_corners))


def _col2im(
    x: Any, image: Any, block: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Any:  # fmt: skip
    sizes, kernel = integers(image), integers(block)
    strides, dilations, _, before, after = spread(x, kernel, strides, dilations, pads)
    whole = [n + b + a for n, b, a in zip(sizes, before, after, strict=True)]
    found = functional.fold(x, whole, kernel, dilations, 0, strides)
    return padded(found, [-each for each in before], [-each for each in after])


def _recurrent(gates: int, step: Function) -> Function:
    """Return an operator that applies a step of a recurrence in each direction."""

    def operator(
        x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None, p: Any = None, *,
        hidden_size: int, direction: str = "forward", layout: int = 0, **how: Any,
    ) -> Any:  # fmt: skip
        x = x.transpose(0, 1) if layout else x
        h, c = (each.transpose(0, 1) if layout and each is not None else each for each in (h, c))
        found, last = [], []
        for at in range(w.shape[0]):
            backwards = direction == "reverse" or at == 1
            zeros = torch.zeros(x.shape[1], hidden_size, dtype=x.dtype)
            state = (zeros if h is None else h[at], zeros if c is None else c[at])
            bias = None if b is None else b[at].split(hidden_size * gates)
            peep = None if p is None else p[at].split(hidden_size)
            own = list[Any]()
            for row in x.flip(0) if backwards else x:
                state = step(row, w[at], r[at], bias, peep, *state, **how)
                own.append(state[0])
            found.append(torch.stack(own[::-1] if backwards else own))
            last.append(state)
        whole, *ends = torch.stack(found, 1), *(torch.stack(each) for each in zip(*last, strict=True))
        return [whole.permute(2, 0, 1, 3), *(each.transpose(0, 1) for each in ends)] if layout else [whole, *ends]

    return operator


def _gates(x: Any, w: Any, bias: Any) -> Any:
    return x @ w.T if bias is None else x @ w.T + bias


def _rnn(x: Any, w: Any, r: Any, bias: Any, peep: Any, h: Any, c: Any) -> Any:
    one, other = bias or (None, None)
    return torch.tanh(_gates(x, w, one) + _gates(h, r, other)), c


def _gru(x: Any, w: Any, r: Any, bias: Any, peep: Any, h: Any, c: Any, *, linear_before_reset: int = 0) -> Any:
    size, (one, other) = h.shape[-1], bias or (None, None)
    given, kept = _gates(x, w, one), _gates(h, r, other)
    z, reset = torch.sigmoid(given[:, : 2 * size] + kept[:, : 2 * size]).split(size, 1)
    last = reset * kept[:, 2 * size :]
    if not linear_before_reset:
        last = _gates(reset * h, r[2 * size :], None if other is None else other[2 * size :])
    new = torch.tanh(given[:, 2 * size :] + last)
    return (1 - z) * new + z * h, c


def _lstm(x: Any, w: Any, r: Any, bias: Any, peep: Any, h: Any, c: Any) -> Any:
    one, other = bias or (None, None)
    i, o, f, g = (_gates(x, w, one) + _gates(h, r, other)).split(h.shape[-1], 1)
    of_i, of_o, of_f = peep or (0, 0, 0)
    c = torch.sigmoid(f + of_f * c) * c + torch.sigmoid(i + of_i * c) * torch.tanh(g)
    return torch.sigmoid(o + of_o * c) * torch.tanh(c), c


_NAMES = (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Log", "Reciprocal", "Sigmoid",
    "Sin", "Sinh", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
FORMULAS: Mapping[str, Function] = {
    **{each: getattr(torch, each.lower()) for each in _NAMES},
    "Add": torch.add,
    "AffineGrid": lambda x, size, *, align_corners=0: functional.affine_grid(x, integers(size), bool(align_corners)),
    "Attention": _attention,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "CausalConvWithState": _causal_conv,
    "Celu": lambda x, *, alpha=1.0: torch.where(x > 0, x, alpha * torch.expm1(x / alpha)),
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "CumProd": _cumulated("cumprod", 1.0),
    "CumSum": _cumulated("cumsum", 0.0),
    "DFT": _dft,
    "Det": torch.linalg.det,
    "Div": lambda x, y: x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc"),
    "Einsum": lambda *x, equation: torch.einsum(equation, *x),
    "Elu": lambda x, *, alpha=1.0: torch.where(x > 0, x, alpha * torch.expm1(x)),
    "FlexAttention": lambda q, k, v, *, scale=None: _attention(q, k, v, scale=scale)[0],
    "GRU": _recurrent(3, _gru),
    "Gelu": lambda x, *, approximate="none": functional.gelu(x, approximate=approximate),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean([*range(2, x.ndim)], keepdim=True),
    "GridSample": _grid_sample,
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda x, *, alpha=0.2, beta=0.5: torch.clamp(alpha * x + beta, 0, 1),
    "HardSwish": lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1),
    "InstanceNormalization": _group_norm,
    "LRN": lambda x, *, size, alpha=1e-4, beta=0.75, bias=1.0: functional.local_response_norm(
        x, size, alpha, beta, bias
    ),
    "LSTM": _recurrent(4, _lstm),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda x, *, alpha=0.01: torch.where(x < 0, alpha * x, x),
    "LinearAttention": _linear_attention,
    "LogSoftmax": lambda x, *, axis=-1: torch.log_softmax(x, axis),
    "LpNormalization": _lp_normalization,
    "LpPool": _lp_pool,
    "MatMul": torch.matmul,
    "Mean": lambda *x: reduce(torch.add, x) / len(x),
    "MeanVarianceNormalization": lambda x, *, axes=(0, 2, 3): _normalized(x, axes, 0.0)[0],
    "Mish": lambda x: x * torch.tanh(functional.softplus(x)),
    "Mul": torch.mul,
    "NegativeLogLikelihoodLoss": _loss,
    "PRelu": lambda x, slope: torch.where(x < 0, slope * x, x),
    "Pow": torch.pow,
    "RMSNormalization": _rms_norm,
    "RNN": _recurrent(1, _rnn),
    "ReduceL1": _reduced(lambda x, axes, keep: x.abs().sum(axes, keep)),
    "ReduceL2": _reduced(lambda x, axes, keep: x.square().sum(axes, keep).sqrt()),
    "ReduceLogSum": _reduced(lambda x, axes, keep: x.sum(axes, keep).log()),
    "ReduceLogSumExp": _reduced(torch.logsumexp),
    "ReduceMean": _reduced(torch.mean),
    "ReduceProd": _reduced(_prod),
    "ReduceSum": _reduced(torch.sum),
    "ReduceSumSquare": _reduced(lambda x, axes, keep: x.square().sum(axes, keep)),
    "Resize": resize,
    "RotaryEmbedding": _rotary,
    "STFT": _stft,
    "Selu": _selu,
    "Shrink": _shrink,
    "Softmax": lambda x, *, axis=-1: torch.softmax(x, axis),
    "SoftmaxCrossEntropyLoss": _softmax_loss,
    "Softplus": functional.softplus,
    "Softsign": lambda x: x / (1 + x.abs()),
    "Sub": torch.sub,
    "Sum": lambda *x: reduce(torch.add, x),
    "SwiGLU": lambda x, y, *, alpha=1.0: _swish(x, alpha=alpha) * y,
    "Swish": _swish,
    "ThresholdedRelu": lambda x, *, alpha=1.0: torch.where(x > alpha, x, torch.zeros_like(x)),
}
"""The operators that calculate."""
TAKES_INTEGERS = frozenset(("Attention", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
"""Those of them whose integers are values; those of others are extents, axes and places, which a reader has to know."""
VALUES: Mapping[str, int] = {"Resize": 1}
"""How many of the first inputs are values, where not all floats are."""
LOOPS = frozenset(("GRU", "LSTM", "LinearAttention", "RNN"))
"""Those that take one step after the other: no formula is read from them."""
