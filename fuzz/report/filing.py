"""A bug of the nights as a text that is ready to file: a title, a program, what came and what must come, the versions;
and what to say once its case passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fuzz.core.adapters.build import BuildError, edited_source
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.base.case import Case, contiguous
from fuzz.core.base.excerpt import function_text
from fuzz.core.base.kernel import Kernel
from fuzz.findings.database_views import BucketTotals, NightView
from fuzz.report.brief import brief_of
from fuzz.report.snippet import expression, snippet
from fuzz.report.words import what_is_wrong
from oracles.operand import AXIS
from oracles.rounding import NATIVE

_WIDTH = 200
"""The columns of a line; a page breaks longer ones."""
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
