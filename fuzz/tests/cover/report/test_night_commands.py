"""The commands that a night prints about itself."""

from __future__ import annotations

import shlex
from pathlib import Path

from fuzz.report.night import command_again

COMMAND = "kernelfuzz nightly --op 'rms norm' --max-time 60s --pack 'my pack' --untrusted"


def test_a_night_is_gone_on_with_as_its_record_says() -> None:
    words = shlex.split(command_again("--resume", COMMAND, Path("a state"), None))
    assert words == ["kernelfuzz", "nightly", "--resume", "--state", "a state", *shlex.split(COMMAND)[2:]]


def test_a_report_names_the_pack_and_the_store_without_its_password() -> None:
    store = "postgresql://me:secret@host/x?sslmode=require&password=secret"
    said = command_again("--report-only", COMMAND, Path("s"), store)
    assert said == (
        "kernelfuzz nightly --report-only --state s --store 'postgresql://me@host/x?sslmode=require' "
        "--pack 'my pack' --untrusted"
    )
    assert "--store sqlite:///bugs.sqlite --max" in command_again(
        "", "kernelfuzz nightly --max-time 1s", Path("s"), "sqlite:///bugs.sqlite"
    )
