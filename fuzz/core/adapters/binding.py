"""The prototype of a C function, and the meaning of each of its arguments: a tensor of the op, an extent, a distance, a
parameter or a constant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuzz.core.base.capability import Capabilities, DeclarationError, Strides
from oracles.dtypes import DTYPES, FLOATS
from oracles.formula.made import extents_of
from oracles.op import Op
from oracles.operand import OUTER, Operand
from oracles.synonyms import likely

_QUALIFIERS = {
    "const", "volatile", "restrict", "__restrict", "__restrict__", "extern", "static", "inline", "signed", "struct",
    "enum", "int", "register", "__global__",
}  # fmt: skip
"""Words of a declaration that do not change the size of a type."""
_FLOATS = {"float": "f32", "double": "f64", **dict.fromkeys(("_Float16", "__fp16", "half", "__half"), "f16"),
           **dict.fromkeys(("__bf16", "nv_bfloat16", "__nv_bfloat16"), "bf16")}  # fmt: skip
_BYTES = {"char": 1, "short": 2, "": 4, "long": 8, "long long": 8, "size_t": 8, "ssize_t": 8, "ptrdiff_t": 8,
          "intptr_t": 8, "uintptr_t": 8, **{f"int{8 * size}_t": size for size in (1, 2, 4, 8)},
          **{f"uint{8 * size}_t": size for size in (1, 2, 4, 8)}}  # fmt: skip
"""The sizes in bytes of C's integers on 64-bit Linux, by the words of their names that are not in `_QUALIFIERS`."""
_CALL = re.compile(r"\s*(?P<result>[\w\s*]*?[\s*])(?P<name>[A-Za-z_]\w*)\s*\((?P<given>.*)\)\s*;?\s*", re.DOTALL)
_COMMENT = re.compile(
    r"/\*.*?\*/|//[^\n]*|__attribute__\s*\(\(.*?\)\)|__launch_bounds__\s*\([^()]*\)|extern\s+\"C\"", re.DOTALL
)


