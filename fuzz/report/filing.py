"""A failure as a text to paste elsewhere: a failing case as a few lines of Markdown that explain themselves; and a bug
of the nights as an issue that is ready to file: a title, a program, what came and what must come, the versions, and
what to say once its case passes."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fuzz.core.adapters.build import BuildError, edited_source
from fuzz.core.adapters.export import hex_words
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.case import Case, Tensor, contiguous
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.excerpt import function_text
from fuzz.core.base.kernel import Kernel
from fuzz.explain.explanation import Explanation, Memory
from fuzz.findings.database_views import BucketTotals, NightView
from fuzz.report.brief import brief_of
from fuzz.report.words import nested, what_is_wrong
from oracles.dtypes import ITEMSIZE
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS
from oracles.rounding import NATIVE

_WIDTH = 200
"""The columns of a line; a page breaks longer ones."""
_LISTED = 12
"""The most elements that are listed one by one. Chosen."""
_MOST, _FAR = 2000, 20_000
"""The most characters of a packed tensor: that anybody would paste, and that an issue accepts. Chosen."""


def snippet(told: Explanation, case: Case) -> str:
    """Return what is wrong, the inputs bit for bit as Python that needs only NumPy, the result, the expected result,
    and the effect of single changes. Large inputs are cut to the slice of the worst element, if it depends on no other
    slice. Inputs that are still too large are replaced by similar values."""
    said = brief_of(told, _WIDTH)
    inputs, slices = case.inputs, ""
    row = _one_row(told, case)
    if row is not None and not _fits(inputs, _MOST) and (_fits(row, _MOST) or not _fits(inputs, _FAR)):
        inputs, slices = row, " (here only the row of that element, from which follows what must come)"
    lost = [name for name, tensor in inputs.items() if not _fits({name: tensor}, _FAR)]
    given = ", ".join([*inputs, *(name for name in case.params if name != AXIS)])
    unlike = f"{' and '.join(lost)} only like the failing values, which the case file has: " if lost else ""
    packed = any(_is_packed(tensor) for name, tensor in inputs.items() if name not in lost)
    lines = [
        f"**{told.kernel}: {what_is_wrong(told)}** ({said.where})",
        "```python",
        "import base64, zlib, numpy as np" if packed else "import numpy as np",
        *(
            _alike(name, tensor) if name in lost else _line(name, tensor, told.case.inputs.get(name))
            for name, tensor in inputs.items()
        ),
        *(f"{name} = {_number(value)}" for name, value in case.params.items() if name != AXIS),
        f"# {unlike}{told.kernel}({given}): {said.outcome}{slices}",
        "```",
        *([said.evidence] if said.evidence else []),
        f"kernelfuzz {told.kernelfuzz}, op {told.op}, {told.target}, case {case.digest[:12]}",
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _is_packed(tensor: Tensor) -> bool:
    return len({*hex_words(tensor)}) > 1 and tensor.layout.size > _LISTED


def _packed(tensor: Tensor) -> str:
    return base64.b85encode(zlib.compress(tensor.bits, 9)).decode()


def _fits(inputs: Mapping[str, Tensor], most: int) -> bool:
    return all(len(_packed(tensor)) <= most for tensor in inputs.values() if _is_packed(tensor))


def _one_row(told: Explanation, case: Case) -> Mapping[str, Tensor] | None:
    """Return the inputs cut to the worst element's slice along the dimensions of a batch; None if the slice is unknown,
    or is everything."""
    op, worst = OPS.get(case.op), told.worst
    if op is None or worst is None or worst.output not in case.outputs:
        return None
    rank, axes = len(case.outputs[worst.output].layout.shape), op.operand(worst.output).axes
    outer = rank - len(axes) + 1
    if axes[:1] != (OUTER,) or outer < 1 or (op.any_axis and case.params.get(AXIS) not in (-1, rank - 1)):
        return None
    place = tuple(slice(at, at + 1) for at in worst.index[:outer])
    found = {name: _at(tensor, place) if op.operand(name).axes[:1] == (OUTER,) else tensor
             for name, tensor in case.inputs.items()}  # fmt: skip
    return found if found != dict(case.inputs) and all(each.layout.size for each in found.values()) else None


def _at(tensor: Tensor, place: tuple[slice, ...]) -> Tensor:
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape)[place]
    return replace(tensor, layout=contiguous(values.shape), bits=np.ascontiguousarray(values).tobytes(), alias=None)


def _alike(name: str, tensor: Tensor) -> str:
    """Return an assignment of random values that are about as large, in float32 if NumPy lacks the dtype."""
    with np.errstate(all="ignore"):
        values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float64)
        finite = values[np.isfinite(values)]
        mean, spread = (float(np.nan_to_num(each)) for each in (finite.mean(), finite.std()))
    known = NATIVE.get(tensor.dtype)
    dtype = known.str if known is not None else "<f4"
    made = f"np.random.default_rng(0).normal({mean:.4g}, {spread:.4g}, {tensor.layout.shape}).astype('{dtype}')"
    return f"{name} = {made}  # {tensor.dtype}, not bit for bit"


def expression(tensor: Tensor) -> str:
    """Return an expression of Python for a contiguous tensor, which needs `np`, `base64` and `zlib`. If NumPy lacks the
    dtype, the expression is of the tensor's bits."""
    size, words = ITEMSIZE[tensor.dtype], hex_words(tensor)
    if _is_packed(tensor):
        made = f"np.frombuffer(zlib.decompress(base64.b85decode({_packed(tensor)!r})), '<u{size}').copy()"
    elif len({*words}) == 1 and tensor.layout.size > 1:
        made = f"np.full({tensor.layout.size}, 0x{words[0]}, '<u{size}')"
    else:
        made = f"np.array([{', '.join(f'0x{word}' for word in words)}], '<u{size}')"
    known = NATIVE.get(tensor.dtype)
    return f"{made}{f'.view({known.str!r})' if known is not None else ''}.reshape({tensor.layout.shape})"


