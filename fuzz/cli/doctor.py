"""`kernelfuzz doctor`: what can run here, with proof, and how to get what is missing."""

from __future__ import annotations

from typing import Annotated

import typer

from fuzz.cli import options


def doctor(
    install: Annotated[
        bool, typer.Option("--install", help="Install what is missing with apt-get (as root, or through sudo).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    pack: options.Pack = None,
) -> int:
    """Say which tools are here and which targets really run, and how to get what is missing.

    Every target is built, started and asked what it is: instruction set, vector length, emulator, compiler.
    """
    from fuzz.cli.examination import examine

    return examine(install=install, as_json=json, pack=pack)