@dataclass(frozen=True)
class Type:
    """A type of C, as an argument has it: a number, or a pointer to a type."""

    word: str
    """The type without qualifiers, like 'float' or 'unsigned long'. For a pointer, it is the type that it points at."""
    pointer: bool = False
    constant: bool = False
    """Whether the pointer is to a const type."""

    @property
    def is_float(self) -> bool:
        """Whether numbers of this type are passed as float or double."""
        return not self.pointer and self.word in ("float", "double")

    @property
    def size(self) -> int | None:
        """The size of an integer in bytes, or None for any other type."""
        return _BYTES.get(self.word.removeprefix("unsigned").strip())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that elements of this type may have. A type that C does not define may have any."""
        if self.word in _FLOATS:
            return (_FLOATS[self.word],)
        if self.size is None:
            return tuple(DTYPES)
        return tuple(
            name for name, each in DTYPES.items() if each.itemsize == self.size and (name not in FLOATS or self.raw)
        )

    @property
    def raw(self) -> bool:
        """Whether the type is an unsigned integer of one or two bytes. C has no 8- or 16-bit floats, and passes their
        bits in these types."""
        return self.word.startswith(("u", "char")) and (self.size or 0) < 4

    def __str__(self) -> str:
        return f"{'const ' if self.constant else ''}{self.word or 'int'}{' *' if self.pointer else ''}"


@dataclass(frozen=True)
class Argument:
    """One argument of a function."""

    name: str
    type: Type


@dataclass(frozen=True)
class Prototype:
    """A function: its name in the library, its arguments, and the type of its result."""

    name: str
    result: Type
    arguments: tuple[Argument, ...]

    @property
    def is_void(self) -> bool:
        """Whether the function returns nothing."""
        return self.result.word == "void" and not self.result.pointer


def parsed(text: str) -> Prototype:
    """Return the prototype in a text. Raise DeclarationError, which names the argument that is not understood."""
    call = _CALL.fullmatch(_COMMENT.sub(" ", text))
    if call is None:
        raise DeclarationError(f"prototype: {text!r} is not C: write 'void f(const float *x, float *y, int n)'")
    result, given = _typed(call["result"]), call["given"].strip()
    pieces = [] if given in ("", "void") else given.split(",")
    arguments = tuple(_argument(piece.strip(), number) for number, piece in enumerate(pieces, start=1))
    names = [each.name for each in arguments]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"prototype: two arguments of {call['name']} are called {name!r}")
    if result.pointer or not (result.word == "void" or result.is_float or result.size):
        raise DeclarationError(f"prototype: {call['name']} returns {result}: only void, float, double or an integer")
    return Prototype(call["name"], result, arguments)


def _argument(text: str, number: int) -> Argument:
    found = re.fullmatch(r"(?P<type>.*?[\s*])(?P<name>[A-Za-z_]\w*)\s*(?P<array>(\[\w*\s*\w*\])?)", text, re.DOTALL)
    if found is None or found["name"] in {*_QUALIFIERS, *_FLOATS, *_BYTES, "unsigned"}:
        raise DeclarationError(f"prototype: argument {number}, {text!r}: write its type and a name, 'const float *x'")
    kind = _typed(found["type"] + ("*" if found["array"] else ""))
    if not kind.pointer and not kind.is_float and kind.size is None:
        raise DeclarationError(
            f"prototype: argument {found['name']!r}: {kind} is no pointer and no type of C: write what it stands for"
        )
    return Argument(found["name"], kind)


def _typed(text: str) -> Type:
    words, stars = re.findall(r"\w+", text), text.count("*")
    if stars > 1:
        raise DeclarationError(f"prototype: {text.strip()!r} points at pointers, which nothing here has")
    before = re.findall(r"\w+", text.partition("*")[0])
    kept = [word for word in words if word not in _QUALIFIERS]
    signed = "signed" in words and kept == ["char"]
    return Type("int8_t" if signed else " ".join(kept), stars > 0, stars > 0 and "const" in before)


STRIDE, SIZE, BYTES = "stride", "size", "bytes"
"""The properties of a tensor that an integer argument may be, as in 'x.stride': the number of elements from one row to
the next, the number of all elements, and the number of bytes from one row to the next."""
OF_TENSORS = (STRIDE, SIZE, BYTES)
STATUS, NOTHING = "status", "nothing"
"""The meaning of a returned integer: a status, where any value but 0 refuses the call, or nothing."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|NULL")


class UnclearError(DeclarationError):
    """Arguments whose meaning is not clear."""

    def __init__(self, function: str, unclear: Mapping[str, Sequence[str]]) -> None:
        self.unclear = unclear
        """The possible meanings of each unclear argument, the likeliest first. A number, or NULL for a pointer, is
        always possible."""
        one = len(unclear) == 1
        words = " and ".join(map(repr, unclear))
        self.what = (
            f"argument{'s' * (not one)} {words} of {function} {'is' if one else 'are'} unclear: say what "
            f"{'it is' if one else 'they are'}"
        )
        examples = ", ".join(f'"{name}": "{choices[0]}"' for name, choices in unclear.items())
        super().__init__(f"prototype: {self.what}, arguments={{{examples}}}{self.instead}")

    @property
    def instead(self) -> str:
        """In words, the other possible meanings besides those in the example."""
        examples = " and ".join(dict.fromkeys(choices[0] for choices in self.unclear.values()))
        others = dict.fromkeys(each for choices in self.unclear.values() for each in choices[1:])
        return f", or in place of {examples} one of {', '.join(others)}" if others else ""


class LacksError(DeclarationError):
    """A tensor or a parameter of the op for which a function has no argument."""

    def __init__(self, argument: str, op: Op, name: str) -> None:
        self.what = f"no {argument} is {name}, which {op.name} has"
        self.is_number = any(each.name == name for each in op.parameters)
        super().__init__(f"prototype: {self.what}")


