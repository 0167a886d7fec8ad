"""A night on a state that is damaged, with findings and corpora that are broken."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.common.running import finish


def test_a_night_goes_on_with_a_damaged_state_and_broken_findings(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "pack.py").write_text(
        "from fuzz.core.adapters.pack import built_in, load\nKERNELS = (load(built_in()).kernel('generic'),)\n"
    )
    (tmp_path / "state" / "findings").mkdir(parents=True)
    (tmp_path / "state" / "state.sqlite").write_text("no database at all, though it is long enough for its header " * 4)
    (tmp_path / "state" / "findings" / "broken.json").write_text('{"kernelfuzz case": 3, "op": 7}')
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "bad.json").write_text('{"kernelfuzz suite": 1}')
    code, said, progress = finish(tmp_path, "--max-time", "20s", "--target", "*native:gcc-O2", "--seed", "1")
    assert code == 0, said + progress
    progress = " ".join(progress.split())
    assert "state.sqlite: not a state of kernelfuzz: file is not a database; it is kept as" in progress
    assert "it is kept as broken.json.broken-1" in progress
    assert "not run: " in progress
    assert "bad.json: no case file" in progress
    assert "Traceback" not in progress
    names = sorted(path.name for path in (tmp_path / "state").iterdir() if "broken" in path.name)
    assert names == ["state.sqlite.broken-1"]
    assert [path.name for path in (tmp_path / "state" / "findings").iterdir()] == ["broken.json.broken-1"]
