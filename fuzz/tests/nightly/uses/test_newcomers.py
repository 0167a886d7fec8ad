"""Right kernels pass with nothing declared: of 50 references of somebody who knew the pages alone."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

import fuzz
from fuzz.tests.conftest import Cli

_HERE = Path(__file__).parents[2] / "common" / "newcomers"
_REFERENCES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "pointwise": {
        "swish": ("x=... n, b=n", "swish_numpy triton"),
        "mish": ("x=... n", "mish_rational mish_torch"),
        "hardswish": ("x=... n", "hardswish_torch c"),
        "geglu": ("x=... n, g=... n", "geglu_sigmoid triton"),
        "gemma_norm": ("x=... n, w=n", "gemma_norm_numpy triton"),
        "layer_norm": ("x=... n, w=n, b=n", "layer_norm_numpy c"),
        "group_norm": ("x=b 2g t, w=2g, b=2g", "group_norm_views group_norm_numpy"),
        "unit_rows": ("x=... n", "unit_rows_numpy c"),
        "batch_norm": ("x=m n, mean=n, var=n, w=n, b=n", "batch_norm_numpy c"),
        "adamw": ("p=n, g=n, m=n, v=n", "adamw_torch c"),
        "nesterov": ("p=n, g=n, buf=n", "nesterov_numpy triton"),
        "lion": ("p=n, g=n, m=n", "lion_numpy lion_lerp"),
        "quantise": ("x=... n", "quantise_numpy triton"),
        "dequantise": ("q=b 32g, scale=b g", "dequantise_numpy"),
        "clip_norm": ("g=b n", "clip_norm_numpy triton"),
        "timestep": ("t=b", "timestep_numpy timestep_torch"),
    },
    "losses": {
        "token_loss": ("logits=b n, target=b", "token_loss_numpy triton"),
        "smoothed": ("logits=b n, target=b", "smoothed_numpy smoothed_torch"),
        "bce": ("x=b n, t=b n", "bce_numpy c"),
        "kl": ("p=... n, q=... n", "kl_numpy kl_torch"),
        "huber": ("x=b n, t=b n", "huber_torch c"),
        "focal": ("x=... n, t=... n", "focal_numpy triton"),
        "triplet": ("a=b d, p=b d, n=b d", "triplet_numpy triton"),
        "entropy": ("x=... n", "entropy_numpy triton"),
        "columns": ("x=b n", "columns_torch c-named"),
        "lse": ("x=... n", "lse_numpy c"),
        "mean_pool": ("h=b t d, mask=b t", "mean_pool_numpy triton"),
        "gates": ("logits=t e", "gates_numpy gates_torch"),
        "experts": ("x=t d, g=t e, w=e d f", "experts_numpy"),
        "distances": ("a=n d, b=m d", "distances_numpy triton"),
        "cosines": ("a=n d, b=m d", "cosines_numpy"),
    },
    "sequences": {
        "causal_attention": (
            "q=h n d, k=h n d, v=h n e", "causal_attention_torch causal_attention_rows triton"
        ),
        "padded_attention": (
            "q=b i d, k=b j d, v=b j e, keep=b j", "padded_attention_numpy padded_attention_torch"
        ),
        "window_attention": ("q=n d, k=n d, v=n e", "window_attention_numpy c"),
        "linear_attention": ("q=n d, k=n d, v=n e", "linear_attention_numpy linear_attention_masked"),
        "alibi": ("s=h i j, slope=h", "alibi_numpy triton"),
        "max_pool": ("x=b c h w", "max_pool_numpy c"),
        "smooth": ("x=b c t", "smooth_numpy triton"),
        "short_conv": ("x=b c t, w=c k, k=4", "short_conv_numpy c"),
        "conv2d": ("x=b c h w, w=o c k l, b=o, k=3, l=3", "conv2d_numpy conv2d_unfold"),
        "embed": ("ids=b t, table=n d", "embed_numpy triton"),
        "bag": ("ids=b t, table=n d", "bag_numpy"),
        "pick": ("x=b n, index=b k", "pick_numpy c"),
        "combine": ("base=n d, index=m, rows=m d", "combine_numpy combine_matrix"),
        "average": ("x=b t d, a=b t d", "average_numpy triton"),
        "running_mean": ("x=... n", "running_mean_numpy running_mean_blocks"),
        "selective_scan": ("x=t d, dt=t d, a=d n, b=t n, c=t n", "selective_scan_numpy c"),
        "rope": ("x=b s 2h, cos=s h, sin=s h", "rope_numpy triton"),
        "upsample": ("x=... n", "upsample_numpy"),
        "swiglu": ("x=m d, gate=d f, up=d f", "swiglu_torch swiglu_numpy"),
    },
}  # fmt: skip
"""For each reference of a file its shapes, and its right kernels: functions beside it, one of `tritons.py`, and one in
C, of the reference's name. Welford's squares, with their mean as an output, are off by more than the squares written
out, and are named; all others pass."""
_ROWS = [
    (file, reference, shapes, kernel)
    for file, rows in _REFERENCES.items()
    for reference, (shapes, kernels) in rows.items()
    for kernel in kernels.split()
]


@pytest.mark.usefixtures("quick_checks")
@pytest.mark.parametrize(("file", "reference", "shapes", "kernel"), _ROWS, ids=["-".join(each[1::2]) for each in _ROWS])
def test_a_right_kernel_passes(cli_here: Cli, file: str, reference: str, shapes: str, kernel: str) -> None:
    place = f"{_HERE / file}.py:{reference}"
    if kernel == "triton":
        solution = f"{_HERE / 'tritons.py'}:{reference}"
        done = cli_here("judge", solution, "--against", place, "--shapes", shapes, "--trusted", "--seed", "1")
        assert done.returncode == 0, done.stdout + done.stderr
    elif kernel in ("c", "c-named"):
        begun = cli_here("init", reference, "--from", f"{_HERE / 'c' / reference}.c", "--op", place, "--shapes", shapes)
        assert begun.returncode == 0, begun.stderr
        done = cli_here("run", "--pack", reference, "--max-cases", "100", "--seed", "1", "--explain-time", "10s")
        named = kernel.endswith("-named")
        assert (done.returncode, "right only as" in done.stdout) == (int(named), named), done.stdout
    else:
        functions = import_module(f"fuzz.tests.common.newcomers.{file}")
        fuzz.check(getattr(functions, kernel), reference=getattr(functions, reference), shapes=shapes, seed=1)
