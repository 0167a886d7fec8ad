"""The site of the docs is made without a warning: every link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fuzz.tests.conftest import CHECKOUT, HANG_S


@pytest.mark.skipif(find_spec("sphinx") is None, reason="the extra `docs` is not installed")
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(tmp_path / "read")]
    done = subprocess.run(
        [*command, str(CHECKOUT / "fuzz" / "docs"), str(tmp_path / "site")],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "site" / "index.html").read_text()
    assert all(part in first for part in ("How to", "Reference", "Explanation"))
    assert "<code" in (tmp_path / "site" / "generated" / "command-line.html").read_text()
