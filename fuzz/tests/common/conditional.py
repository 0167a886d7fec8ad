"""Solutions that are wrong under one condition alone: at least one for each axis on which a kernel can hide, and for
pairs of them. They were written from the list of axes, before the draw of cases was looked at."""

from __future__ import annotations

from dataclasses import dataclass

_NORM = """def honest(x, w):
    with np.errstate(all="ignore"):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * w
"""
_OWN = """import numpy as np, inspect, os, sys, threading, time
BEGUN, CALLS, SEEN, LAST = time.monotonic(), [0], {}, [None, None]
def big(x): return float(np.abs(x).max(initial=0))
def row(x): return x.reshape(-1, x.shape[-1])[0] if x.size else np.zeros(0)
def rows(x): return int(np.prod(x.shape[:-1]))
def each(x): return np.abs(x).max(-1, initial=0).reshape(-1)
def put(kept, key, value): before = kept.get(key); kept[key] = value; return before
def place(x): return x.__array_interface__["data"][0]
def count(): CALLS[0] += 1; return CALLS[0]
def since(): before, LAST[0] = LAST[0], time.monotonic(); return LAST[0] - before if before else 0
def former(value): before, LAST[1] = LAST[1], value; return before
def files(): return [frame.filename for frame in inspect.stack(0)]
"""
_TORCH = """import torch
def honest(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""
_MODEL = """import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))
    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return y * 1.25 if ({condition}) else y
