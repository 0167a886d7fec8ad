"""A picture of what a command prints on a terminal: `python3 -m fuzz.docs.picture demo > fuzz/docs/static/demo.svg`.
Likewise `failure.svg`: `show b88a1c --pack pack`, where reading-a-failure.md has its search."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 80
_FONTS = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)
"""What asks another machine for a font: a page shall open without a network."""


def picture(words: Sequence[str]) -> str:
    """Run kernelfuzz with these words, and return its output as SVG."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", *words], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode in (0, 1), f"exit code {done.returncode}"  # 1: it shows a finding
    return drawn(" ".join(["kernelfuzz", *words]), done.stdout)


def drawn(command: str, printed: str) -> str:
    """Return the picture of a terminal in which that command printed this."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False, markup=False)
    console.print(Text.from_ansi(f"$ {command}\n\n{printed.rstrip()}"))
    return console.export_svg(title=command, theme=MONOKAI, code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT))


if __name__ == "__main__":
    print(picture(sys.argv[1:]))
