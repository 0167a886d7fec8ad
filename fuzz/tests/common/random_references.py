"""Random references of torch, small ones: operations of the table of rules with arguments of the types that torch says,
right ones and wrong ones, and lines that people write."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import torch

from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError
from fuzz.references.rules import RULES
from fuzz.references.scope import COMPLEX

SHAPES = (
    "x=b n", "x=... n", "x=b n, y=b n", "x=m k, y=k n", "x=b s d", "x=b h s d, y=b h t d", "x=... n, w=n", "x=n",
    "x=b n, i=b", "x=n d, i=m", "x=b c s, w=c", "x=b 2h, w=h", "x=m n, i=m n",
)  # fmt: skip
_DIMS = ("0", "1", "-1", "-2", "2", "7", "x.shape[0]", "x.shape[-1]", "x.shape[-1] // 2", "x.shape[0] - x.shape[-1]")
_NUMBERS = ("0.5", "-2.0", "0", "1", "3", "x.shape[-1] ** -0.5", "1.0 / x.shape[0]", "float('inf')")
_LINES = (
    "{a} + {b}", "{a} * {b}", "{a} - {a}.mean({d}, keepdim=True)", "{a} / {b}", "{a} @ {b}.transpose(-1, -2)",
    "{a}.sum({d})", "torch.softmax({a}, {d})", "{a}[..., : {d}]", "{a}[{d}]", "{a}[..., ::2]", "{a}.reshape(-1, {d})",
    "{a}.flatten()", "torch.cat(({a}, {b}), {d})", "torch.arange({d}) * {n}",
    "torch.arange({a}.shape[-1])[:, None] + {d}", "{a}.tril({d})", "torch.where({a} > {n}, {a}, {b})",
    "{a}.masked_fill({a} < {n}, {n})", "{a}.gather({d}, {b})", "{a}[{b}]", "{a}.amax({d})", "{a}.topk(2, {d}).values",
    "{a}.sort({d})[0]", "{a}.cumsum({d})", "F.pad({a}, ({d}, 1))", "{a}.permute({d}, 1)", "{a}.chunk(2, {d})[0]",
    "{a}.unsqueeze({d})", "{a}.view({a}.shape)", "{a}.to(torch.bfloat16)", "F.layer_norm({a}, {a}.shape[-1:])",
    "F.conv1d({a}, {b}, groups={d})", "{a}.roll({d}, 0)", "{a}.flip({d})", "torch.einsum('ij,ij->i', {a}, {b})",
    "torch.zeros_like({a}).scatter_add({d}, {b}, {a})", "{a}.max()", "{a}.long()", "{a}.var({d})", "{a}.std()",
    "{a}.argmax({d})", "F.one_hot({a}, 4)", "{a}.index_select({d}, {b})", "{a} % {n}", "{a} // {n}",
    "torch.eye({d}) * {n}", "{a} ** {d}", "{a}.item()", "{a}.expand({d}, -1)", "torch.full(({d}, 2), {n})",
    "{a}.nosuch()", "F.avg_pool1d({a}, {d})", "{a}.unfold(-1, {d}, 1)", "torch.outer({a}, {b})", "{a}.t()",
    "torch.stack(({a}, {b}), {d})", "F.pad({a}, ({d}, 1), mode='circular')", "F.pad({a}, (1, {d}), mode='reflect')",
    "F.pad({a}, ({d}, {d}), mode='replicate')", "F.interpolate({a}, scale_factor=3, mode='linear')",
    "F.interpolate({a}, scale_factor=1 / 2, mode='bilinear')", "F.interpolate({a}, size={d}, mode='bicubic')",
    "torch.ops.aten.copy_({a}.clone()[..., -2:], {b}[..., :2])", "torch.ones_like({a}).copy_({b})",
)  # fmt: skip


_PLACED = ("dtype", "layout", "device", "pin_memory", "memory_format", "out")
"""Arguments of which a wrong one ends the process."""
_ENDS = "native_batch_norm"
"""An operation with which torch itself ends the process: of evaluation, where statistics are missing."""


def random_reference(seed: int) -> tuple[Callable[..., Any], str, str]:
    """Return a function, the dimensions of its tensors and its text."""
    random = Random(seed)
    shapes = random.choice(SHAPES)
    known = [part.partition("=")[0].strip() for part in shapes.split(",")]
    lines = [f"def reference({', '.join(known)}):"]
    for at in range(random.randint(1, 3)):
        lines.append(f"    v{at} = {_operation(random, known) if random.random() < 0.4 else _line(random, known)}")
        known.append(f"v{at}")
    kind, last = random.random(), known[-1]
    lines.append(
        f"    return {last if kind < 0.9 else f'({last}, x)' if kind < 0.96 else random.choice(('None', '3'))}"
    )
    text, file = "\n".join(lines) + "\n", f"random_{seed}.py"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "__name__": "random_references"}
    exec(compile(text, file, "exec"), space)
    return space["reference"], shapes, text


def _line(random: Random, known: Sequence[str]) -> str:
    some = {
        "a": random.choice(known),
        "b": random.choice(known),
        "d": random.choice(_DIMS),
        "n": random.choice(_NUMBERS),
    }
    return random.choice(_LINES).format(**some)


def _operation(random: Random, known: Sequence[str]) -> str:
    """An operation of the table with arguments of the types that it takes."""
    names = [
        name for name in sorted(RULES) if not name.startswith(("lax.", "_", COMPLEX)) and hasattr(torch.ops.aten, name)
    ]
    name = next(each for each in iter(lambda: random.choice(names), None) if each != _ENDS)
    packet = getattr(torch.ops.aten, name)
    overload = random.choice([each for each in packet.overloads() if "out" not in each])
    given = list[str]()
    for argument in getattr(packet, overload)._schema.arguments:
        if argument.name in _PLACED or (argument.has_default_value() and random.random() < 0.7):
            continue
        made = _argument(random, str(argument.type), known)
        given.append(f"{argument.name}={made}" if argument.kwarg_only else made)
        if argument.has_default_value() and not argument.kwarg_only:
            break
    return f"torch.ops.aten.{name}.{overload}({', '.join(given)})"


def _argument(random: Random, kind: str, known: Sequence[str]) -> str:
    if kind.startswith("Optional") and random.random() < 0.5:
        return "None"
    if "List" in kind:
        inner = kind.partition("[")[2]
        return f"[{', '.join(_argument(random, inner, known) for _ in range(random.randint(1, 2)))}]"
    if "Tensor" in kind:
        return random.choice(known)
    if "bool" in kind:
        return random.choice(("True", "False"))
    if "str" in kind:
        return random.choice(("'sum'", "'none'", "'trunc'", "'floor'"))
    return random.choice(_DIMS if "int" in kind else _NUMBERS)


def outcomes(seeds: Iterable[int]) -> Counter[str]:
    """Return how many references are read, and how many refused."""
    found = Counter[str]()
    for seed in seeds:
        reference, shapes, text = random_reference(seed)
        said = _refusal(reference, shapes)
        assert "\n" not in said, f"{said}\n{text}"
        assert "bug of kernelfuzz" not in said, f"{said}\n{text}"
        found["refused" if said else "read"] += 1
    return found


def _refusal(reference: Callable[..., Any], shapes: str) -> str:
    """Why a reference is refused; "" of one that is read."""
    try:
        derive(reference, shapes)
    except UnreadableError as error:
        return str(error)
    return ""