def _line(name: str, tensor: Tensor, seen: Memory | None) -> str:
    """Return an assignment of the tensor, with a comment on its values if they are few, and on its memory."""
    shape = tensor.layout.shape
    remarks = [tensor.dtype if tensor.dtype in NATIVE else f"the bits of {tensor.dtype}"]
    if seen is not None and seen.shape == shape and 0 < len(seen.values) <= _LISTED:
        remarks.insert(0, nested(seen))
    if tensor.layout.strides != contiguous(shape).strides:
        remarks.append(f"with strides {[*tensor.layout.strides]}")
    if tensor.alias is not None:
        remarks.append(f"the same memory as {tensor.alias}")
    return f"{name} = {expression(tensor)}  # {', '.join(remarks)}"


_LONGEST = 120
"""The most lines of a kernel's source in the text. Chosen: one that nobody would read belongs into an attachment."""


@dataclass(frozen=True)
class IssueText:
    """A title and a body in Markdown."""

    title: str
    body: str

    def __str__(self) -> str:
        return f"# {self.title}\n\n{self.body}\n"


def issue_of(bucket: BucketTotals, seen: NightView, kernel: Kernel | None, case: Case) -> IssueText:
    """Return the text for a bug. `kernel` is its kernel, if the pack still has it; `case` is its smallest case."""
    told, file = bucket.told, bucket.row.case_file
    said = brief_of(told, _WIDTH)
    program = "" if kernel is None else program_of(kernel, case)
    shown = f"```python\n{program}```\nIt prints what came: {said.outcome}." if program else snippet(told, case)
    lines = [
        shown,
        "",
        *([said.evidence, ""] if program and said.evidence else []),
        f"Seen {bucket.count:,} times since night {bucket.first_night}, on {', '.join(sorted(bucket.sightings))}.",
        *(f"- {line}" for line in _versions(seen)),
        f"- case file {file}, which `kernelfuzz repro {file} --target {told.target}` runs again"
        f"{'' if program else ', and with `--script FILE` writes as a program'}",
    ]
    library = f"{', '.join(kernel.packages)}: " if kernel is not None and kernel.packages else ""
    return IssueText(f"{library}{told.kernel}: {what_is_wrong(told)}", "\n".join(lines))