@dataclass(frozen=True)
class Binding:
    """The meaning of each argument of a function and of its result, in the op's words."""

    op: Op
    prototype: Prototype
    meanings: Mapping[str, str]
    """The meaning of each argument, by its name: 'x', 'n', 'rows', 'x.stride', 'eps', '1'."""
    returned: str
    """The name of the output that the function returns, or STATUS or NOTHING."""

    @cached_property
    def tensors(self) -> Mapping[str, Argument]:
        """The argument by which each tensor is passed, by the tensor's name."""
        meant = {self.meanings[each.name]: each for each in self.prototype.arguments}
        return {each.name: meant[each.name] for each in self.op.operands if each.name in meant}

    @property
    def handed(self) -> tuple[str, ...]:
        """The names of the tensors that are passed to or returned by the function, in the op's order."""
        return tuple(each.name for each in self.op.operands if each.name in (*self.tensors, self.returned))

    @property
    def takes_all_rows(self) -> bool:
        """Whether one call computes a whole case, since some argument is the number of rows or the size of a tensor."""
        told = {*self.meanings.values()}
        return self.op.batch_name in told or any(f"{each.name}.{SIZE}" in told for each in self.op.operands)

    @property
    def strides(self) -> Strides:
        """The most general strides that the arguments can express."""
        if not self.takes_all_rows and all(own_dims(self.op.operand(name)) <= 1 for name in self.handed):
            return "rows"
        return self.strides_at_once

    @property
    def strides_at_once(self) -> Strides:
        """The most general strides that the arguments can express if one call computes a whole case."""
        rows = [name for name in self.handed if self.op.has_rows(name)]
        told = {*self.meanings.values()}
        pitched = all({f"{name}.{STRIDE}", f"{name}.{BYTES}"} & told for name in rows)
        return "pitched" if rows and pitched else "contiguous"


def own_dims(operand: Operand) -> int:
    """Return the number of an operand's named dimensions."""
    return sum(dim != OUTER for dim in operand.axes)


def bound(op: Op, prototype: Prototype, given: Mapping[str, str], returns: str, able: Capabilities) -> Binding:
    """Return the meaning of every argument: as `given`, or from its name, or because only one meaning is left. Raise
    DeclarationError for unclear arguments, and for tensors and parameters that no argument passes."""
    names = [each.name for each in prototype.arguments]
    for name, meaning in given.items():
        if name not in names:
            raise DeclarationError(f"arguments: {prototype.name} has no argument {name!r}: it has {', '.join(names)}")
        if not _is_known(meaning, op):
            raise DeclarationError(f"arguments: {name}: {meaning!r} is not one of {_all_choices(op)}")
        _check(prototype.arguments[names.index(name)], meaning, op)
    meanings = {**dict.fromkeys(names, ""), **_by_names(op, prototype, given), **given}
    _fill_rest(op, prototype, meanings)
    unclear = [each for each in prototype.arguments if not meanings[each.name]]
    if unclear:
        raise UnclearError(prototype.name, {each.name: _choices(each, op, {*meanings.values()}) for each in unclear})
    for each in prototype.arguments:
        _check(each, meanings[each.name], op)
    binding = Binding(op, prototype, meanings, _returned(op, prototype, meanings, returns))
    _check_all(binding, able)
    return binding


def _is_known(meaning: str, op: Op) -> bool:
    tensor, _, what = meaning.partition(".")
    if what in OF_TENSORS and any(each.name == tensor for each in op.operands):
        return True
    return meaning in _plain(op) or _NUMBER.fullmatch(meaning) is not None


def extents_in(op: Op) -> tuple[str, ...]:
    """Return the named dimensions of tensors. Those whose extents follow from others come last."""
    return (*op.named, *dict.fromkeys(dim for each in op.operands for dim in each.axes if dim in op.made))


def _plain(op: Op) -> tuple[str, ...]:
    tensors, parameters = ([each.name for each in some] for some in (op.operands, op.parameters))
    return (*tensors, *extents_in(op), op.batch_name, *parameters)


def _all_choices(op: Op) -> str:
    return f"{', '.join((*dict.fromkeys(_plain(op)), *_of_tensor(op)))}, or a number"


def _of_tensor(op: Op) -> Sequence[str]:
    return [f"{op.main}.{each}" for each in OF_TENSORS]


def _choices(argument: Argument, op: Op, taken: Collection[str]) -> Sequence[str]:
    """Return the meanings that an argument of this type may have, without the `taken` ones, the likeliest first."""
    if argument.type.pointer:
        found = [*_tensors(argument, op), "NULL"]
    elif argument.type.is_float:
        found = ["1", *(each.name for each in op.parameters)]
    else:
        whole = [each.name for each in op.parameters if all(value % 1 == 0 for value in each.values)]
        found = ["1", *op.named, op.batch_name, *_of_tensor(op), *whole]
    return [each for each in found if each not in taken]


