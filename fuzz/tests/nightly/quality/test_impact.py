"""Since which version: releases of a library are found, installed and tried, each in an environment of its own."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import fuzz.quality.impact as impact_module
from fuzz.cli.exits import Exit
from fuzz.quality.impact import DEVIATES, RIGHT, ImpactOptions, impact, kept_outcomes

_PROGRAM = "import sys\n\nimport shown\n\nprint('got', shown.VALUE, 'right 1')\nsys.exit(shown.VALUE != 1)\n"


def _wheel(folder: Path, version: str, module: str) -> None:
    about = f"shown-{version}.dist-info"
    with zipfile.ZipFile(folder / f"shown-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("shown.py", module)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: shown\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def test_the_first_version_that_deviates_is_found_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels, trophy = tmp_path / "wheels", tmp_path / "trophies" / "shown-value"
    wheels.mkdir()
    trophy.mkdir(parents=True)
    for version, module in {"0.9": "import nowhere", "1.0": "VALUE = 1", "1.1.0": "VALUE = 1", "1.1.1": "VALUE = 2",
                            "2.0": "VALUE = 2"}.items():  # fmt: skip
        _wheel(wheels, version, module)
    (trophy / "repro.py").write_text(_PROGRAM)
    (trophy / "about.toml").write_text('source = "shown 2.0, CPU"')
    (trophy / "report.md").write_text("Seen: 2.\n\nSince: \n\nSuggestion: 1.\n")
    (tmp_path / "impact.json").write_text("{}")
    monkeypatch.setattr(impact_module, "TROPHIES", trophy.parent)
    monkeypatch.setattr(impact_module, "KEPT", tmp_path / "impact.json")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert impact(ImpactOptions(releases=4, save=True)) == Exit.OK
    found = kept_outcomes()["shown-value"]["versions"]
    expected = {"2.0": DEVIATES, "1.1.1": DEVIATES, "1.0": RIGHT}
    assert found == expected | {"0.9": "not run: ModuleNotFoundError: No module named 'nowhere'"}
    assert impact(ImpactOptions(version=("1.1.0", "3.0"), save=True)) == Exit.OK
    found = kept_outcomes()["shown-value"]["versions"]
    assert found["1.1.0"] == RIGHT
    assert found["3.0"].startswith("not installed: No matching distribution")
    assert [*found] == ["3.0", "2.0", "1.1.1", "1.1.0", "1.0", "0.9"], "what was kept of others stays, the newest first"
    report = (trophy / "report.md").read_text()
    assert "\nSince: deviates in 2.0, 1.1.1; right in 1.1.0, 1.0; could not be tried: " in report
    assert report.endswith("\n\nSuggestion: 1.\n")