def closing_of(bucket: BucketTotals, seen: NightView) -> str:
    """Return the text with which the issue of a bug is closed, whose case passes in this night."""
    passes = f"The case passes since night {seen.night.id}; it failed last in night {bucket.last_night}."
    return "\n".join([passes, *(f"- {line}" for line in _versions(seen))])


def returned_of(bucket: BucketTotals, seen: NightView) -> str:
    """Return the text with which the issue of a bug is opened again, which had passed and fails in this night."""
    fails = f"The case fails again in night {seen.night.id}: {brief_of(bucket.told, _WIDTH).outcome}."
    return "\n".join([fails, *(f"- {line}" for line in _versions(seen))])


def _versions(seen: NightView) -> Iterator[str]:
    """Yield lines on what ran in the night."""
    facts = seen.night.environment
    packages = {name: version for name, version in (facts.get("packages") or {}).items() if version}
    named = {"kernelfuzz": facts.get("kernelfuzz"), "Python": facts.get("python"), **packages}
    yield ", ".join(f"{name} {version}" for name, version in named.items() if version)
    yield ", ".join(str(facts[name]) for name in ("system", "machine", "cpu") if facts.get(name))
    if facts.get("commit"):
        yield f"commit {facts['commit']}"


def program_of(kernel: Kernel, case: Case) -> str:
    """Return a program that calls a kernel of torch or NumPy with the case, and needs nothing else; '' if a few lines
    cannot show it."""
    if not isinstance(kernel, PythonKernel) or kernel.framework not in ("torch", "numpy"):
        return ""
    for each in case.tensors.values():
        plain = each.layout.strides == contiguous(each.layout.shape).strides
        if each.dtype not in NATIVE or not plain or each.alias is not None:
            return ""
    try:
        text, takes = function_text(edited_source(kernel), kernel.function)
    except (BuildError, SyntaxError, KeyError):
        return ""
    if text.count("\n") > _LONGEST:
        return ""
    own, torch = {meant: name for name, meant in dict(kernel.arguments).items()}, kernel.framework == "torch"
    library, lines, called = "torch" if torch else "np", list[str](), dict[str, str]()
    for name, tensor in case.inputs.items():
        made = expression(tensor)
        lines.append(f"{name} = {f'torch.from_numpy({made})' if torch else made}")
        called[own.get(name, name)] = name
    called |= {own.get(name, name): repr(value) for name, value in case.params.items() if name != AXIS or name in takes}
    written = [name for name in case.outputs if own.get(name, name) in takes]
    for name in written:
        dtype, shape = NATIVE[case.outputs[name].dtype].name, case.outputs[name].layout.shape
        lines.append(f"{name} = {library}.empty({shape}, dtype={library}.{dtype})")
        called[own.get(name, name)] = name
    called |= {name: repr(value) for name, value in kernel.options}
    call = f"{kernel.function}({', '.join(f'{name}={value}' for name, value in called.items())})"
    lines += [call, f"print({', '.join(written)})"] if written else [f"print({call})"]
    packed = ["import base64", "import zlib"] if any("base64" in line for line in lines) else []
    variables = [f"os.environ[{name!r}] = {value!r}" for name, value in kernel.variables.items()]
    imports = ["import numpy as np", *(["import torch"] if torch else [])]
    head = [*(["import os"] if variables else []), *packed, *variables, *imports]
    future = [line for line in text.splitlines() if line.startswith("from __future__")]
    rest = [line for line in text.splitlines() if line not in (*head, *future)]
    return "\n".join([*future, *head, *rest, "", *lines, ""])
