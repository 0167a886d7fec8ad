"""`python -m fuzz.core.transport.python serve IMPORT... DESCRIPTOR`, or `run SPEC DESCRIPTOR` for one worker."""

from __future__ import annotations

import os
import socket
import sys


def main() -> None:
    verb, *words, descriptor = sys.argv[1:]
    if verb == "serve":
        from fuzz.core.transport.python.server import serve

        serve(socket.socket(fileno=int(descriptor)), words)
        os._exit(0)  # else Triton would report leaks when the interpreter shuts down
    else:
        from fuzz.core.transport.python.worker import work

        os.dup2(int(descriptor), 1)
        work(words[0])


if __name__ == "__main__":
    main()
