"""What names a case file on a command line is found when it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.findings.state import files_in, fitting, folders, short_words

_ONE, _OTHER = "b88a1c37e1a7", "b88a1c90d2f4"


@pytest.mark.parametrize(
    ("folder", "pack", "words"),
    [
        ("findings", (), ("b88a1c",)),
        (".pytest_cache/d/kernelfuzz", ("--pack", "test_mine.py"), ("b88a1c",)),
        ("judged/mine/findings", ("--pack", "judged/mine"), ("mine-fail_numeric-b88a1c",)),
        ("judged/mine/findings", ("--pack", "other"), ("b88a1c", "--findings", "judged/mine/findings")),
        ("state/findings", (), ("b88a1c", "--findings", "state/findings")),
    ],
)
def test_a_finding_is_named_by_its_digest_and_by_a_folder_where_that_is_no_usual_one(
    folder: str, pack: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(folder, f"mine-fail_numeric-{_ONE}.json")
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert short_words(path, pack) == words
    assert _found(words, pack) == [path]


def test_a_digest_that_two_kernels_share_names_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One plain case fails in both: the name of the kernel tells them."""
    monkeypatch.chdir(tmp_path)
    Path("findings").mkdir()
    paths = [Path("findings", f"{name}-{_ONE}.json") for name in ("mine-fail_numeric", "other-fail_numeric")]
    paths.append(Path("findings", f"mine-fail_numeric+2-{_OTHER}.json"))
    for path in paths:
        path.write_text("{}")
    assert [short_words(path, ()) for path in paths] == [
        ("mine-fail_numeric-b88a1c",), ("other-fail_numeric-b88a1c",), ("mine-fail_numeric+2-b88a1c",),
    ]  # fmt: skip
    assert [_found(short_words(path, ()), ()) for path in paths] == [[path] for path in paths]


def _found(words: tuple[str, ...], pack: tuple[str, ...]) -> list[Path]:
    """What `repro` finds that is given these words."""
    text, *option = words
    findings = Path(option[1] if option else "findings")
    return fitting(text, files_in(folders(findings, Path(pack[1]) if pack else None)))
