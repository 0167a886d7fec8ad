"""Planted defects that no tolerance shows: the order of the sum depends on something that it must not depend on.

Each is the generic kernel with a second order, odd and even columns summed apart. Both orders are as accurate as
declared, so only a law tells them from a correct kernel.
"""

from __future__ import annotations

from fuzz import Mutant


def _order_by(name: str, chosen_by: str, trigger: str, provenance: str, explained_as: tuple[str, ...] = ()) -> Mutant:
    """A mutant that sums in the second order where the C expression `chosen_by` is true of the call."""
    return Mutant(
        name=f"generic-order-by-{name}",
        base="generic",
        edits=(
            ("static void generic_row(", "static int apart;\n\nstatic void generic_row("),
            (
                "    for (size_t i = 0; i < n; i++) total += x[i] * x[i];",
                "    float odd = 0.0f;\n"
                "    for (size_t i = 0; i < n; i++) *(apart && i % 2 ? &odd : &total) += x[i] * x[i];\n"
                "    total += odd;",
            ),
            ("{ return each_row(", f"{{\n    apart = {chosen_by};\n    return each_row("),
        ),
        targets=("*@native:*",),
        trigger=f"{trigger}; a row long enough that the two orders round differently",
        caught_as=("FAIL_LAW",),
        provenance=provenance,
        explained_as=explained_as,
    )  # fmt: skip


MUTANTS: tuple[Mutant, ...] = (
    _order_by(
        "rows",
        "call->x.rank > 1 && call->x.shape[0] > 2",
        "a batch of at most two rows, alone or as part of a larger one",
        "split reductions for small batches: the same prompt gives other logits when the server is busy",
        ("breaks batch_", "rows"),
    ),
    _order_by(
        "alignment",
        "(uintptr_t)call->x.data % 64 == 0",
        "x at a multiple of 64 bytes and elsewhere",
        "onnxruntime#15054 turned around: a vector path for aligned pointers that sums in an order of its own",
    ),
    _order_by(
        "call",
        "({ static unsigned calls; calls++ % 2; })",
        "every second call",
        "atomic additions and races (llama.cpp#26385, mlx#2340): another order in every run",
    ),
    _order_by(
        "place",
        "call->x.data == call->y.data",
        "y in place of x and beside it",
        "an in-place variant with a loop of its own",
    ),
    _order_by(
        "eps",
        "call->eps > 1e-4f",
        "eps on both sides of 1e-4 at two scales of x",
        "a fast path tuned for the usual eps",
    ),
    _order_by(
        "pitch",
        "call->x.rank > 1 && call->x.strides[0] != call->x.shape[call->x.rank - 1]",
        "rows with gaps and without",
        "views copied on one path and read in place on the other",
    ),
)
