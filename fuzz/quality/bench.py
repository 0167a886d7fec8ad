"""`kernelfuzz bench`: how fast the tool itself is, and how fast kernels are, as ratios within one run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from fuzz.cli import options


class Benched(StrEnum):
    """What can be measured."""

    ORACLE = "oracle"
    KERNELS = "kernels"
    GUIDANCE = "guidance"


def bench(
    what: Annotated[
        Benched,
        typer.Argument(
            help="oracle: the fast tier against the precise one. "
            "kernels: C kernels against the plain composition, Python kernels on a GPU against torch. "
            "guidance: cases to find planted losses of accuracy, without guidance, with it, and by hypothesis.target."
        ),
    ],
    dtype: Annotated[
        list[str] | None,
        typer.Option("--dtype", help="f64, f32, f16 or bf16. Default: f32; for kernels bf16, f16, f32. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the values; the first of several.")] = 1,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds of guidance.")] = 20,
    max_cases: Annotated[int, typer.Option("--max-cases", min=1, help="Cases of guidance per bug and seed.")] = 1000,
    op: options.Op = "*",
    target: options.Targets = None,
    keyword: options.Keyword = None,
    rows: Annotated[
        list[int] | None, typer.Option("--rows", min=1, help="Rows, on a GPU. Default: 4096, 32768. Repeatable.")
    ] = None,
    n: Annotated[
        list[int] | None, typer.Option("--n", min=1, help="Length of a row. Default: several. Repeatable.")
    ] = None,
    pack: options.Pack = None,
    json: options.Json = None,
) -> int:
    """Measure the oracle, both tiers side by side, kernels beside what they are to be faster than, or guidance."""
    if what is Benched.ORACLE:
        from fuzz.quality.benching import bench_oracle

        return bench_oracle((dtype or ["f32"])[0], seed, json)
    if what is Benched.GUIDANCE:
        from fuzz.quality.guiding import Request as Guidance
        from fuzz.quality.guiding import bench_guidance

        return bench_guidance(Guidance(seed, seeds, max_cases, keyword, pack, json))
    from fuzz.quality.benching_kernels import Request, bench_kernels

    return bench_kernels(
        Request(
            op=op,
            targets=tuple(target or ()),
            keyword=keyword,
            pack=pack,
            json=json,
            rows=tuple(rows or ()),
            lengths=tuple(n or ()),
            dtypes=tuple(dtype or ("bf16", "f16", "f32")),
        )
    )
