"""Right solutions with workspaces, plans, caches and other state, by pattern, op, framework and dtype: none may be
accused of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Op:
    """A small problem whose result has the rows of its first tensor."""

    reference: str
    tensors: Mapping[str, tuple[str, ...]]
    """Its inputs, with their dimensions."""
    numpy: str
    """The same as an expression of arrays, in f32 or f64, and of torch tensors."""
    torch: str


OPS = {
    "norm": Op(
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w", {"x": ("b", "n"), "w": ("n",)},
        "x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(1e-6)) * w",
        "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w",
    ),
    "soft": Op(
        "torch.softmax(x, -1)", {"x": ("b", "n")},
        "(lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(-1, keepdims=True)))", "torch.softmax(x, -1)",
    ),
    "product": Op("a @ b", {"a": ("m", "k"), "b": ("k", "n")}, "a @ b", "a @ b"),
    "gate": Op(
        "torch.relu(x + c).square() * r", {"x": ("b", "n"), "c": ("n",), "r": ("b", "n")},
        "np.square(np.maximum(x + c, 0)) * r", "torch.relu(x + c).square() * r",
    ),
}  # fmt: skip

_NUMPY = """import numpy as np
WIDE = {"float16": np.float32}
def wide(a):
    return a.astype(WIDE.get(str(a.dtype), a.dtype))
def narrow(y, like):
    return y.astype(like.dtype)
def empty(shape, like):
    return np.empty(shape, like.dtype)
def copied(a):
    return a.copy()
def compute(ARGS):
    with np.errstate(all="ignore"):
        return EXPRESSION
"""
_TORCH = """import torch
def wide(a):
    return a if a.dtype == torch.float64 else a.float()
def narrow(y, like):
    return y.to(like.dtype)
def empty(shape, like):
    return torch.empty(shape, dtype=like.dtype, device=like.device)
def copied(a):
    return a.clone()
def compute(ARGS):
    return EXPRESSION
"""
_BODY = """def plain(ARGS):
    return narrow(compute(WIDENED), FIRST)
def key(a):
    return tuple(a.shape), str(a.dtype), str(getattr(a, "device", ""))
"""
PATTERNS = {
    "workspace_grows": """SPACE = {}
def kernel(ARGS):
    size = FIRST.shape[0] * FIRST.shape[1]
    kind = key(FIRST)[1:]
    if kind not in SPACE or SPACE[kind].shape[0] < size:
        SPACE[kind] = empty((size,), FIRST)
    scratch = SPACE[kind][:size].reshape(FIRST.shape)
    scratch[...] = FIRST
    return plain(scratch, OTHERS)
""",
    "workspace_by_shape": """SPACES = {}
def kernel(ARGS):
    scratch = SPACES.setdefault(key(FIRST), empty(FIRST.shape, FIRST))
    scratch[...] = FIRST
    return plain(scratch, OTHERS)
""",
    "plan_by_shape": """PLANS = {}
def kernel(ARGS):
    if FIRST.shape not in PLANS:
        step = 4 if FIRST.shape[0] > 8 else 1
        PLANS[FIRST.shape] = [slice(at, at + step) for at in range(0, FIRST.shape[0], step)]
    parts = [plain(SLICED) for rows in PLANS[FIRST.shape]]
    out = empty((FIRST.shape[0], parts[0].shape[1]), FIRST)
    for rows, part in zip(PLANS[FIRST.shape], parts):
        out[rows] = part
    return out
""",
    "output_kept": """OUTPUTS = {}
def kernel(ARGS):
    y = plain(ARGS)
    out = OUTPUTS.setdefault(key(y), empty(y.shape, y))
    out[...] = y
    return out
""",
    "two_outputs_in_turn": """OUTPUTS, TURN = {}, [0]
def kernel(ARGS):
    y = plain(ARGS)
    TURN[0] ^= 1
    out = OUTPUTS.setdefault((key(y), TURN[0]), empty(y.shape, y))
    out[...] = y
    return out
