"""The meanings of the words in reports; verdicts have an example kernel that causes them. `kernelfuzz explain` and the
pages show them. The texts are in `glossary.toml`."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.layouts import LAYOUT_CLASSES
from fuzz.core.generate.menus import FACTORS, recipes
from fuzz.core.laws.registry import LAWS

_PLAIN = 'PythonKernel("mine", "softmax", HERE / "mine.py", "numpy", capabilities=Capabilities(empty=False))'


@dataclass(frozen=True)
class Meaning:
    """The meaning of one verdict."""

    what: str
    """A sentence whose subject is the kernel."""
    next: str
    why: str = ""
    """A sentence about the example."""
    example: str = ""
    """A kernel in NumPy that causes the verdict; '' if no kernel does."""
    declared: str = _PLAIN
    """The declaration of the kernel in the pack of the example."""

    def lines(self, word: str) -> Iterator[str]:
        """Yield the lines that `kernelfuzz explain` prints."""
        yield f"{word}: {self.what}"
        yield ""
        if self.example:
            yield f"For example: {self.why}"
            yield ""
            yield from textwrap.indent(self.shown, "    ").splitlines()
            yield ""
        yield f"Next: {self.next}"

    @property
    def shown(self) -> str:
        """The example, with its declaration if that matters."""
        return self.example if self.declared == _PLAIN else f"{self.example}\n\n# declared as\n{self.declared}"

    def markdown(self, word: str) -> Iterator[str]:
        """Yield the section of the page about the verdict."""
        yield f"### {word}\n\n{self.what}\n"
        if self.example:
            yield f"{self.why[:1].upper()}{self.why[1:]}\n"
            yield f"```python file={word}/mine.py\nimport numpy as np\n\n\n{self.example}\n```\n"
        if self.declared != _PLAIN:
            yield f"It is declared as `{self.declared}`.\n"
        yield f"**Next:** {self.next}\n"


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LABELS: Mapping[str, str] = _TEXTS["labels"]
"""The labels in the full text of a failure."""
RUNS: Mapping[str, str] = _TEXTS["runs"]
"""The words of the table, of the first lines of a failure, and of the last lines of a search."""
FIELDS: Mapping[str, str] = _TEXTS["fields"]
"""The fields of `Capabilities` that the end of a search names."""
GIVEN: Mapping[str, str] = _TEXTS["given"]
"""The kinds of values that are tried in place of those of a smallest case."""
RULINGS: Mapping[str, str] = _TEXTS["rulings"]
"""The verdicts of `kernelfuzz judge`."""
MEANINGS: Mapping[Verdict, Meaning] = {Verdict(name): Meaning(**each) for name, each in _TEXTS["verdicts"].items()}


def glossary() -> Mapping[str, tuple[str, ...]]:
    """Return the meanings of each word: some words mean different things in different places."""
    found = dict[str, tuple[str, ...]]()
    for kind, rows in (
        ("a line of a failure", LABELS),
        ("a word of a report", RUNS),
        ("a field of Capabilities", FIELDS),
        ("values of a case with one thing changed", GIVEN),
        ("a recipe for rows", {name: each.summary for name, each in recipes().items()}),
        ("a recipe for factors", {name: each.summary for name, each in FACTORS.items()}),
        ("a layout", {name: each.summary for name, each in LAYOUT_CLASSES.items()}),
        ("a law", {name: each.summary for name, each in LAWS.items()}),
    ):
        for word, meaning in rows.items():
            found[word] = (*found.get(word, ()), f"{word}, {kind}: {meaning}")
    return found
