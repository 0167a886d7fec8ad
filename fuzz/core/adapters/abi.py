"""The C interface of an op, generated from its declaration: the header `kernelfuzz.h`, which kernels include, and the
code by which the worker passes a case to a kernel. The members of a structure are the inputs, the outputs, the axis and
the parameters, in the op's order."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache

from fuzz.core.adapters.build import NATIVE, BuildError
from fuzz.core.transport.records import DTYPES as CODES
from oracles.dtypes import DTYPES, ITEMSIZE
from oracles.op import Op
from oracles.operand import AXIS, Operand, Parameter
from oracles.ops import OPS

HEADER = "kernelfuzz.h"
_FOLLOW = "/* The ops follow. */\n"
_DTYPES = "    KF_DTYPES\n"
_WIDTH = 120
_KEYWORDS = {
    "asm", "auto", "bool", "break", "case", "char", "class", "const", "continue", "default", "delete", "do", "double",
    "else", "enum", "extern", "float", "for", "goto", "if", "inline", "int", "linux", "long", "namespace", "new",
    "operator", "private", "protected", "public", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "template", "this", "throw", "try", "typedef", "typename", "typeof", "union",
    "unix", "unsigned", "using", "virtual", "void", "volatile", "while",
}  # fmt: skip
"""Words that cannot be names of members: keywords of C and C++, and macros of compilers, such as `linux`."""


def header(ops: Iterable[Op]) -> str:
    """Return `kernelfuzz.h` with the structures of these ops. Raise BuildError if a name in one is a keyword of C."""
    rows = [f"    {f'{constant(name)} = {code},':16}/* {DTYPES[name].spelling} */\n" for name, code in CODES.items()]
    return _fixed(HEADER).replace(_DTYPES, "".join(rows)).replace(_FOLLOW, "\n".join(map(declaration, ops)))


def constant(dtype: str) -> str:
    """Return the constant in C that stands for a dtype."""
    return f"KF_{dtype.upper()}"


def dtype_flags() -> list[str]:
    """Return the compiler flags that define code and item size of each dtype for the worker's C code, in one order."""
    values = (f"{constant(name)} = {code}" for name, code in CODES.items())
    return [f"-DKF_DTYPES={','.join(values)}", f"-DKF_ITEMSIZES={','.join(map(str, ITEMSIZE.values()))}"]


def named_ops(own: Op, texts: Iterable[str]) -> tuple[Op, ...]:
    """Return the ops in a kernel's header: the kernel's own op, and others that its texts name. Other ops are left out,
    so that a change to them does not rebuild the kernel."""
    words = {word for text in texts for word in re.findall(r"\bkf_(\w+)", text)}
    others = (op for name, op in OPS.items() if op != own and {name, f"{name}_call"} & words)
    return (own, *sorted(others, key=lambda op: op.name))


def declaration(op: Op) -> str:
    """Return the structure of a call and the prototype of the entry, in C."""
    _check_words(op)
    members = [*(_tensor(op, each) for each in op.operands), (f"int {AXIS};", ""), *map(_number, op.parameters)]
    width = max(len(member) for member, _ in members)
    lines = [f"    {member:{width}}{said and f' /* {said} */'}".rstrip() for member, said in members]
    call = f"kf_{op.name}_call"
    struct = "\n".join(["typedef struct {", *lines, f"}} {call};"])
    return f"{_comment(op)}\n{struct}\n\n{prototype(op)};\n"


def prototype(op: Op) -> str:
    """Return the signature of the entry, in C."""
    return f"int kf_{op.name}(const kf_{op.name}_call *call)"


def is_known(op: Op, texts: Iterable[str]) -> bool:
    """Whether one of the kernel's source texts includes the header of its entry, or declares the entry's argument."""
    return any(HEADER in text or f"kf_{op.name}_call" in text for text in texts)


def entry(op: Op) -> str:
    """Return the worker's C code for one op, which fills the structure and calls the entry."""
    tensors = [
        f'.{each.name} = described(c, "{each.name}", {"OPTIONAL" if each.optional else "REQUIRED"})'
        for each in op.operands
    ]
    numbers = [f".{each.name} = {_given(each)}" for each in op.parameters]
    members = "\n".join(f"        {each}," for each in [*tensors, f".{AXIS} = normalised_axis(c)", *numbers])
    return (
        f'#include "worker.h"\n\n{declaration(op)}\n'
        f'const char op_name[] = "{op.name}";\n\n'
        f"int call_op(const test_case *c) {{\n    const kf_{op.name}_call call = {{\n{members}\n    }};\n"
        f"    return enter(kf_{op.name}, &call);\n}}\n"
    )


def real(value: float) -> str:
    """Return an exact C expression for a number, which needs no header."""
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return float(value).hex()


def params(op: Op, given: Mapping[str, float | int]) -> dict[str, float | int]:
    """Return the numeric members of the structure, by name, for a call with these parameters."""
    return {name: value for name, value in {**op.neutral, **given}.items() if name in op.params}


def _tensor(op: Op, operand: Operand) -> tuple[str, str]:
    said = [f"[{', '.join(operand.axes)}]"]
    said += [operand.meant] if operand.integers else []
    said += ["output"] if not op.is_input(operand.name) else []
    said += ["optional"] if operand.optional else []
    said += ["stackable"] if operand.stackable else []
    return f"kf_tensor {operand.name};", ", ".join(said)


def _number(parameter: Parameter) -> tuple[str, str]:
    said = "" if parameter.neutral is None else f"{parameter.neutral:g} by default"
    return f"float {parameter.name};", said


def _given(parameter: Parameter) -> str:
    if parameter.neutral is None:
        return f'real_param(c, "{parameter.name}")'
    return f'real_param_or(c, "{parameter.name}", (float){real(parameter.neutral)})'


def _comment(op: Op) -> str:
    said = [f"{op.name}: {op.summary}." if op.summary else op.name]
    meaning = inspect.cleandoc(op.formula.__doc__ or "").splitlines()
    lines = [line.replace("*/", "* /").rstrip() for line in [*said, *meaning]]
    return "/* " + "\n * ".join(lines).replace(" * \n", " *\n") + " */"


def _check_words(op: Op) -> None:
    taken = {word for name in (HEADER, "worker.h", "identity.h") for word in re.findall(r"\bkf_(\w+)", _fixed(name))}
    if {op.name, f"{op.name}_call"} & taken:
        raise BuildError(f"{op.name}: no C kernel can have an op of this name: kf_{op.name} is something else")
    for name in (*(each.name for each in op.operands), *(each.name for each in op.parameters)):
        if name in _KEYWORDS:
            raise BuildError(f"{op.name}: no C kernel can have {name!r}, which is a word of C: give it another name")


@cache
def _fixed(name: str) -> str:
    return (NATIVE / name).read_text(encoding="utf-8")