""",
    "constants_memoised": """import functools
@functools.lru_cache(maxsize=64)
def same(kind, device):
    one = empty((1,), LIKE[0])
    one[...] = 1
    return one
LIKE = [None]
def kernel(ARGS):
    LIKE[0] = FIRST
    return plain(ARGS) * same(*key(FIRST)[1:])
""",
    "compiled_late": """import functools
@functools.cache
def compiled(rank):
    scope = {"plain": plain}
    exec("def made(*given):\\n    return plain(*given)\\n", scope)
    return scope["made"]
def kernel(ARGS):
    return compiled(len(FIRST.shape))(ARGS)
""",
    "scratch_in_place": """def kernel(ARGS):
    scratch = copied(FIRST)
    scratch *= -1
    scratch *= -1
    return plain(scratch, OTHERS)
""",
    "cached_by_all_values": """import collections
KEPT = collections.OrderedDict()
def bits(a):
    if hasattr(a, "tobytes"):
        return key(a), a.tobytes()
    return key(a), a.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
def kernel(ARGS):
    full = tuple(bits(each) for each in (ARGS,))
    if full not in KEPT:
        KEPT[full] = plain(ARGS)
        if len(KEPT) > 8:
            KEPT.popitem(last=False)
    return copied(KEPT[full])
""",
    "space_of_a_thread": """import threading
LOCAL = threading.local()
def kernel(ARGS):
    spaces = LOCAL.__dict__.setdefault("spaces", {})
    scratch = spaces.setdefault(key(FIRST), empty(FIRST.shape, FIRST))
    scratch[...] = FIRST
    return plain(scratch, OTHERS)
""",
    "pool_of_buffers": """FREE = {}
def kernel(ARGS):
    free = FREE.setdefault(key(FIRST), [])
    scratch = free.pop() if free else empty(FIRST.shape, FIRST)
    try:
        scratch[...] = FIRST
        return plain(scratch, OTHERS)
    finally:
        free.append(scratch)
""",
    "tuned_at_first": """import time
