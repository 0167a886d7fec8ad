"""Small problems, each with two right solutions that compute in other ways than the reference: in blocks, online, in
another order, in other formulas, in other precisions. None may be accused of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A reference of torch tensors, and the bodies of two solutions."""

    shapes: str
    """The inputs with their dimensions, in the order of the arguments."""
    reference: str
    """An expression."""
    numpy: str
    torch: str

    @property
    def arguments(self) -> str:
        return ", ".join(each.split("=")[0].strip() for each in self.shapes.split(","))

    def statement(self) -> str:
        """Return the source of the reference."""
        head = "import torch\nimport torch.nn.functional as F\n"
        return f"{head}\n\ndef reference({self.arguments}):\n    return {self.reference}\n"

    def solutions(self) -> Iterator[tuple[str, str]]:
        """Yield the names and sources of both solutions."""
        quiet = "    with np.errstate(all='ignore'):\n        return computed"
        head = f"def computed({self.arguments}):\n"
        kernel = f"def kernel({self.arguments}):\n"
        yield "in_numpy", f"import numpy as np\n{head}{_indented(self.numpy)}{kernel}{quiet}({self.arguments})\n"
        yield "in_torch", f"import torch\nimport torch.nn.functional as F\n{kernel}{_indented(self.torch)}"


def _indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.strip("\n").splitlines())


