"""Random problems of every op, and contracts of every kind, for tests."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from oracles import AnyOrder, Contract, Lanes, Pairwise, Tiles
from oracles.problem import Problem
from oracles.tests.common.adversary import row, store

MULTIPLIED: Mapping[str, str] = dict.fromkeys(("h", "m", "w", "y", "dx", "dsummed"), "f32")
CONTRACTS: Mapping[str, Contract] = {
    "plain": Contract("f32"),
    "simd": Contract("f32", sums={"n": Lanes(16, 4, "scalar")}, mean="reciprocal", accuracy={"rsqrt": 2.0}),
    "f64 sums": Contract("f64", dtypes=MULTIPLIED, sums={"n": Lanes(4, 4, "predicated")}, fused=False),
    "llama": Contract("f32", points={"h": "input"}, sums={"n": Tiles(8)}),
    "input": Contract("input", sums={"...": Pairwise(2)}),
    "input sums": Contract("input", points={"eps": "input"}, zeros="any"),
    "weight": Contract("f32", dtypes={"w": "weight"}, sums={"n": Pairwise(8)}),
    "flush": Contract("f32", denormals="flush", sums={"n": AnyOrder()}),
    "flush results": Contract("f32", denormals="flush results"),
    "fast math": Contract("f32", nonfinite="unspecified", saturate=True),
    "dw 16 bit": Contract("f32", dtypes={"dw": "input"}, points={"h": "input"}, mean="reciprocal"),
}
"""For the ops of RMSNorm."""


def contract_of(op: str, name: str) -> Contract:
    """The contract of that name for an op, with what it has alone: a rounded residual, a cube of rstd."""
    contract = CONTRACTS[name]
    if op == "fused_add_rms_norm" and name != "weight":
        return replace(contract, points={**contract.points, "added": "sum"})
    if op.endswith("backward") and name == "fast math":
        return replace(contract, algorithm={"dx": "rstd3"})
    return contract


EPS = (0.0, 1e-5, 1e-12, 100.0)


def forward(op: str, recipe: str, dtype: str, count: int, limit: int) -> Iterator[Problem]:
    """Problems of a forward op: two rows of at most `limit` elements, with and without weight and offset."""
    rng = np.random.default_rng(zlib.crc32(f"{op} {recipe} {dtype}".encode()))
    for number in range(count):
        n = int(rng.integers(1, limit))
        inputs = {"x": np.stack([row(recipe, n, dtype, rng) for _ in range(2)])}
        outputs = {"y": dtype, "rstd": "f64" if dtype == "f64" else "f32"}
        if op == "fused_add_rms_norm":
            inputs["residual"] = np.stack([row(recipe if number % 2 else "normal", n, dtype, rng) for _ in range(2)])
            outputs["sum"] = dtype
        if number % 3:
            weight = rng.standard_normal(n) * 4
            weight[rng.uniform(size=n) < 0.1] = 0.0
            weight[rng.uniform(size=n) < 0.02] = rng.choice([np.nan, np.inf, -np.inf])
            inputs["weight"] = store(weight, [dtype, "f32", "bf16"][number % 3])
            if number % 4 == 2:
                inputs["weight"] = np.stack([inputs["weight"], inputs["weight"][::-1]])
        if dtype != "f64" and number % 5 == 4:
            outputs["y"] = str(rng.choice(["e4m3fn", "e5m2", "f32", "bf16"]))
        params = {"eps": float(np.float32(EPS[number % 4])), "weight_offset": [0.0, 1.0][number // 3 % 2]}
        yield Problem(op, params, inputs, outputs, structured=recipe in ("constant", "spike") or number % 2 == 0)


def backward(op: str, recipe: str, dtype: str, count: int, limit: int) -> Iterator[Problem]:
    """Problems of a backward op: a few rows, with and without weight, given rstd and second gradient."""
    rng = np.random.default_rng(zlib.crc32(f"{op} {recipe} {dtype}".encode()))
    for number in range(count):
        n, rows = int(rng.integers(1, limit)), int(rng.integers(1, 5))
        x = np.stack([row(recipe if i == 0 else "normal", n, dtype, rng) for i in range(rows)])
        dy = np.stack([row(recipe if i == rows - 1 and number % 2 else "normal", n, dtype, rng) for i in range(rows)])
        inputs = {"x": x, "dy": dy}
        outputs = {"dx": dtype, "dw": dtype if number % 2 else "f64"}
        eps = float(np.float32(EPS[number % 4]))
        if op == "fused_add_rms_norm_backward":
            outputs["dresidual"] = dtype
            if number % 4:
                inputs["dsum"] = np.stack([row("few zeros", n, dtype, rng) for _ in range(rows)])
        if number % 3:
            weight = rng.standard_normal(n) * 4
            weight[rng.uniform(size=n) < 0.1] = 0.0
            inputs["weight"] = store(weight, [dtype, "f32", "bf16"][number % 3])
        if number % 2:
            with np.errstate(all="ignore"):
                rstd = 1 / np.sqrt(np.mean(np.square(x.astype(np.float64)), axis=1) + eps)
            inputs["rstd"] = store(rstd, "f64" if dtype == "f64" else "f32")
        yield Problem(op, {"eps": eps, "weight_offset": [0.0, 1.0][number // 3 % 2]}, inputs, outputs, number % 5 == 0)
