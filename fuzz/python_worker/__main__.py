"""`python -m fuzz.python_worker serve DESCRIPTOR`, or `run SPEC` for one worker on stdin and stdout."""

from __future__ import annotations

import socket
import sys


def main() -> None:
    verb, argument = sys.argv[1:]
    if verb == "serve":
        from fuzz.python_worker.server import serve

        serve(socket.socket(fileno=int(argument)))
    else:
        from fuzz.python_worker.spec import decoded
        from fuzz.python_worker.worker import work

        work(decoded(argument))


if __name__ == "__main__":
    main()
