"""A real proxy with the lines of its guide, Postern beside it, and an application behind it that believes `Remote-User`."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from tests.http.federation.proxied.behind_proxies import HOST
from tests.patience import PATIENCE
from tests.places import ROOT, open_directory
from tests.tools import place_of

GUIDES: Final = ROOT / "docs" / "guides" / "proxies"
_BLOCK: Final = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
_END: Final = b"\r\n\r\n"
# Of the key in RFC 6455 section 1.3.
_ACCEPTED: Final = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhaRbK+xOo=\r\n\r\n"


@dataclass
class Heard:
    """A request as the application got it."""

    line: str
    headers: list[tuple[str, str]]
    size: int

    def values(self, name: str) -> list[str]:
        """As a server of WSGI reads them: whatever stands between the words of a name."""
        plain = name.lower().replace("_", "-")
        return [value for one, value in self.headers if one.lower().replace("_", "-") == plain and value]


@dataclass
class Trusting:
    """The application. It answers who it thinks is there, counts what is uploaded, and echoes a websocket's bytes."""

    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    heard: list[Heard] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def run(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            peer.settimeout(PATIENCE)
            buffer = b""
            while _END not in buffer:
                more = peer.recv(65_536)
                if not more:
                    return
                buffer += more
            head, _, body = buffer.partition(_END)
            line, *lines = head.decode("latin-1").split("\r\n")
            headers = [(name, value.strip()) for name, _, value in (one.partition(":") for one in lines)]
            known = {name.lower(): value for name, value in headers}
            heard = Heard(line, headers, len(body))
            self.heard.append(heard)
            if "upgrade" in known and known["upgrade"].lower() == "websocket":
                peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + _ACCEPTED)
                while data := peer.recv(4096):
                    peer.sendall(data)
                return
            if known.get("transfer-encoding", "").lower() == "chunked":
                ended = body
                while not ended.endswith(b"0\r\n\r\n"):
                    more = peer.recv(1 << 20)
                    if not more:
                        return
                    heard.size += len(more)
                    ended = (ended + more)[-16:]
            else:
                while heard.size < int(known.get("content-length", "0")):
                    more = peer.recv(1 << 20)
                    if not more:
                        return
                    heard.size += len(more)
            answer = json.dumps({"user": heard.values("remote-user"), "size": heard.size}).encode()
            peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)


@dataclass(frozen=True)
class Answered:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for one, value in self.headers if one == name), "")

    @property
    def cookies(self) -> dict[str, str]:
        said = [value.partition(";")[0].partition("=") for name, value in self.headers if name == "set-cookie"]
        return {name: value for name, _, value in said if value}


