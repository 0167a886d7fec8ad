"""What is wrong with a call apart from its values, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fuzz.core.base.outcome import Change, Damage, Fault, Unwritten


def fault_text(fault: Fault) -> str:
    """For example 'SIGSEGV: read right after the end of x, row 3, column 17'."""
    if fault.tensor is None and fault.signal == "SIGSEGV":
        return (
            "SIGSEGV in the kernel, at no tensor's address: a wild pointer, too large a stack, or (processors give no "
            "address for it) an aligned vector access at an unaligned address"
        )
    if fault.tensor is None:
        return f"{fault.signal} in the kernel, at no tensor's address"
    access = {"read": "read", "write": "wrote"}.get(fault.access or "", "touched memory")
    at = _at(fault.row, fault.column)
    if fault.byte is None:
        return f"{fault.signal}: {access} between the elements of {fault.tensor}, nearest{at}"
    return f"{fault.signal}: {access} {_place(fault.byte, fault.tensor)}{at}"


def damage_text(damage: Damage) -> str:
    """For example 'wrote 4 bytes outside y: right after the end of y, row 3, column 17'."""
    count = f"{damage.count} byte{'s' if damage.count != 1 else ''}"
    at = _at(damage.row, damage.column)
    if damage.kind == "input":
        return f"changed {count} of input {damage.tensor}, first at byte {damage.byte}{at}"
    if damage.kind == "output":
        return f"wrote {count} of output {damage.tensor} and then rejected the input, first at byte {damage.byte}{at}"
    if damage.where == "inside":
        return f"wrote {count} between the elements of {damage.tensor}, first at byte {damage.byte}{at}"
    return f"wrote {count} outside {damage.tensor}: {_place(damage.byte, damage.tensor)}{at}"


def unwritten_text(unwritten: Unwritten, shape: tuple[int, ...]) -> str:
    """Return which elements hold our poison still. A kernel that reads its output first, and adds 0 times that, makes a
    NaN of it too: that it never wrote them would be false."""
    first = []
    rest = unwritten.first
    for extent in reversed(shape):
        rest, position = divmod(rest, extent)
        first.append(position)
    index = ", ".join(str(i) for i in reversed(first))
    return (
        f"{unwritten.count} of {math.prod(shape)} elements of {unwritten.output} hold what their memory held before, "
        f"first {unwritten.output}[{index}]: never written, or made of that"
    )


def changes_text(changes: Iterable[Change]) -> str:
    """For example 'left its process changed: signals: another handler of SIGSEGV'."""
    return f"left its process changed: {'; '.join(map(str, changes))}"


def _place(byte: int, tensor: str) -> str:
    if byte < 0:
        return f"{-byte} bytes before the start of {tensor}"
    return f"right after the end of {tensor}" if byte == 0 else f"{byte} bytes after the end of {tensor}"


def _at(row: int | None, column: int | None) -> str:
    """For example ', row 3, column 17': of the nearest element."""
    places = (("row", row), ("column", column))
    return "".join(f", {what} {index}" for what, index in places if index is not None)
