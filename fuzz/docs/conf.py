"""How Sphinx makes a site of these pages, which are read on GitHub as well: `python3 -m sphinx -W fuzz/docs OUT`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parents[1]))

from fuzz.core.base import __version__  # noqa: E402
from fuzz.docs import reference  # noqa: E402

project = "kernelfuzz"
version = release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
smartquotes = False  # --max-time is an option, and "input" what is typed
html_theme = "furo"
html_title = f"kernelfuzz {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_copyright = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = False

_OUTSIDE = re.compile(r"\[([^]]*)\]\((\.\./[^)#]*)(#[^)]*)?\)")
"""A link to a file of the checkout that is no page."""


def setup(app: Any) -> None:
    """Write the pages of the reference, and have links to the checkout's files lead to copies of them."""
    reference.write(_HERE / "generated")
    app.connect("source-read", _link_copies)


def _link_copies(app: Any, page: str, source: list[str]) -> None:
    """Change the text of a page before it is read."""
    folder = (_HERE / page).parent
    source[0] = _OUTSIDE.sub(lambda link: _copied(folder, link), source[0])


def _copied(folder: Path, link: re.Match[str]) -> str:
    """Return the link as MyST has a file copied; for a link to a folder, which no site can show, its words alone."""
    target = (folder / link[2]).resolve()
    if target.is_relative_to(_HERE) and target.suffix == ".md":
        return link[0]
    return f"[{link[1]}](<path:{link[2]}>)" if target.is_file() else link[1]