@dataclass
class Proxy:
    kind: str
    port: int
    h2_port: int
    trusting: Trusting

    async def raw(self, data: bytes) -> Answered:
        """One request as it stands, byte for byte."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        received = b""
        with trio.fail_after(PATIENCE):
            async with stream:
                await stream.send_all(data)
                try:
                    while more := await stream.receive_some(65_536):
                        received += more
                except trio.BrokenResourceError:
                    pass
        head, _, body = received.partition(_END)
        if not head:
            return Answered(0, [], b"")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name.lower(), value.strip()) for name, _, value in (one.partition(":") for one in lines)]
        return Answered(int(line.split(" ")[1]), headers, body)

    async def get(self, target: str, *lines: str, host: str = HOST, method: str = "GET") -> Answered:
        head = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *lines]
        return await self.raw("\r\n".join(head).encode("latin-1") + _END)


@contextmanager
def application() -> Iterator[Trusting]:
    trusting = Trusting()
    threading.Thread(target=trusting.run, daemon=True).start()
    try:
        yield trusting
    finally:
        trusting.listener.close()


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def guide(kind: str) -> Sequence[str]:
    """The blocks of lines in a guide."""
    return _BLOCK.findall((GUIDES / f"{kind}.md").read_text())


def _filled(text: str, postern: int, secret: str, trusting: int) -> str:
    pairs = {
        "https://id.example.com": f"http://127.0.0.1:{postern}",
        "cs_your_secret": secret,
        "localhost:8080": f"127.0.0.1:{trusting}",
        "wiki.example.com": HOST,
    }
    for one, other in pairs.items():
        assert one in text or one == "wiki.example.com", one
        text = text.replace(one, other)
    return text


def _caddy(place: Path, ports: tuple[int, int], text: str) -> list[str]:
    # Without certificates, and with HTTP/2 on the same port.
    text = text.replace(f"{HOST} {{", f"http://{HOST}:{ports[0]} {{\n\tbind 127.0.0.1", 1)
    head = "{\n\tadmin off\n\tauto_https off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n"
    (place / "Caddyfile").write_text(head + text)
    return [place_of("caddy"), "run", "--config", str(place / "Caddyfile"), "--adapter", "caddyfile"]


def _nginx(place: Path, ports: tuple[int, int], text: str) -> list[str]:
    plain = f"listen 127.0.0.1:{ports[0]};\n    listen 127.0.0.1:{ports[1]} http2;"
    text = text.replace("listen 443 ssl http2;", plain)
    (place / "nginx.conf").write_text(
        f"daemon off;\npid {place}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n"
        f"client_body_temp_path {place}/body;\nproxy_temp_path {place}/proxy;\nfastcgi_temp_path {place}/f;\n"
        f"uwsgi_temp_path {place}/u;\nscgi_temp_path {place}/s;\n{text}}}\n"
    )
    return [place_of("nginx"), "-p", str(place), "-c", str(place / "nginx.conf")]


def _haproxy(place: Path, ports: tuple[int, int], text: str, lua: str, postern: int) -> list[str]:
    (place / "postern.lua").write_text(lua)
    text = text.replace("/etc/haproxy/postern.lua", str(place / "postern.lua"))
    bound = f"bind 127.0.0.1:{ports[0]}\n    bind 127.0.0.1:{ports[1]} proto h2"
    text = re.sub(r"bind :443 .*", bound, text)
    text = re.sub(r"server postern .*", f"server postern 127.0.0.1:{postern}", text)
    (place / "haproxy.cfg").write_text(text)
    return [place_of("haproxy"), "-db", "-f", str(place / "haproxy.cfg")]


@asynccontextmanager
async def proxy(kind: str, postern: int, secret: str, lines: str = "") -> AsyncIterator[Proxy]:
    """`lines` are those that a page of the console has shown for Caddy, in place of the guide's."""
    with application() as trusting, open_directory() as place:
        place.chmod(0o755)
        port, other = _free(), _free()
        blocks = [_filled(one, postern, secret, trusting.port) if kind != "haproxy" else one for one in guide(kind)]
        match kind:
            case "caddy":
                shown = lines.replace("localhost:8080", f"127.0.0.1:{trusting.port}")
                command, other = _caddy(place, (port, port), shown or blocks[0]), port
            case "nginx":
                command = _nginx(place, (port, other), blocks[0])
            case _:
                lua, lines = blocks
                command = _haproxy(place, (port, other), _filled(lines, postern, secret, trusting.port), lua, postern)
        home = {"HOME": str(place), "XDG_DATA_HOME": str(place), "XDG_CONFIG_HOME": str(place), "PATH": "/usr/bin:/bin"}
        log = (place / "log").open("w")
        process = subprocess.Popen(command, stdout=log, stderr=log, env=home, cwd=place)
        try:
            with trio.fail_after(PATIENCE):
                while True:
                    assert process.poll() is None, (place / "log").read_text()
                    try:
                        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                        break
                    except OSError:
                        await trio.sleep(0.05)
            yield Proxy(kind, port, other, trusting)
        finally:
            # Shown if the test fails.
            sys.stdout.write((place / "log").read_text()[-4000:])
            process.kill()
            process.wait()
            log.close()
