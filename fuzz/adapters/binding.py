"""What each argument of a C function is: a tensor of the op, an extent, a distance, a parameter or a constant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuzz.adapters.prototype import Argument, Prototype
from fuzz.base.capability import Capabilities, DeclarationError, Strides
from oracles.op import Op
from oracles.operand import OUTER, Operand

STRIDE, SIZE, BYTES = "stride", "size", "bytes"
"""What may be said of a tensor, behind a dot: the elements from one of its rows to the next, those that it has in all,
and the bytes from one row to the next."""
OF_TENSORS = (STRIDE, SIZE, BYTES)
STATUS, NOTHING = "status", "nothing"
"""What an integer that is returned may mean: that all but 0 refuses the call, or nothing."""
_ROWS = frozenset(("rows", "nrows", "n_rows", "num_rows", "batch", "batch_size"))
_COLUMNS = frozenset(("cols", "ncols", "n_cols", "num_cols", "columns", "len", "length"))
"""What extents are often called that ops call otherwise."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|NULL")


@dataclass(frozen=True)
class Binding:
    """The meaning of each argument of a function, in words of the op, and of what it returns."""

    op: Op
    prototype: Prototype
    meanings: Mapping[str, str]
    """The meaning by the argument's name: 'x', 'n', 'rows', 'x.stride', 'eps', '1'."""
    returned: str
    """The output that it returns, STATUS or NOTHING."""

    @cached_property
    def tensors(self) -> Mapping[str, Argument]:
        """The argument of each tensor that is handed over."""
        meant = {self.meanings[each.name]: each for each in self.prototype.arguments}
        return {each.name: meant[each.name] for each in self.op.operands if each.name in meant}

    @property
    def handed(self) -> tuple[str, ...]:
        """Every tensor that it is given or returns, in the op's order."""
        return tuple(each.name for each in self.op.operands if each.name in (*self.tensors, self.returned))

    @property
    def takes_all_rows(self) -> bool:
        """Whether one call does all of a case: it is told how many rows there are, or how large a tensor is."""
        told = {*self.meanings.values()}
        return self.op.batch_name in told or any(f"{each.name}.{SIZE}" in told for each in self.op.operands)

    @property
    def strides(self) -> Strides:
        """The loosest layouts that a call can be told of."""
        if not self.takes_all_rows and all(own_dims(self.op.operand(name)) <= 1 for name in self.handed):
            return "rows"
        return self.strides_at_once

    @property
    def strides_at_once(self) -> Strides:
        """The same, where one call does all of a case."""
        rows = [name for name in self.handed if self.op.has_rows(name)]
        told = {*self.meanings.values()}
        pitched = all({f"{name}.{STRIDE}", f"{name}.{BYTES}"} & told for name in rows)
        return "pitched" if rows and pitched else "contiguous"


def own_dims(operand: Operand) -> int:
    """The number of an operand's dimensions that have a name."""
    return sum(dim != OUTER for dim in operand.axes)


def bound(op: Op, prototype: Prototype, given: Mapping[str, str], returns: str, able: Capabilities) -> Binding:
    """The meaning of every argument: as `given`, or by its name, or because nothing else is left that it can be. Raises
    DeclarationError for the first one that is unclear, and for what is never handed over."""
    names = [each.name for each in prototype.arguments]
    for name, meaning in given.items():
        if name not in names:
            raise DeclarationError(f"arguments: {prototype.name} has no argument {name!r}: it has {', '.join(names)}")
        if not _is_known(meaning, op):
            raise DeclarationError(f"arguments: {name}: {meaning!r} is not one of {_choices(op)}")
    meanings = {**{each.name: _by_name(each, op) for each in prototype.arguments}, **given}
    _fill_rest(op, prototype, meanings)
    for each in prototype.arguments:
        _check(each, meanings[each.name], op, prototype.name)
    binding = Binding(op, prototype, meanings, _returned(op, prototype, meanings, returns))
    for said in _missing(binding, able):
        raise DeclarationError(f"prototype: {said}")
    return binding


def _is_known(meaning: str, op: Op) -> bool:
    tensor, _, what = meaning.partition(".")
    if what in OF_TENSORS and any(each.name == tensor for each in op.operands):
        return True
    return meaning in _plain(op) or _NUMBER.fullmatch(meaning) is not None


def _plain(op: Op) -> tuple[str, ...]:
    return (*(each.name for each in op.operands), *op.named, op.batch_name, *(each.name for each in op.parameters))


def _choices(op: Op) -> str:
    first = op.main
    return f"{', '.join(dict.fromkeys(_plain(op)))}, {', '.join(f'{first}.{each}' for each in OF_TENSORS)}, or a number"


