"""Prototypes of C functions, as headers have them: what a call of one is given, and what it returns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fuzz.base.capability import DeclarationError
from oracles.dtypes import DTYPES, FLOATS

_QUALIFIERS = {
    "const", "volatile", "restrict", "__restrict", "__restrict__", "extern", "static", "inline", "signed", "struct",
    "enum", "int", "register", "__global__",
}  # fmt: skip
"""Words that say nothing of the size of a type, besides others."""
_FLOATS = {"float": "f32", "double": "f64", **dict.fromkeys(("_Float16", "__fp16", "half", "__half"), "f16"),
           **dict.fromkeys(("__bf16", "nv_bfloat16", "__nv_bfloat16"), "bf16")}  # fmt: skip
_BYTES = {"char": 1, "short": 2, "": 4, "long": 8, "long long": 8, "size_t": 8, "ssize_t": 8, "ptrdiff_t": 8,
          "intptr_t": 8, "uintptr_t": 8, **{f"int{8 * size}_t": size for size in (1, 2, 4, 8)},
          **{f"uint{8 * size}_t": size for size in (1, 2, 4, 8)}}  # fmt: skip
"""The sizes of C's integers in bytes by what is left of their names, as 64-bit Linux has them."""
_CALL = re.compile(r"\s*(?P<result>[\w\s*]*?[\s*])(?P<name>[A-Za-z_]\w*)\s*\((?P<given>.*)\)\s*;?\s*", re.DOTALL)
_COMMENT = re.compile(
    r"/\*.*?\*/|//[^\n]*|__attribute__\s*\(\(.*?\)\)|__launch_bounds__\s*\([^()]*\)|extern\s+\"C\"", re.DOTALL
)


@dataclass(frozen=True)
class Type:
    """A type as C writes it, without what it is pointed at by."""

    word: str
    """The type without qualifiers, such as 'float' or 'unsigned long'; of what is pointed at, for a pointer."""
    pointer: bool = False
    constant: bool = False
    """Whether what it points at may not be written."""

    @property
    def is_float(self) -> bool:
        """True for a number that is passed as a float or a double."""
        return not self.pointer and self.word in ("float", "double")

    @property
    def size(self) -> int | None:
        """The size of an integer in bytes; None for any other type."""
        return _BYTES.get(self.word.removeprefix("unsigned").strip())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that elements of this type may have: all of them for a type that is not C's own."""
        if self.word in _FLOATS:
            return (_FLOATS[self.word],)
        if self.size is None:
            return tuple(DTYPES)
        return tuple(
            name for name, each in DTYPES.items() if each.itemsize == self.size and (name not in FLOATS or self.raw)
        )

    @property
    def raw(self) -> bool:
        """Whether it is what C hands floats over as that it has no type of."""
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
    """A function: its name in the library, what it is given, and what it returns."""

    name: str
    result: Type
    arguments: tuple[Argument, ...]

    @property
    def is_void(self) -> bool:
        """True where it returns nothing."""
        return self.result.word == "void" and not self.result.pointer


def parsed(text: str) -> Prototype:
    """The prototype that is written there. Raises DeclarationError, which names the argument that is not understood."""
    call = _CALL.fullmatch(_COMMENT.sub(" ", text))
    if call is None:
        raise DeclarationError(f"prototype: {text!r} is none of C: write 'void f(const float *x, float *y, int n)'")
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
