"""`kernelfuzz bench`: how fast the tool itself is, as ratios within one run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from fuzz.cli import options


class Benched(StrEnum):
    """What can be measured."""

    ORACLE = "oracle"


def bench(
    what: Annotated[Benched, typer.Argument(help="oracle: the fast tier against the precise one.")],
    dtype: Annotated[str, typer.Option("--dtype", help="f64, f32, f16 or bf16.")] = "f32",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values.")] = 1,
    json: options.Json = None,
) -> int:
    """Measure the oracle: both tiers side by side, and the share of elements that only the precise one can decide."""
    from fuzz.cli.benching import bench_oracle

    return bench_oracle(dtype, seed, json)