def _by_names(op: Op, prototype: Prototype, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the meanings of arguments with the name of a tensor or parameter of the op, or with a usual synonym."""
    taken, rest = {*given.values()}, [each for each in prototype.arguments if each.name not in given]
    numbers = [each for each in rest if not each.type.pointer]
    tensors = likely({each.name: {*_tensors(each, op)} - taken for each in rest if each.type.pointer})
    called = {name: argument for argument, name in (*given.items(), *tensors.items())}
    strides = {each.name: found for each in numbers if (found := _stride(each, op, called))}
    follow = {each.name: each.name for each in numbers if each.name in op.made and each.name in extents_in(op)}
    integers = [each for each in numbers if not each.type.is_float and each.name not in {*strides, *follow}]
    extents = [dim for dim in op.named if dim not in taken and dim not in op.fixed]
    spare = len(integers) > len(extents)
    parameters = [each.name for each in op.parameters if each.name not in taken]
    longer = {each.name: found for each in numbers if each.type.is_float and (found := _begun(each.name, parameters))}
    may_be: dict[str, Sequence[str]] = {each.name: parameters for each in numbers if each.type.is_float}
    for each in integers:
        is_batch = each.name == op.batch_name or (OUTER in op.inputs[0].axes and (spare or len(each.name) > 1))
        may_be[each.name] = [*extents, *parameters, *([op.batch_name] * is_batch)]
    return {**tensors, **strides, **follow, **longer, **likely(may_be)}


def _tensors(argument: Argument, op: Op) -> Iterator[str]:
    """Yield the tensors that a pointer may be. A pointer to const is no output, unless it has the output's name."""
    for each in op.operands:
        if each.name == argument.name or not argument.type.constant or op.is_input(each.name):
            yield each.name


def _stride(argument: Argument, op: Op, called: Mapping[str, str]) -> str:
    """Return 'x.stride' if the argument's name contains the name of the argument for x in a usual way, else ''."""
    for each in op.operands:
        name, lower = called.get(each.name, each.name).lower(), argument.name.lower()
        if lower in (f"{name}_{STRIDE}", f"{STRIDE}_{name}", f"ld{name}", f"ld_{name}", f"{name}_row_{STRIDE}"):
            return f"{each.name}.{STRIDE}"
    return ""


def _begun(name: str, parameters: Sequence[str]) -> str:
    """Return the only parameter with which `name` begins, or '' if there is none or several."""
    found = [each for each in parameters if len(each) > 2 and name.lower().startswith(each)]
    return found[0] if len(found) == 1 else ""


def _fill_rest(op: Op, prototype: Prototype, meanings: dict[str, str]) -> None:
    """Add the meaning of each argument for which only one meaning is left: an input, an output, an extent."""
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


def _check(argument: Argument, meaning: str, op: Op) -> None:
    """Raise DeclarationError for an argument whose type does not fit its declared meaning."""
    name = argument.name
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


def _check_all(binding: Binding, able: Capabilities) -> None:
    """Raise DeclarationError for a tensor, parameter or extent that the function needs but no argument passes."""
    op, function, told = binding.op, binding.prototype.name, {*binding.meanings.values()}
    lacking = [each.name for each in op.operands if not each.optional and each.name not in binding.handed]
    lacking += [each.name for each in op.parameters if each.neutral is None and each.name not in told]
    if lacking:
        raise LacksError(f"argument of {function}", op, lacking[0])
    sized = any(f"{each.name}.{SIZE}" in told for each in op.operands)
    told |= {dim for each in told & op.made.keys() for dim in extents_of(op.made[each])}
    for dim in op.named:
        fixed = dim in op.fixed or able.max.get(dim) == able.multiple_of.get(dim, 0)
        if dim not in told and not fixed and not sized:
            always = f"max={{{dim!r}: 64}}, multiple_of={{{dim!r}: 64}}"
            raise DeclarationError(
                f"prototype: no argument of {function} is the extent {dim!r}: one that never changes is declared with "
                f"{always}"
            )