def _by_name(argument: Argument, op: Op) -> str:
    """What an argument is by its name; '' where that says nothing."""
    name, lower = argument.name, argument.name.lower()
    if argument.type.pointer:
        return name if any(each.name == name for each in op.operands) else ""
    parameters = [each.name for each in op.parameters]
    if name in (*parameters, *op.named, op.batch_name):
        return name
    for each in op.operands:
        if lower in (f"{each.name}_{STRIDE}", f"{STRIDE}_{each.name}", f"ld{each.name}", f"{each.name}_row_{STRIDE}"):
            return f"{each.name}.{STRIDE}"
    longer = [each for each in parameters if len(each) > 2 and lower.startswith(each)]
    if argument.type.is_float:
        return longer[0] if len(longer) == 1 else ""
    if lower in _ROWS and OUTER in op.inputs[0].axes:
        return op.batch_name
    return op.row if lower in _COLUMNS and len(op.named) == 1 else ""


def _fill_rest(op: Op, prototype: Prototype, meanings: dict[str, str]) -> None:
    """Give its meaning to what alone is left of its kind: the input, the output, the extent."""
    taken = {*meanings.values()}
    unclear = [each for each in prototype.arguments if not meanings[each.name]]
    pointers = [each for each in unclear if each.type.pointer]
    integers = [each for each in unclear if each.type.size is not None and not each.type.pointer]
    for arguments, left in (
        ([each for each in pointers if each.type.constant], _left(op.inputs, taken)),
        ([each for each in pointers if not each.type.constant], _left(op.outputs, taken)),
        (integers, [dim for dim in op.named if dim not in taken and dim not in op.fixed]),
    ):
        if len(arguments) == len(left) == 1:
            meanings[arguments[0].name] = left[0]


def _left(operands: Sequence[Operand], taken: set[str]) -> list[str]:
    return [each.name for each in operands if not each.optional and each.name not in taken]


def _check(argument: Argument, meaning: str, op: Op, function: str) -> None:
    """Raise DeclarationError for an argument of which nobody can say what it is, or that cannot be what it is said to
    be."""
    name = argument.name
    if not meaning:
        raise DeclarationError(
            f"prototype: argument {name!r} of {function} is unclear: say what it is, arguments={{{name!r}: ...}}, with"
            f" one of {_choices(op)}"
        )
    is_tensor = any(each.name == meaning for each in op.operands)
    if argument.type.pointer != (is_tensor or meaning == "NULL"):
        raise DeclarationError(f"arguments: {name}: {meaning} is {'a tensor' if is_tensor else 'a number'}, and {name} "
                               f"is {argument.type}")  # fmt: skip
    if is_tensor and argument.type.constant and not op.is_input(meaning):
        raise DeclarationError(f"arguments: {name}: {meaning} is an output, and {name} is {argument.type}")


def _returned(op: Op, prototype: Prototype, meanings: Mapping[str, str], returns: str) -> str:
    if prototype.is_void:
        if returns:
            raise DeclarationError(f"returns: {prototype.name} returns nothing")
        return NOTHING
    outputs = [each.name for each in op.outputs if each.name not in meanings.values()]
    known = (*outputs, *(() if prototype.result.is_float else (STATUS,)), NOTHING)
    if returns:
        if returns not in known:
            raise DeclarationError(f"returns: {returns!r} is not one of {', '.join(known)}")
        return returns
    if prototype.result.is_float and len(outputs) == 1:
        return outputs[0]
    raise DeclarationError(
        f"returns: {prototype.name} returns {prototype.result}: say what that is with one of {', '.join(known)}; "
        f"{STATUS!r} means that all but 0 refuses the call"
    )


def _missing(binding: Binding, able: Capabilities) -> Iterator[str]:
    """What the function cannot know, as no argument says it."""
    op, function, told = binding.op, binding.prototype.name, {*binding.meanings.values()}
    for each in op.operands:
        if not each.optional and each.name not in binding.handed:
            yield f"no argument of {function} is {each.name}, which {op.name} has"
    for parameter in op.parameters:
        if parameter.neutral is None and parameter.name not in told:
            yield f"no argument of {function} is {parameter.name}, which {op.name} has"
    sized = any(f"{each.name}.{SIZE}" in told for each in op.operands)
    for dim in op.named:
        fixed = dim in op.fixed or able.max.get(dim) == able.multiple_of.get(dim, 0)
        if dim not in told and not fixed and not sized:
            always = f"max={{{dim!r}: 64}}, multiple_of={{{dim!r}: 64}}"
            yield f"no argument of {function} is the extent {dim!r}: one that never changes is declared with {always}"
