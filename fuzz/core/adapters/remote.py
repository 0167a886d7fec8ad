"""Workers on another machine, as a row of a pack's `targets.toml` declares it: a program such as `ssh` runs a command
there.

The worker is sent once, and each start checks whether it is what was built. Frames arrive on its stdin.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from functools import lru_cache
from pathlib import Path

from fuzz.core.adapters.c_kernel import c_kernel
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.target import Target
from fuzz.core.transport.child import CUT, Remote
from fuzz.core.transport.process import MEMORY_LIMIT, Process

_SENT_S = 120.0
"""The seconds that sending a worker may take. A static worker has about a megabyte."""
_FOLDER = "${XDG_CACHE_HOME:-$HOME/.cache}/kernelfuzz"
# In these scripts $0 is the name of the worker, $1 its digest, and $2 the architecture.
_THERE = f'w="{_FOLDER}/$0"; echo "$1  $w" | sha256sum -c --status 2> /dev/null'
_SEND = f"""
[ "$(uname -m)" = "$2" ] || {{ echo "that machine is $(uname -m), not $2" >&2; exit 1; }}
{_THERE} && exit
mkdir -p "{_FOLDER}" && cat > "$w.$$" && chmod 700 "$w.$$" && mv "$w.$$" "$w"
{_THERE} || {{ echo "what came to $w is not what was sent" >&2; exit 1; }}"""
# A shell stays above the worker. Its exit code is never the one that reports a lost connection.
_START = f"""
{_THERE} || {{ echo "$w is not what was sent" >&2; exit {CUT}; }}
ulimit -d {MEMORY_LIMIT >> 10}; ulimit -c 0; "$w"; c=$?; [ $c -lt {CUT} ] || c=254; exit $c"""


def unavailable(target: Target) -> str | None:
    """Return why a kernel cannot be run on another machine, or None if it can."""
    assert target.own is not None
    kernel, site = c_kernel(target.kernel), target.own.site
    if kernel.loads:
        return f"{kernel.loads[0].name} is a shared library, and nothing but the worker is sent to {site}"
    if target.kernel.untrusted:
        return f"nobody vouches for it, and {site} has no sandbox"
    known = {setting for setting, _ in target.settings}
    asked = [f"{each.word} = ..." for each in ISAS[kernel.isa].settings if each not in known]
    if asked:
        return f"say what {site} has, in its row of targets.toml: settings = {{ {', '.join(asked)} }}"
    return None


def process(target: Target, path: Path, limit: float, start_limit: float) -> Process:
    """Start the worker on the other machine. It is sent first, unless it was sent before. Raise OSError."""
    assert target.own is not None
    prefix = (*target.own.tools[0].command, *target.own.prefix[1:])
    digest = _sent(prefix, path, target.arch)
    words = (*prefix, _command(_START, path, digest, target.arch))
    return Process(Remote(words), limit, None, start_limit, remote=target.own.site)


@lru_cache(maxsize=4096)
def _sent(prefix: tuple[str, ...], path: Path, arch: str) -> str:
    """Copy a worker to the other machine, and return its digest. Raise OSError."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    words = [*prefix, _command(_SEND, path, digest, arch)]
    try:
        with path.open("rb") as file:
            done = subprocess.run(
                words, stdin=file, capture_output=True, timeout=_SENT_S, check=False, start_new_session=True
            )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"it could not be sent within {_SENT_S:.0f} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"it could not be sent: {said[-1] if said else f'exit code {done.returncode}'}")
    return digest


def _command(script: str, path: Path, digest: str, arch: str) -> str:
    """Return the script as a single command for any shell."""
    return shlex.join(["sh", "-c", script.strip(), path.name, digest, arch])
