"""Planted defects that no tolerance shows: the order of the sum depends on something that it must not depend on.

Each is a kernel with a second order, odd and even columns summed apart. Both orders are as accurate as declared, so
only a law tells them from a correct kernel.
"""

from __future__ import annotations

from fuzz import Mutant

Edits = tuple[tuple[str, str], ...]


def _mutant(
    name: str,
    base: str,
    edits: Edits,
    trigger: str,
    provenance: str,
    targets: str = "*@native:*-O2",
    explained_as: tuple[str, ...] = (),
) -> Mutant:
    """A kernel that sums in either of two orders; `trigger` says by what it chooses."""
    return Mutant(
        name=name,
        base=base,
        edits=edits,
        targets=(targets,),
        trigger=f"{trigger}; a row long enough that the two orders round differently",
        caught_as=("FAIL_LAW",),
        provenance=provenance,
        explained_as=explained_as,
    )


def _order_by(name: str, chosen_by: str, trigger: str, provenance: str, explained_as: tuple[str, ...] = ()) -> Mutant:
    """A mutant that sums in the second order where the C expression `chosen_by` is true of the call."""
    return _mutant(
        f"generic-order-by-{name}",
        "generic",
        (
            ("static void generic_row(", "static int apart;\n\nstatic void generic_row("),
            (
                "    for (size_t i = 0; i < n; i++) total += x[i] * x[i];",
                "    float odd = 0.0f;\n"
                "    for (size_t i = 0; i < n; i++) *(apart && i % 2 ? &odd : &total) += x[i] * x[i];\n"
                "    total += odd;",
            ),
            ("{ return each_row(", f"{{\n    apart = {chosen_by};\n    return each_row("),
        ),
        trigger,
        provenance,
        targets="*@native:*",
        explained_as=explained_as,
    )


def _row_by(name: str, chosen_by: str, trigger: str, provenance: str) -> Mutant:
    """The same, where `chosen_by` is true of the row; `number` counts the rows of a call."""
    return _mutant(
        f"generic-order-by-{name}",
        "generic",
        (
            ("static void generic_row(", "static int number;\n\nstatic void generic_row("),
            (
                "    for (size_t i = 0; i < n; i++) total += x[i] * x[i];",
                f"    const int apart = {chosen_by};\n    float odd = 0.0f;\n    number++;\n"
                "    for (size_t i = 0; i < n; i++) *(apart && i % 2 ? &odd : &total) += x[i] * x[i];\n"
                "    total += odd;",
            ),
            ("{ return each_row(", "{\n    number = 0;\n    return each_row("),
        ),
        trigger,
        provenance,
    )


def _add_by(name: str, chosen_by: str, trigger: str, provenance: str) -> Mutant:
    """The fused add, with the squares of a row summed in the second order where `chosen_by` is true of the call."""
    return _mutant(
        f"add-order-by-{name}",
        "add-generic",
        (
            ("static real reciprocal_rms_of(", "static int apart;\n\nstatic real reciprocal_rms_of("),
            (
                "    for (int64_t i = 0; i < n; i++) total += values[i] * values[i];",
                "    real odd = 0;\n"
                "    for (int64_t i = 0; i < n; i++) *(apart && i % 2 ? &odd : &total) += values[i] * values[i];\n"
                "    total += odd;",
            ),
            (
                "    if (!has_elements(&given->x)) return KF_OK;",
                f"    if (!has_elements(&given->x)) return KF_OK;\n    apart = {chosen_by};",
            ),
        ),
        trigger,
        provenance,
    )


def _backward_by(name: str, chosen_by: str, trigger: str, provenance: str) -> Mutant:
    """The gradient, with its projection summed in the second order where `chosen_by` is true of `call` and `r`."""
    return _mutant(
        f"backward-order-by-{name}",
        "backward-generic",
        (
            (
                "static real projection_of(const gradient_call *call, const row *r, real rstd) {\n",
                "static real projection_of(const gradient_call *call, const row *r, real rstd) {\n"
                f"    const bool apart = {chosen_by};\n    real odd = 0;\n",
            ),
            (
                "        total += h * weighted_dy(call, r, i);\n",
                "        *(apart && i % 2 ? &odd : &total) += h * weighted_dy(call, r, i);\n",
            ),
            ("    return total / (real)r->n;\n", "    return (total + odd) / (real)r->n;\n"),
        ),
        trigger,
        provenance,
    )


MUTANTS: tuple[Mutant, ...] = (
    _order_by(
        "rows",
        "call->x.rank > 1 && call->x.shape[0] > 2",
        "a batch of at most two rows, alone or as part of a larger one",
        "split reductions for small batches: the same prompt gives other logits when the server is busy",
        ("breaks batch_", "passes at rows = 3"),
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
    _order_by(
        "even-rows",
        "call->x.rank > 1 && call->x.shape[0] % 2 == 0",
        "an even number of rows, and some of them alone",
        "two rows at a time in registers, and a last one by another loop",
    ),
    _order_by(
        "line",
        "(uintptr_t)call->x.data / 64 % 2",
        "x in a cache line of even number and of odd",
        "loops unrolled to lines of 128 bytes that peel to the next one",
    ),
    _row_by(
        "row-number",
        "number % 2",
        "rows in another order",
        "rows of a persistent program: those after its first take a path with what is already loaded",
    ),
    _row_by(
        "sign",
        "signbit(x[0])",
        "x and its negative",
        "a maximum taken without the absolute value picks another scale for negative rows",
    ),
    _add_by(
        "rows",
        "given->x.rank > 1 && given->x.shape[0] > 2",
        "a batch of at most two rows, alone or as part of a larger one",
        "several rows per program for small batches, each reduced by fewer threads",
    ),
    _add_by(
        "place",
        "given->sum.data != NULL && given->sum.data == given->residual.data",
        "the sum in the memory of the residual and beside it",
        "kernels whose in-place variant is a template of its own",
    ),
    _add_by(
        "eps",
        "given->eps > 1e-4f",
        "eps on both sides of 1e-4 at two scales of x and residual",
        "a fast path tuned for the usual eps",
    ),
    _backward_by(
        "row-number",
        "r->index[0] % 2",
        "rows in another order",
        "double-buffered rows of a persistent program: every second one reduced from the other buffer",
    ),
    _backward_by(
        "alignment",
        "(uintptr_t)call->dy.data % 64 == 0",
        "dy at a multiple of 64 bytes and elsewhere",
        "vector loads of gradients where they happen to be aligned",
    ),
    _backward_by(
        "call",
        "({ static unsigned calls; calls += r->index[0] == 0; calls % 2; })",
        "every second call",
        "partial sums met in the order in which programs finish",
    ),
    _backward_by(
        "eps",
        "call->eps > 1e-4f",
        "eps on both sides of 1e-4 at two scales of x",
        "a fast path tuned for the usual eps",
    ),
    Mutant(
        name="torch-partial-sum-per-thread",
        base="fixed-order",
        edits=(
            (
                "total = _halved(squares.movedim(axis, -1))",
                "parts = squares.movedim(axis, -1).tensor_split(torch.get_num_threads(), -1)\n"
                "    parts = [part for part in parts if part.shape[-1]] or parts[:1]\n"  # of an empty row
                "    total = sum(_halved(part) for part in parts)",
            ),
        ),
        targets=("torch-*@cpu",),
        trigger="another number of threads; a row long enough that the two orders round differently",
        caught_as=("FAIL_LAW",),
        provenance="a reduction split between threads: torch's own, of one long row",
    ),
)
