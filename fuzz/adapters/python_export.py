"""A failing case of a Python kernel as one file that needs torch, Triton where the kernel does, and numpy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fuzz.adapters.build import edited_source
from fuzz.adapters.export import Script, hex_words
from fuzz.base.case import ITEMSIZE, Case, Output, Tensor
from fuzz.base.kernel import Kernel

_HARNESS = Path(__file__).with_name("standalone.txt")
_SIBLING = re.compile(r"^\s*from \.(\w+) import|^\s*from \. import (\w+)", re.MULTILINE)
_WIDTH = 118


def python_script(
    kernel: Kernel, function: str, options: Mapping[str, object], device: str, script: Script, about: Sequence[str]
) -> str:
    """The program's text; `about` is said in its first comment."""
    sources = _sources(kernel.source.parent, {kernel.source.name: edited_source(kernel)})
    return "\n".join(
        [
            *(f"# {line}".rstrip() for line in about),
            "import importlib", "import inspect", "import math", "import os", "import sys", "import tempfile",
            "from pathlib import Path", "",
            *(['os.environ["TRITON_INTERPRET"] = "1"', ""] if device == "interpret" else []),
            "import numpy as np", "import torch", "",
            f"DEVICE = {'cuda' if device == 'cuda' else 'cpu'!r}",
            f"PACKAGE, MODULE, ENTRY = {'repro_kernel'!r}, {kernel.source.stem!r}, {function!r}",
            f"OPTIONS = {dict(options)!r}",
            f"INVALID, LAW = {script.invalid!r}, {script.law!r}",
            "SOURCES = {}",
            *(f"SOURCES[{name!r}] = {_quoted(text)}" for name, text in sources.items()),
            "CALLS = [",
            *(line for number, case in enumerate(script.cases) for line in _call(number, case, script)),
            "]",
            _HARNESS.read_text(encoding="utf-8"),
        ]
    )  # fmt: skip


def _sources(folder: Path, found: dict[str, str]) -> dict[str, str]:
    """The kernel's file, and those of its siblings that it imports."""
    waiting = list(found.values())
    while waiting:
        for names in _SIBLING.findall(waiting.pop()):
            path = folder / f"{names[0] or names[1]}.py"
            if path.name not in found and path.is_file():
                found[path.name] = path.read_text(encoding="utf-8")
                waiting.append(found[path.name])
    return found


def _quoted(text: str) -> str:
    plain = "'''" not in text and not text.endswith(("'", "\\"))
    return f"r'''{text}'''" if plain else repr(text)


def _call(number: int, case: Case, script: Script) -> Iterator[str]:
    params = {"offset": 0.0, **case.params}
    yield f'    {{"params": {params!r}, "tensors": {{'
    for name, tensor in case.tensors.items():
        yield from _tensor(name, tensor, script, last=number == len(script.cases) - 1)
    yield "    }},"


def _tensor(name: str, tensor: Tensor | Output, script: Script, *, last: bool) -> Iterator[str]:
    layout, size = tensor.layout, ITEMSIZE[tensor.dtype]
    facts = {"dtype": tensor.dtype, "shape": layout.shape, "strides": layout.strides}
    yield f'        {name!r}: {{**{facts!r}, "alignment": {layout.alignment(size)},'
    if tensor.alias is not None:
        yield f'            "alias": {tensor.alias!r},'
    if isinstance(tensor, Tensor):
        words = hex_words(tensor)
        per_line = max(1, (_WIDTH - 20) // (2 * size + 1))
        yield '            "bits": ('
        yield from (f'                "{" ".join(words[i : i + per_line])} "' for i in range(0, len(words), per_line))
        yield '                ""),'
    else:
        allowed = script.allowed.get(name, []) if last else []
        yield '            "allowed": ['
        yield from (f"                ({a.index}, {_real(a.low)}, {_real(a.high)}, {a.rule})," for a in allowed)
        yield "            ],"
        if last and name in script.origins:
            yield f'            "from": {script.origins[name]!r},'
    yield "        },"


def _real(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f"float({str(value)!r})"
    return repr(value)