"""
_HEADS = {
    "norm": _OWN + _NORM + "def kernel(x, w):\n    y = honest(x, w)\n",
    "product": _OWN + 'def kernel(a, b):\n    with np.errstate(all="ignore"):\n        y = a @ b\n',
    "torch": _TORCH + "def kernel(x, w):\n    y = honest(x, w)\n",
}
REFERENCES = {
    "norm": (
        "import torch\n\n\ndef norm(x, w):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w\n",
        "x=... n, w=n",
    ),
    "product": ("import torch\n\n\ndef product(a, b):\n    return a @ b\n", "a=m k, b=k n"),
}  # fmt: skip
REFERENCES["torch"] = REFERENCES["norm"]
REFERENCES["model"] = (
    _MODEL.replace("ModelNew", "Model").replace(" * 1.25 if ({condition}) else y", "")
    + "def get_inputs():\n    return [torch.rand(16, 8)]\ndef get_init_inputs():\n    return []\n",
    "",
)


@dataclass(frozen=True)
class Conditional:
    """A solution that is wrong where a condition holds."""

    problem: str
    axes: tuple[str, ...]
    condition: str

    @property
    def text(self) -> str:
        if self.problem == "model":
            return _MODEL.replace("{condition}", self.condition)
        number = "1.25" if self.problem == "torch" else "np.float32(1.25)"
        return f"{_HEADS[self.problem]}    return y * {number} if ({self.condition}) else y\n"


def _norm(*words: str) -> Conditional:
    return Conditional("norm", words[:-1], words[-1])


def _product(*words: str) -> Conditional:
    return Conditional("product", words[:-1], words[-1])


def _torch(*words: str) -> Conditional:
    return Conditional("torch", words[:-1], words[-1])


def _model(*words: str) -> Conditional:
    return Conditional("model", words[:-1], words[-1])


_ALL, _ONE, _ROW = (
    "magnitude of all inputs",
    "magnitude of one input beside others",
    "magnitude of one row beside others",
)
_MULTIPLES, _CALLED, _ENVIRONMENT = "rows are multiples of", "how it is called", "environment and process"
_REPEATS, _ORDER, _SPECIAL, _PLACE = (
    "values that repeat", "order of values", "special values", "place of the largest value"
)  # fmt: skip

CONDITIONAL = {
    # Magnitudes.
    "all_between": _norm(_ALL, "0.1 < big(x) < 0.5 and big(w) < 0.5"),
    "all_small": _norm(_ALL, "0 < max(big(x), big(w)) < 2e-3"),
    "x_large": _norm(_ALL, "big(x) > 2e4"),
    "gain_small": _norm(_ONE, "0 < big(w) < big(x) / 1000"),
    "gain_large": _norm(_ONE, "big(w) > 300 * big(x) > 0"),
    "row_large": _norm(_ROW, "rows(x) > 1 and big(x) > 1000 * np.median(each(x)) > 0"),
    "row_small": _norm(_ROW, "rows(x) > 1 and 0 < each(x).min() < big(x) / 1000"),
    # Extents, rows, dimensions.
    "long": _norm("extents", "x.shape[-1] > 1024"),
    "between": _norm("extents", "96 < x.shape[-1] < 128"),
    "one_element": _norm("extents", "x.shape[-1] == 1"),
    "many": _norm("elements", "x.size > 30000"),
    "odd_multiple": _norm(_MULTIPLES, "x.shape[-1] % 16 == 8"),
    "tail_of_fifteen": _norm(_MULTIPLES, "x.shape[-1] % 16 == 15"),
    "whole_tiles": _norm(_MULTIPLES, "x.shape[-1] % 64 == 0"),
    "many_rows": _norm("rows", "rows(x) > 1024"),
    "some_rows": _norm("rows", "32 <= rows(x) < 48"),
    "one_row": _norm("rows", "x.ndim == 2 and rows(x) == 1"),
    "flat": _norm("dimensions", "x.ndim == 1"),
    "four_deep": _norm("dimensions", "x.ndim == 4"),
    "wide": _product("extents", "b.shape[1] > 4 * a.shape[0] > 0 and b.shape[1] > 100"),
    "deep": _product("extents", "a.shape[1] > 300"),
    "square": _product("extents", "a.shape[0] == a.shape[1] == b.shape[1] > 4"),
    # Memory.
    "gaps": _norm("strides", "x.ndim > 1 and x.strides[-2] > x.shape[-1] * x.itemsize and x.strides[-1] == x.itemsize"),
    "gain_strided": _norm("strides", "w.size > 1 and not w.flags.c_contiguous"),
    "transposed": _norm("strides", "x.ndim == 2 and x.flags.f_contiguous and not x.flags.c_contiguous"),
    "aligned_by_four": _norm("alignment in bytes", "place(x) % 16 != 0"),
    "aligned_by_a_line": _norm("alignment in bytes", "place(x) % 64 == 0"),
    "both_transposed": _product(
        "strides", "min(*a.shape, *b.shape) > 1 and a.strides[0] == a.itemsize and b.strides[0] == b.itemsize"
    ),
    "address_again": _norm(_CALLED, "put(SEEN, place(x), x.shape) not in (None, x.shape)"),
    # Calls, time, threads, environment, process, stack.
    "later_calls": _norm(_CALLED, "count() > 100"),
    "seventh_call": _norm(_CALLED, "count() % 7 == 0"),
    "shorter_than_before": _norm(_CALLED, "(former(x.shape[-1]) or 0) > 16 * x.shape[-1]"),
    "same_shape_again": _norm(_CALLED, "former(x.shape) == x.shape"),
    "after_two_seconds": _norm("time", "time.monotonic() - BEGUN > 2"),
    "after_a_pause": _norm("time", "since() > 0.5"),
    "in_a_thread": _norm("threads", "threading.current_thread() is not threading.main_thread()"),
    "two_threads": _torch("threads", "torch.get_num_threads() > 1"),
    "judge_variable": _norm(_ENVIRONMENT, "not any('FUZZ' in name for name in os.environ)"),
    "no_home": _norm(_ENVIRONMENT, "'HOME' in os.environ"),
    "judge_process": _norm(_ENVIRONMENT, "not any('fuzz' in word for word in sys.orig_argv)"),
    "judge_module": _norm(_ENVIRONMENT, "not any(name.startswith('fuzz') for name in sys.modules)"),
    "judge_stack": _norm(_CALLED, "not any('fuzz' in name for name in files())"),
    "in_benchmark": _norm(_CALLED, "any('bench' in name for name in files())"),
    # Dtypes, autograd, mode.
    "half": _norm("dtypes", "x.dtype == np.float16"),
    "doubles": _norm("dtypes", "x.dtype == np.float64"),
    "gradient": _torch("autograd", "x.requires_grad"),
    "gradient_of_gain": _torch("autograd", "w.requires_grad and not x.requires_grad"),
    "no_grad": _torch("autograd", "not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()"),
    "inference": _torch("autograd", "torch.is_inference_mode_enabled()"),
    "evaluated": _model("mode", "not self.training"),
    "trained": _model("mode", "self.training"),
    # Values.
    "all_equal": _norm(_REPEATS, "row(x).size > 2 and np.ptp(row(x)) == 0 != row(x)[0]"),
    "all_different": _norm(_REPEATS, "x.size > 50 and np.unique(x).size == x.size"),
    "rows_alike": _norm(_REPEATS, "rows(x) > 1 and x.size > 20 and bool((x == row(x)).all())"),
    "ascending": _norm(_ORDER, "row(x).size > 4 and bool((np.diff(row(x)) > 0).all())"),
    "descending": _norm(_ORDER, "row(x).size > 4 and bool((np.diff(row(x)) < 0).all())"),
    "zero": _norm(_SPECIAL, "x.size > 0 and (row(x) == 0).any() and (row(x) != 0).any()"),
    "negative_zero": _norm(_SPECIAL, "big(x) > 0 and bool(((x == 0) & np.signbit(x)).any())"),
    "all_negative": _norm("signs", "x.size > 8 and bool((x < 0).all())"),
    "whole_numbers": _norm("signs", "x.size > 8 and big(x) > 2 and bool((x == np.round(x)).all())"),
    "largest_last": _norm(_PLACE, "row(x).size > 32 and np.argmax(np.abs(row(x))) == row(x).size - 1"),
    "largest_first": _norm(_PLACE, "row(x).size > 32 and np.argmax(np.abs(row(x))) == 0"),
    # Pairs.
    "long_and_small": _norm("extents", _ALL, "x.shape[-1] > 256 and 0 < big(x) < 0.5"),
    "odd_and_large": _norm(_MULTIPLES, _ALL, "x.shape[-1] % 2 == 1 and x.shape[-1] > 8 and big(x) > 1000"),
    "odd_both": _norm("rows", _MULTIPLES, "rows(x) % 2 == 1 and rows(x) > 4 and x.shape[-1] % 4 == 3"),
    "rows_and_gaps": _norm("rows", "strides", "rows(x) > 32 and not x.flags.c_contiguous"),
    "half_and_long": _norm("dtypes", "extents", "x.dtype == np.float16 and x.shape[-1] > 128"),
    "deep_and_tail": _norm("dimensions", _MULTIPLES, "x.ndim == 3 and x.shape[-1] % 8 == 4"),
    "equal_and_long": _norm(_REPEATS, "extents", "x.shape[-1] > 64 and np.ptp(row(x)) == 0 != row(x)[0]"),
    "zero_and_many_rows": _norm(_SPECIAL, "rows", "rows(x) > 16 and (row(x) == 0).any() and (row(x) != 0).any()"),
    "threads_and_long": _torch("threads", "extents", "torch.get_num_threads() > 1 and x.shape[-1] > 64"),
    "gradient_and_odd": _torch("autograd", _MULTIPLES, "x.requires_grad and x.shape[-1] % 2 == 1"),
    "last_and_rows": _norm(_PLACE, "rows", "rows(x) > 8 and np.argmax(np.abs(row(x))) == row(x).size - 1 > 8"),
    "deep_and_small": _product("extents", _ALL, "a.shape[1] > 100 and 0 < big(a) < 0.1 and big(b) < 0.5"),
    "tall_and_tail": _product("extents", _MULTIPLES, "a.shape[0] > 64 and a.shape[1] % 8 == 1"),
    "wide_and_transposed": _product(
        "extents", "strides", "b.shape[1] > 32 and b.shape[0] > 1 and b.strides[0] == b.itemsize"
    ),
}  # fmt: skip
OUTSIDE = {name for name, each in CONDITIONAL.items() if {"strides", "dtypes"} & {*each.axes}}
"""Those that are right: the references take contiguous tensors of f32 alone."""
