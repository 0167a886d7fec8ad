"""A formula as a kernel in C: machine arithmetic in the dtypes, orders and algorithms that a contract declares.

The text is written from the graph alone, generic over ops, for each set of optional inputs that a case may have. What a
contract leaves open is chosen: see `Emission`. Nothing here knows how the text is compiled or run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

from fuzz.quality.emission.plan import Emission
from fuzz.quality.emission.prelude import HEAD, PLAIN, SATURATED
from fuzz.quality.emission.variant import Variant
from oracles.op import Op


def source(of: Emission) -> str:
    """The whole file. Raises FormulaError for a formula that has no such kernel."""
    variants = [Variant(of, given) for given in _given(of.op)]
    shared = dict.fromkeys(text for each in variants for text in each.functions)
    bodies = "\n".join(each.text for each in variants)
    about = f"/* {of.op.name}: written from its formula, for {of.contract}. */\n"
    saturated = SATURATED if of.contract.saturate else PLAIN
    return "".join([about, saturated, HEAD, *shared, "\n", bodies, "\n", _entry(of, variants)])


def _given(op: Op) -> Sequence[frozenset[str]]:
    """Each set of optional inputs."""
    optional = [each.name for each in op.inputs if each.optional]
    subsets = chain.from_iterable(combinations(optional, count) for count in range(len(optional) + 1))
    return [frozenset(each) for each in subsets]


def _entry(of: Emission, variants: Sequence[Variant]) -> str:
    """Picks the variant, with subnormal numbers flushed by the processor where the contract allows that."""
    bits = (0x8000 if of.contract.flushes_results else 0) | (0x40 if of.contract.flushes_operands else 0)
    flush = [
        "    const unsigned before = __builtin_ia32_stmxcsr();",
        f"    __builtin_ia32_ldmxcsr(before | 0x{bits:x});",
    ]
    lines = [f"int kf_{of.op.name}(const kf_{of.op.name}_call *call) {{", "    int done = KF_REJECTED;"]
    lines += _guarded(flush if bits else [])
    for variant in variants:
        there = [
            f"{'' if each.name in variant.given else '!'}call->{each.name}.data"
            for each in of.op.inputs
            if each.optional
        ]
        lines += [f"    if ({' && '.join(there) or '1'})", f"        done = {variant.name}(call);"]
    back = _guarded(["    __builtin_ia32_ldmxcsr(before);"] if bits else [])
    return "\n".join([*lines, *back, "    return done;", "}", ""])


def _guarded(lines: list[str]) -> list[str]:
    """Lines that only processors with SSE understand; on others nothing is flushed."""
    return ["#ifdef __SSE2__", *lines, "#endif"] if lines else []