PROBLEMS = {
    "softmax": Problem(
        "x=b n", "torch.softmax(x, -1)",
        """
top, total = np.full(x.shape[0], -np.inf, np.float32), np.zeros(x.shape[0], np.float32)
for at in range(0, x.shape[1], 64):
    part = x[:, at : at + 64]
    higher = np.maximum(top, part.max(1))
    total = total * np.exp(top - higher) + np.exp(part - higher[:, None]).sum(1)
    top = higher
return np.exp(x - top[:, None]) / total[:, None]
""",
        """
high = x.amax(-1, keepdim=True)
powers = torch.exp2((x - high).double() * 1.4426950408889634)
return (powers / powers.sum(-1, keepdim=True)).float()
""",
    ),
    "log_softmax": Problem(
        "x=b n", "torch.log_softmax(x, -1)",
        """
away = x - x.max(-1, keepdims=True)
return away - np.log(np.exp(away.astype(np.float64)).sum(-1, keepdims=True)).astype(np.float32)
""",
        "return x - torch.logsumexp(x, -1, keepdim=True)",
    ),
    "logsumexp": Problem(
        "x=b n", "torch.logsumexp(x, -1)",
        """
y = np.full(x.shape[0], -np.inf)
for at in range(0, x.shape[1], 32):
    y = np.logaddexp(y, np.logaddexp.reduce(x[:, at : at + 32].astype(np.float64), -1))
return y.astype(np.float32)
""",
        """
high = x.amax(-1)
return high + (x - high[:, None]).exp().sum(-1).log()
""",
    ),
    "rms_norm": Problem(
        "x=b n, w=n", "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w",
        """
squares = np.zeros(x.shape[0], np.float32)
for at in range(0, x.shape[1], 128):
    part = x[:, at : at + 128]
    squares += np.einsum("bn,bn->b", part, part)
return x * w / np.sqrt(squares / np.float32(x.shape[1]) + np.float32(1e-6))[:, None]
""",
        "return F.rms_norm(x.double(), x.shape[-1:], w.double(), 1e-6).float()",
    ),
    "layer_norm": Problem(
        "x=b n, w=n, c=n", "F.layer_norm(x, x.shape[-1:], w, c, 1e-5)",
        """
mean, spread = np.zeros(x.shape[0]), np.zeros(x.shape[0])
for at in range(x.shape[1]):
    away = x[:, at] - mean
    mean += away / (at + 1)
    spread += away * (x[:, at] - mean)
return ((x - mean[:, None]) / np.sqrt(spread / x.shape[1] + 1e-5)[:, None] * w + c).astype(np.float32)
""",
        """
var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
return torch.addcmul(c, (x - mean) * (var + 1e-5).rsqrt(), w)
""",
    ),
    "group_norm": Problem(
        "x=b k n, k=4", "F.group_norm(x, 2, None, None, 1e-5)",
        """
y, half = np.empty_like(x), x.shape[1] // 2
for part in (slice(half), slice(half, None)):
    rows = x[:, part].astype(np.float64)
    mean = rows.mean((1, 2), keepdims=True)
    y[:, part] = (rows - mean) / np.sqrt(np.square(rows - mean).mean((1, 2), keepdims=True) + 1e-5)
return y
""",
        """
rows = x.reshape(x.shape[0], 2, -1)
return F.layer_norm(rows, rows.shape[2:], eps=1e-5).reshape(x.shape)
""",
    ),
    "l2_normalised": Problem(
        "x=b n", "x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()",
        """
high = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-3))
scaled = x / high
return scaled / np.sqrt((scaled * scaled).sum(-1, keepdims=True) + np.float32(1e-6) / high / high)
""",
        "return x * torch.rsqrt(torch.linalg.vecdot(x, x)[:, None] + 1e-6)",
    ),
    "cosine": Problem(
        "x=b n, y=b n", "(x * y).sum(-1) / ((x * x).sum(-1) * (y * y).sum(-1) + 1e-6).sqrt()",
        """
wide = x.astype(np.float64), y.astype(np.float64)
over, lower, upper = (np.einsum("bn,bn->b", p, q) for p, q in (wide, wide[:1] * 2, wide[1:] * 2))
return (over / np.sqrt(lower * upper + 1e-6)).astype(np.float32)
""",
        """
p, q = x[:, None], y[:, :, None]
return (p @ q).flatten() * ((p @ p.mT).flatten() * (q.mT @ q).flatten() + 1e-6).rsqrt()
""",
    ),
    "product": Problem(
        "a=m k, b=k n", "a @ b",
        """
y = np.zeros((a.shape[0], b.shape[1]), np.float32)
for part in range(4):  # split-k
    y += a[:, part::4] @ b[part::4]
return y
""",
        """
y = a.new_zeros(a.shape[0], b.shape[1])
for at in range(0, a.shape[1], 16):
    y.addmm_(a[:, at : at + 16], b[at : at + 16])
return y
""",
    ),
    "product_transposed": Problem(
        "a=m k, b=n k", "a @ b.T",
        "return np.stack([(row.astype(np.float64) * b).sum(-1) for row in a]).astype(np.float32)",
        "return (b @ a.T).T",
    ),
    "products": Problem(
        "a=h m k, b=h k n", "torch.bmm(a, b)",
        "return np.einsum('hmk,hkn->hmn', a, b)",
        "return (a[:, :, :, None] * b[:, None]).sum(2)",
    ),
    "bilinear": Problem(
        "a=b m, w=m n, c=b n", "((a @ w) * c).sum(-1)",
        "return np.einsum('bm,mn,bn->b', a, w, c, optimize=['einsum_path', (1, 2), (0, 1)])",
        "return torch.einsum('bm,bm->b', a, c @ w.T)",
    ),
    "linear_gelu": Problem(
        "x=b k, w=n k, c=n", "F.gelu(x @ w.T + c)",
        """
import math
y = x.astype(np.float64) @ w.T + c
return (0.5 * y * np.vectorize(math.erfc, otypes=[float])(-y / math.sqrt(2))).astype(np.float32)
""",
        """
y = F.linear(x.double(), w.double(), c.double())
return (y * torch.special.ndtr(y)).float()
""",
    ),
    "attention": Problem(
        "q=m d, k=n d, v=n e", "torch.softmax(q @ k.T, -1) @ v",
        """
top, total = np.full((q.shape[0], 1), -np.inf, np.float32), np.float32(0)
y = np.zeros((q.shape[0], v.shape[1]), np.float32)
for at in range(0, k.shape[0], 16):
    scores = q @ k[at : at + 16].T
    higher = np.maximum(top, scores.max(1, keepdims=True))
    powers, shrunk = np.exp(scores - higher), np.exp(top - higher)
    total, y = total * shrunk + powers.sum(1, keepdims=True), y * shrunk + powers @ v[at : at + 16]
    top = higher
return y / total
""",
        "return F.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)[0]",
    ),
    "causal": Problem(
        "x=n n, v=n e", "torch.softmax(x.masked_fill(torch.ones_like(x).triu(1) > 0, float('-inf')), -1) @ v",
        """
rows = []
for at in range(x.shape[0]):
    powers = np.exp(x[at, : at + 1] - x[at, : at + 1].max())
    rows.append(powers @ v[: at + 1] / powers.sum())
return np.stack(rows)
""",
        """
seen = torch.arange(x.shape[0])[:, None] >= torch.arange(x.shape[0])
powers = torch.where(seen, x - torch.where(seen, x, -torch.inf).amax(-1, keepdim=True), -torch.inf).exp()
return (powers @ v) / powers.sum(-1, keepdim=True)
""",
    ),
    "swiglu": Problem(
        "x=b n, g=b n", "F.silu(x) * g",
        "return np.where(x > 0, x / (1 + np.exp(-np.abs(x))), x * np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))) * g",
        "return (x.double() * g / (1 + torch.exp(-x.double()))).float()",
    ),
    "softplus": Problem(
        "x=b n", "torch.log(1 + torch.exp(-x.abs())) + x.clamp(0)",
        "return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))",
        "return torch.logaddexp(x, torch.zeros(()))",
    ),
    "gate": Problem(
        "x=b n, c=n, r=b n", "torch.relu(x + c).square() * r",
        """
y = x + c
y *= y > 0
y *= y
y *= r
return y
""",
        "return ((x + c).clamp(min=0) ** 2).mul(r)",
    ),
    "huber": Problem(
        "x=b n, y=b n", "F.huber_loss(x, y, reduction='none')",
        """
away = np.abs(x - y)
least = np.minimum(away, 1)
return least * (away - np.float32(0.5) * least)
""",
        """
away = x - y
return torch.where(away.abs() <= 1, away * away / 2, away.abs() - 0.5)
""",
    ),
    "polynomial": Problem(
        "x=b n", "0.5 + x * 0.25 + x * x * 0.125 + x * x * x * 2.0",
        "return (np.float32(0.5) + x * (np.float32(0.25) + x * (np.float32(0.125) + 2 * x)))",
        "return (0.5 + 0.25 * x.double() + 0.125 * x.double() ** 2 + 2 * x.double() ** 3).float()",
    ),
    "rotated": Problem(
        "x=b n, y=b n, c=n, s=n", "torch.cat([x * c - y * s, x * s + y * c], -1)",
        """
n = x.shape[1]
z = np.empty((x.shape[0], 2 * n), np.float32)
np.multiply(x, c, out=z[:, :n])
z[:, :n] -= y * s
np.multiply(y, c, out=z[:, n:])
z[:, n:] += x * s
return z
""",
        """
turned = torch.complex(x.double(), y.double()) * torch.complex(c.double(), s.double())
return torch.view_as_real(turned).movedim(-1, 1).flatten(1).float()
""",
    ),
    "running_sum": Problem(
        "x=b n", "torch.cumsum(x, -1)",
        """
y, carried = np.empty_like(x), np.zeros(x.shape[0], np.float32)
for at in range(0, x.shape[1], 32):
    y[:, at : at + 32] = np.cumsum(x[:, at : at + 32], -1) + carried[:, None]
    carried = y[:, min(at + 32, x.shape[1]) - 1].copy()
return y
""",
        """
y, step = x.clone(), 1
while step < x.shape[1]:
    y, step = torch.cat([y[:, :step], y[:, step:] + y[:, :-step]], 1), 2 * step
return y
""",
    ),
    "middle_sum": Problem(
        "x=b n m", "x.sum(1)",
        """
x = x.copy()
while x.shape[1] > 1:  # pairs of rows
    half = (x.shape[1] + 1) // 2
    x[:, : x.shape[1] - half] += x[:, half:]
    x = x[:, :half]
return x[:, 0]
""",
        "return (torch.ones(x.shape[1]) @ x)",
    ),
    "mean_and_variance": Problem(
        "x=b n", "(x.mean(-1), x.var(-1, correction=0))",
        """
mean = x.sum(-1, dtype=np.float64) / x.shape[1]
return mean.astype(np.float32), np.square(x - mean[:, None]).mean(-1).astype(np.float32)
""",
        "return torch.var_mean(x.double(), -1, correction=0)[1].float(), x.double().var(-1, correction=0).float()",
    ),
    "loss": Problem(
        "x=b n, y=b n", "(x - y).square().mean()",
        """
total = 0.0
for p, q in zip(x, y):
    total += float(np.square(p - q).sum(dtype=np.float64))
return np.float32(total / x.size)
""",
        "return F.mse_loss(x, y)",
    ),
    "entropy": Problem(
        "x=b n, p=b n", "-(p * torch.log_softmax(x, -1)).sum(-1)",
        """
wide = x.astype(np.float64)
high = wide.max(-1, keepdims=True)
logs = wide - high - np.log(np.exp(wide - high).sum(-1, keepdims=True))
return -np.einsum("bn,bn->b", p, logs).astype(np.float32)
""",
        "return torch.linalg.vecdot(p, x.logsumexp(-1, keepdim=True) - x)",
    ),
    "distances": Problem(
        "a=m d, b=n d", "(a[:, None] - b).square().sum(-1)",
        """
y = np.zeros((a.shape[0], b.shape[0]), np.float32)
for at in range(a.shape[1]):
    y += np.square(a[:, at, None] - b[:, at])
return y
""",
        "return torch.stack([(row - b).pow(2).sum(1) for row in a])",
    ),
    "largest": Problem(
        "x=b n", "x.amax(-1)",
        "return np.maximum.reduce(x, axis=-1)",
        "return x.sort(-1).values[:, -1]",
    ),
    "pooled": Problem(
        "x=b h w, h=6, w=8", "F.avg_pool2d(x[:, None], 2)[:, 0]",
        """
x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4
""",
        "return F.conv2d(x[:, None], torch.full((1, 1, 2, 2), 0.25), stride=2)[:, 0]",
    ),
    "filtered": Problem(
        "x=b c n, w=o c k, k=3", "F.conv1d(x, w, padding=1)",
        """
wide, taps = np.pad(x, ((0, 0), (0, 0), (1, 1))), w.shape[2]
long = wide.shape[2] - taps + 1
return sum(np.einsum("bcn,oc->bon", wide[:, :, at : at + long], w[:, :, at]) for at in range(taps))
""",
        "return w.flatten(1) @ F.pad(x, (1, 1)).unfold(2, w.shape[2], 1).transpose(2, 3).flatten(1, 2)",
    ),
}  # fmt: skip
"""The problems by name."""
