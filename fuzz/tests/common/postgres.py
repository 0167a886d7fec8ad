"""A PostgreSQL of its own on the loopback interface, which a test may kill and start again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "of a test"
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/bin", "/usr/bin")


class Postgres:
    """A server with one database; it is reached with a password."""

    def __init__(self, folder: Path) -> None:
        self._data, self._programs = folder / "data", _programs()
        self._options: tuple[str, ...] = ()
        self._user = "postgres" if os.getuid() == 0 else None  # it refuses to run as root
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        password = folder / "password"
        password.write_text(PASSWORD)
        if self._user is not None:
            for path in (folder, password):
                shutil.chown(path, self._user)
        words = ("--no-sync", "--username=fleet", f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8")
        self._ask("initdb", "-D", str(self._data), "--no-instructions", "--locale=C", *words)

    @property
    def url(self) -> str:
        return self.url_of(PASSWORD)

    def url_of(self, password: str) -> str:
        return f"postgresql://fleet:{password.replace(' ', '%20')}@127.0.0.1:{self.port}/postgres"

    def certify(self, certificate: Path, key: Path) -> None:
        """Have it take connections under TLS alone from its next start on."""
        for path in (certificate, key):
            copy = self._data / path.name
            shutil.copy(path, copy)
            copy.chmod(0o600)
            if self._user is not None:
                shutil.chown(copy, self._user)
        self._options = ("-c", "ssl=on", "-c", f"ssl_cert_file={certificate.name}", "-c", f"ssl_key_file={key.name}")
        (self._data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ("-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", "", "-F", *self._options)
        self._server = subprocess.Popen(
            [self._programs / "postgres", *words], user=self._user, cwd="/", stderr=subprocess.DEVNULL
        )
        for _ in range(300):
            ready = (self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError("PostgreSQL does not answer")

    def signal(self, number: int) -> None:
        """Send a signal to all that it forked."""
        for child in self._children():
            os.kill(int(child), number)

    def _children(self) -> list[str]:
        command = ("ps", "-o", "pid=", "--ppid", str(self._server.pid))
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()

    def kill(self) -> None:
        """End it as a power cut would, with all that it forked."""
        children = self._children()
        self._server.kill()
        self._server.wait()
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue

    def query(self, statement: str) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.url) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[no-any-return]

    def _ask(self, program: str, *words: str) -> None:
        subprocess.run(
            (self._programs / program, *words), user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL
        )


def _programs() -> Path:
    found = [path.parent for place in _PLACES for path in sorted(Path("/").glob(f"{place[1:]}/initdb"))]
    if not found:
        pytest.fail("PostgreSQL is not installed: apt-get install postgresql")
    return found[0]


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that runs, and nothing of it afterwards."""
    if os.getuid() == 0:
        pwd.getpwnam("postgres")
    with tempfile.TemporaryDirectory() as name:
        server = Postgres(Path(name))
        server.start()
        try:
            yield server
        finally:
            server.kill()