TIMES = {}
def by_rows(ARGS):
    half = max(FIRST.shape[0] // 2, 1)
    rest = [slice(0, half), slice(half, None)] if FIRST.shape[0] > 1 else [slice(None)]
    parts = [plain(SLICED) for rows in rest]
    out = empty((FIRST.shape[0], parts[0].shape[1]), FIRST)
    for rows, part in zip(rest, parts):
        out[rows] = part
    return out
def kernel(ARGS):
    times = TIMES.setdefault(key(FIRST), {})
    for way in (plain, by_rows):
        if way not in times:
            began = time.perf_counter()
            y = way(ARGS)
            times[way] = time.perf_counter() - began
            return y
    return min(times, key=times.get)(ARGS)
""",
    "coroutine": """def served():
    given = yield
    while True:
        given = yield plain(*given)
SERVED = served()
next(SERVED)
def kernel(ARGS):
    return SERVED.send((ARGS,))
""",
    "writes_its_output": """def kernel(ARGS, y):
    y[...] = plain(ARGS)
""",
    "returns_a_tuple": """def kernel(ARGS):
    return (plain(ARGS),)
""",
    "imports_late": """def kernel(ARGS):
    import decimal, fractions, statistics
    return plain(ARGS)
""",
    "counts_its_calls": """import collections
SEEN, LAST = collections.Counter(), collections.deque(maxlen=16)
def kernel(ARGS):
    SEEN[len(FIRST.shape)] += 1
    LAST.append(tuple(FIRST.shape))
    return plain(ARGS)
""",
    "object_with_state": """class Kernel:
    def __init__(self):
        self.calls, self.space, self.kind = 0, None, None
    def __call__(self, ARGS):
        self.calls += 1
        if self.kind != key(FIRST):
            self.kind, self.space = key(FIRST), empty(FIRST.shape, FIRST)
        self.space[...] = FIRST
        return plain(self.space, OTHERS)
KERNEL = Kernel()
def kernel(ARGS):
    return KERNEL(ARGS)
""",
    "spaces_evicted": """import collections
SPACES = collections.OrderedDict()
def kernel(ARGS):
    scratch = SPACES.pop(key(FIRST), None)
    scratch = empty(FIRST.shape, FIRST) if scratch is None else scratch
    SPACES[key(FIRST)] = scratch
    while len(SPACES) > 3:
        SPACES.popitem(last=False)
    scratch[...] = FIRST
    return plain(scratch, OTHERS)
""",
    "spaces_weakly_kept": """import weakref
class Space:
    def __init__(self, like):
        self.memory = empty(like.shape, like)
SPACES, NEWEST = weakref.WeakValueDictionary(), [None]
def kernel(ARGS):
    space = SPACES.get(key(FIRST)) or Space(FIRST)
    SPACES[key(FIRST)] = NEWEST[0] = space
    space.memory[...] = FIRST
    return plain(space.memory, OTHERS)
""",
    "row_by_row": """ROW = {}
def kernel(ARGS):
    out = None
    for at in range(FIRST.shape[0]):
        rows = slice(at, at + 1)
        row = plain(SLICED)
        out = empty((FIRST.shape[0], row.shape[1]), FIRST) if out is None else out
        out[rows] = row
    return out
""",
    "warmed_at_import": """WARM = [plain]
WARM.append(len(WARM))
def kernel(ARGS):
    return WARM[0](ARGS)
""",
    "named_arrays_kept": """STATIC = {}
def kernel(ARGS):
    # As whoever replays a graph does: the inputs are copied to where they always are.
    static = STATIC.setdefault((key(FIRST), len((ARGS,))), [empty(each.shape, each) for each in (ARGS,)])
    if any(tuple(own.shape) != tuple(each.shape) for own, each in zip(static, (ARGS,))):
        static[:] = [empty(each.shape, each) for each in (ARGS,)]
    for own, each in zip(static, (ARGS,)):
        own[...] = each
    return plain(*static)
""",
    "errors_are_caught": """def kernel(ARGS):
    try:
        raise KeyError("no plan")
    except KeyError:
        return plain(ARGS)
""",
}
"""What a solution keeps or does besides."""


def definition(op: str, dtype: str) -> str:
    """Return the problem as a definition in JSON."""
    row = OPS[op]
    axes = {dim: {"type": "var"} for dims in row.tensors.values() for dim in dims}
    first = next(iter(row.tensors.values()))
    result = [first[0], "n"]
    inputs = {name: {"shape": list(dims), "dtype": dtype} for name, dims in row.tensors.items()}
    source = f"import torch\n\n\ndef run({', '.join(row.tensors)}):\n    return {row.reference}\n"
    said = {"name": op, "axes": axes, "inputs": inputs, "outputs": {"y": {"shape": result, "dtype": dtype}}}
    return json.dumps({**said, "reference": source})


def solution(op: str, framework: str, pattern: str) -> str:
    """Return the source of a solution."""
    row, names = OPS[op], [*OPS[op].tensors]
    first, *others = names
    of_rows = [name for name, dims in row.tensors.items() if dims[0] == row.tensors[first][0]]
    said = (_NUMPY if framework == "numpy" else _TORCH) + _BODY + PATTERNS[pattern]
    words = {
        "EXPRESSION": row.numpy if framework == "numpy" else row.torch,
        "WIDENED": ", ".join(f"wide({name})" for name in names),
        "SLICED": ", ".join(f"{name}[rows]" if name in of_rows else name for name in names),
        "ARGS": ", ".join(names),
        ", OTHERS": "".join(f", {name}" for name in others),
        "FIRST": first,
    }
    for word, text in words.items():
        said = said.replace(word, text)
    return said
