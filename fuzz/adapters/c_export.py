"""A failing case of a C kernel as one C file that needs a compiler and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.adapters.build import NATIVE, edited_source
from fuzz.adapters.export import Allowed, Script, hex_words
from fuzz.base.case import ITEMSIZE, Case, Output, Tensor
from fuzz.base.kernel import Kernel
from fuzz.base.op import OPS

_HARNESS = Path(__file__).with_name("standalone.c")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_WORDS_PER_LINE = 12
_TYPES = """
#include <stddef.h>
typedef struct { int64_t index; double low, high; unsigned rule; } kfs_allowed;
typedef struct {
    const char *name;
    int is_output, home, after;
    kf_dtype dtype;
    int rank;
    int64_t shape[KF_MAX_RANK], strides[KF_MAX_RANK], offset, lowest, extent;
    const void *bits;
    const kfs_allowed *allowed;
    int64_t expected;
    const int32_t *from;
    char *first, *region;
    size_t bytes;
} kfs_tensor;
enum { KFS_MOST_TENSORS = 12 };
typedef struct {
    int count;
    kfs_tensor tensors[KFS_MOST_TENSORS];
    int (*enter)(const kfs_tensor *);
} kfs_call;

static kf_tensor kfs_given(const kfs_tensor *t) {
    kf_tensor given = {t->first, t->dtype, t->rank, {0}, {0}};
    for (int axis = 0; axis < t->rank; axis++) {
        given.shape[axis] = t->shape[axis];
        given.strides[axis] = t->strides[axis];
    }
    return given;
}
"""


def c_script(kernel: Kernel, script: Script, about: Sequence[str]) -> str:
    """The program's text; `about` is said in its first comment."""
    return "\n".join(
        [
            _comment(about),
            _with_includes(edited_source(kernel), kernel.source.parent),
            _TYPES,
            *(line for number, case in enumerate(script.cases) for line in _call(number, case, script)),
            f"static kfs_call kfs_calls[] = {{{', '.join(f'KFS_CALL_{n}' for n in range(len(script.cases)))}}};",
            f"enum {{ KFS_CALLS = {len(script.cases)}, KFS_INVALID = {int(script.invalid)}, "
            f"KFS_LAW = {int(script.law)} }};",
            _HARNESS.read_text(),
        ]
    )


def _comment(lines: Sequence[str]) -> str:
    return "/* " + "\n * ".join(line.replace("*/", "* /") for line in lines).replace(" * \n", " *\n") + "\n */"


def _with_includes(text: str, folder: Path) -> str:
    """Every file that is included by quotes in place of its line; headers guard themselves against coming twice."""

    def inlined(match: re.Match[str]) -> str:
        path = next((place for place in (folder / match[1], NATIVE / match[1]) if place.is_file()), None)
        return match[0] if path is None else _with_includes(path.read_text(), path.parent)

    return _INCLUDE.sub(inlined, text)


def _call(number: int, case: Case, script: Script) -> Iterator[str]:
    """Data and entry of one call."""
    last = number == len(script.cases) - 1
    names = list(case.tensors)
    rows = []
    for name, tensor in case.tensors.items():
        stem = f"kfs_{number}_{name}"
        bits = from_ = allowed = "NULL"
        count = 0
        if isinstance(tensor, Tensor):
            bits = f"{stem}_bits"
            yield _array(f"uint{8 * ITEMSIZE[tensor.dtype]}_t {bits}", [f"0x{word}" for word in hex_words(tensor)])
        elif last and script.allowed.get(name):
            allowed, count = f"{stem}_allowed", len(script.allowed[name])
            yield _array(f"kfs_allowed {allowed}", [_expected(each) for each in script.allowed[name]], 2)
        if last and name in script.origins and not isinstance(tensor, Tensor):
            from_ = f"{stem}_from"
            yield _array(f"int32_t {from_}", [str(place) for place in script.origins[name]])
        rows.append(_tensor(case, names, name, tensor, [bits, allowed, str(count), from_]))
    members = [f".{name} = kfs_given(&t[{place}])" for place, name in enumerate(names)]
    members += [f".{name} = {_param(value)}" for name, value in case.params.items()]
    members += [] if "offset" in case.params or "offset" not in OPS[case.op].params else [".offset = 0"]
    yield f"static int kfs_enter_{number}(const kfs_tensor *t) {{"
    yield f"    const kf_{case.op}_call call = {{{', '.join(members)}}};"
    yield f"    return kf_{case.op}(&call);\n}}"
    listed = ",\\\n    ".join(rows)
    yield f"#define KFS_CALL_{number} {{{len(names)}, {{\\\n    {listed}}}, kfs_enter_{number}}}"


def _tensor(case: Case, names: Sequence[str], name: str, tensor: Tensor | Output, data: Sequence[str]) -> str:
    layout, own = tensor.layout, tensor.alias
    home = names.index(case.home(own) or own) if own is not None else names.index(name)
    dtype = {"f16": "KF_F16", "bf16": "KF_BF16", "f32": "KF_F32", "f64": "KF_F64"}[tensor.dtype]
    numbers = [layout.offset, layout.lowest, layout.extent]
    parts = [
        f'"{name}"', str(int(isinstance(tensor, Output))), str(home), str(int(layout.guard == "after")), dtype,
        str(len(layout.shape)), _braced(layout.shape), _braced(layout.strides), *map(str, numbers), *data,
    ]  # fmt: skip
    return f"{{{', '.join(parts)}, NULL, NULL, 0}}"


def _braced(numbers: Sequence[int]) -> str:
    return "{" + (", ".join(map(str, numbers)) or "0") + "}"


def _array(head: str, items: Sequence[str], per_line: int = _WORDS_PER_LINE) -> str:
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return f"static const {head}[] = {{\n    " + (",\n    ".join(lines) or "0") + "};"


def _expected(allowed: Allowed) -> str:
    return f"{{{allowed.index}, {_real(allowed.low)}, {_real(allowed.high)}, {allowed.rule}}}"


def _real(value: float) -> str:
    """As C writes it; NaN and infinities are macros of math.h, which comes later."""
    if value != value:
        return '__builtin_nan("")'
    if value in (float("inf"), float("-inf")):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return value.hex()


def _param(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value.hex()}f"
