"""What an emulator cannot judge is no condition of failing: an explanation of a kernel with masked loads says so."""

from __future__ import annotations

from pathlib import Path

from fuzz.cli.exits import Exit
from fuzz.tests.conftest import Cli
from fuzz.tests.cover.transport.test_masked_lanes import AVX2, pack_of, target_of


def test_what_did_not_run_there_does_not_count_as_passing_there(tmp_path: Path, cli_here: Cli) -> None:
    """A live lane past each row: the emulator's targets say nothing of it, and so are no condition of failing."""
    target_of(tmp_path, AVX2.replace("PLANTED", ""), "native")
    stray = "if (n > 0) { volatile __m256 v = _mm256_maskload_ps(x + n - 1, live(2)); (void)v; }"
    pack_of(tmp_path, AVX2.replace("PLANTED", stray))
    options = ("--pack", str(tmp_path), "--target", "*:gcc-O2", "--max-cases", "60", "--seed", "1", "-v")
    done = cli_here("run", *options)
    assert done.returncode == Exit.FINDINGS, done.stdout + done.stderr
    assert "FAIL_MEMORY  masked  c-masked@native:gcc-O2" in done.stdout
    [when] = [line for line in done.stdout.splitlines() if line.startswith("  fails when")]
    assert "processor" not in when
