"""The proxies of ops/machines as processes here, by their own files. Only addresses, ports and places of files are replaced."""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from ops.bench.harness import DidNotStart
from ops.bench.load import Target, fetch
from ops.bench.report import ROOT
from ops.free_ports import free_port

FOLDER: Final = ROOT / "ops" / "machines"
# The machines that serve; the third one only votes and keeps a copy of the database.
SERVING: Final = ("10.0.0.11", "10.0.0.12")
MEMBERS: Final = (*SERVING, "10.0.0.13")
UNKNOWN: Final = "The outcome of this request is unknown: check the state before you try again."
# A busy machine forks slowly.
_PATIENCE: Final = 120.0
_TRIES: Final = 5


class Changed(Exception):
    """The recipe's file has no such line any more."""


def replaced(text: str, pairs: Mapping[str, str]) -> str:
    """The text with each first word replaced by the second one, wherever it stands."""
    for old, new in pairs.items():
        if old not in text:
            raise Changed(old)
        text = text.replace(old, new)
    return text


def nginx(place: Path, port: int, plain: int, members: Sequence[int]) -> list[str]:
    """Writes its file, and returns its command."""
    keys = certificate(place)
    text = replaced(
        (FOLDER / "nginx.conf").read_text(),
        {
            "worker_processes auto": "worker_processes 1",
            "worker_rlimit_nofile 65536;\n": "",
            "worker_connections 16384": "worker_connections 2000",
            "pid /run/nginx.pid": f"pid {place}/nginx.pid",
            "/var/log/nginx/error.log": f"{place}/nginx.log",
            "    access_log off;": "".join(f"    {what}_temp_path {place};\n" for what in _TEMPORARY) + "    access_log off;",
            "        listen [::]:80;\n": "",
            "        listen [::]:443 ssl http2;\n": "",
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ssl/id.example.com/fullchain.pem": str(keys / "chain.pem"),
            "/etc/ssl/id.example.com/privkey.pem": str(keys / "key.pem"),
            **_places(members),
        },
    )
    file = place / "nginx.conf"
    file.write_text(text)
    return [program("nginx"), "-c", str(file), "-p", str(place), "-g", "daemon off;"]


def haproxy(place: Path, port: int, plain: int, members: Sequence[int]) -> list[str]:
    """Writes its file, and returns its command."""
    keys = certificate(place)
    text = replaced(
        (FOLDER / "haproxy.cfg").read_text(),
        {
            "maxconn 20000": "maxconn 2000",  # it would refuse to start where fewer files may be open
            "    log /dev/log local0\n": "",
            "    user haproxy\n    group haproxy\n": "",
            "bind :80": f"bind 127.0.0.1:{plain}",
            "bind :443": f"bind 127.0.0.1:{port}",
            "/etc/haproxy/id.example.com.pem": str(keys / "both.pem"),
            **_places(members),
        },
    )
    file = place / "haproxy.cfg"
    file.write_text(text)
    return [program("haproxy"), "-db", "-f", str(file)]


def _places(members: Sequence[int]) -> dict[str, str]:
    return {f"{address}:8000": f"127.0.0.1:{port}" for address, port in zip(SERVING, members, strict=True)}


WAYS: Final = {"nginx": nginx, "haproxy": haproxy}
_TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def program(name: str) -> str:
    """Debian keeps both in a place that only root's path names."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise DidNotStart(f"{name} is missing: see ops/install-test-tools")
    return found


def certificate(place: Path) -> Path:
    chain, key = place / "chain.pem", place / "key.pem"
    if not chain.exists():
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        command = [*words, "-subj", "/CN=id.example.com", "-keyout", str(key), "-out", str(chain)]
        subprocess.run(command, check=True, capture_output=True)
        both = place / "both.pem"
        both.touch(mode=0o600)
        both.write_text(chain.read_text() + key.read_text())
    return place


class Proxy:
    """One of the two, on a port of its own. It can be killed and started again."""

    def __init__(self, kind: str, place: Path, members: Sequence[int]) -> None:
        self.kind = kind
        self.port, self.plain = free_port(), free_port()
        self._command = WAYS[kind](place, self.port, self.plain, members)
        self._log = place / f"{kind}.output"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None

    def target(self, path: str, headers: Mapping[str, str] | None = None) -> Target:
        return Target("127.0.0.1", self.port, path, headers or {}, tls=True)

    async def start(self) -> None:
        """Returns when it answers."""
        with self._log.open("ab") as output:
            # In a group of its own: a killed nginx leaves its worker behind.
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it forks, and returns
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
            )
        with trio.fail_after(_PATIENCE):
            while True:
                if self._process.poll() is not None:
                    raise DidNotStart(self._log.read_text())
                # It answers this by itself. Another program at its port would not.
                answer = await fetch(self.target("/metrics"), 2)
                if answer is not None and answer.status == 404:
                    return
                await trio.sleep(0.02)

    async def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await trio.to_thread.run_sync(self._process.wait)
            self._process = None


@asynccontextmanager
async def running(kind: str, place: Path, members: Sequence[int]) -> AsyncIterator[Proxy]:
    proxy = await _started(kind, place, members)
    try:
        yield proxy
    finally:
        with trio.CancelScope(shield=True):
            await proxy.kill()


async def _started(kind: str, place: Path, members: Sequence[int]) -> Proxy:
    """On other ports, if another program has taken one of them meanwhile."""
    for left in reversed(range(_TRIES)):
        proxy = Proxy(kind, place, members)
        try:
            await proxy.start()
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await proxy.kill()
            if not left or not isinstance(error, DidNotStart):
                raise
        else:
            return proxy
    raise AssertionError("the last try raises or returns")
