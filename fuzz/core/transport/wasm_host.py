"""The host of a worker in WebAssembly: `python3 wasm_host.py ENGINE MODULE` runs it in wasmtime, with frames on stdin
and answers on stdout. ENGINE, `deterministic` or `native`, says how to make the choices left to engines. The script is
started by its path, and imports nothing of this package, since it is started again whenever a worker traps."""

from __future__ import annotations

import os
import struct
import sys
from importlib.metadata import version
from pathlib import Path

import wasmtime
from wasmtime import Caller, Config, Engine, Func, FuncType, Linker, Memory, Module, Store, ValType, WasiConfig

_TRAPPED_EXIT = 134
"""The exit code of a process that aborted."""
_HELLO_MAGIC = 0x4548464B


def main(mode: str, path: str) -> int:
    """Run the worker to its end, and return its exit code."""
    name = f"wasmtime {version('wasmtime')}"
    config = Config()
    config.wasm_relaxed_simd_deterministic = mode == "deterministic"
    store = Store(Engine(config))
    wasi = WasiConfig()
    wasi.inherit_stderr()
    wasi.env = (("KF_MODE", mode), ("KF_ENGINE", name))
    store.set_wasi(wasi)
    linker = Linker(store.engine)
    linker.define_wasi()
    number = ValType.i32()
    for word, function, results in (("receive", _receive, [number]), ("send", _send, [])):
        linker.define(store, "kernelfuzz", word, Func(store, FuncType([number, number], results), function, True))
    try:
        module = Module(store.engine, Path(path).read_bytes())
    except wasmtime.WasmtimeError as error:
        _hello(f"missing={name} cannot run it: {' '.join(str(error).split())}")
        return 0
    started = linker.instantiate(store, module).exports(store)["_start"]
    assert isinstance(started, Func)
    try:
        started(store)
    except wasmtime.ExitTrap as ended:
        return int(ended.code)
    except wasmtime.Trap as trap:
        print(trap.message.splitlines()[-1].strip(), file=sys.stderr)
        return _TRAPPED_EXIT
    return 0


def _hello(text: str) -> None:
    os.write(1, struct.pack("<II", _HELLO_MAGIC, len(text.encode())) + text.encode())


def _receive(caller: Caller, to: int, size: int) -> int:
    got = bytearray()
    while len(got) < size and (more := os.read(0, size - len(got))):
        got += more
    _memory(caller).write(caller, got, to & 0xFFFFFFFF)
    return len(got)


def _send(caller: Caller, start: int, size: int) -> None:
    data = _memory(caller).read(caller, start & 0xFFFFFFFF, (start & 0xFFFFFFFF) + size)
    while data:
        data = data[os.write(1, data) :]


def _memory(caller: Caller) -> Memory:
    found = caller["memory"]
    assert isinstance(found, Memory)
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
