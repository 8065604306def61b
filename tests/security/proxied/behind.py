"""A real proxy with the lines of its guide, at the guide's names: Postern at `https://id.example.com`, and an application at
`https://wiki.example.com` that believes `Remote-User`. Only ports, certificates and what finds these names are replaced.
"""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit

import trio

from core.frozen import replace
from entrypoints.bootstrap import Postern
from ops.drill.proxies import WAYS, replaced
from ops.free_ports import free_port
from ops.stand_ins.mail_server import Certificates, make_certificates
from tests.http.conftest import postern_on, with_keys
from tests.http.federation.proxied.behind_proxies import Proxied
from tests.http.signing_in import UNLIMITED, unlimited
from tests.name_server import name_server
from tests.patience import PATIENCE
from tests.places import ROOT, open_directory
from tests.tools import place_of

GUIDES: Final = ROOT / "docs" / "guides" / "proxies"
BASE: Final = "https://id.example.com"
HOST: Final = "wiki.example.com"
_BLOCK: Final = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
_END: Final = b"\r\n\r\n"
# Of the key in RFC 6455 section 1.3.
_ACCEPTED: Final = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhaRbK+xOo=\r\n\r\n"
_FORM: Final = b"""<!doctype html><html lang=en><link rel=icon href=data:,><title>Write</title>
<form method=post action=/save><label>Text <input name=text></label><button>Save</button></form>"""


class AtGuidesNames(Proxied):
    """Acme has proved the domain of the guides, and Postern is at the guides' address."""

    proved: ClassVar = "example.com"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.unlimited = unlimited(self.postern, replace(UNLIMITED, base_url=BASE, frontend_url=f"{BASE}/ui"))


@asynccontextmanager
async def at_the_guides_address(database_url: str, directory: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, directory, {"POSTERN_BASE_URL": BASE}) as opened:
        await with_keys(opened)
        yield opened


@dataclass
class Heard:
    """A request as the application got it."""

    line: str
    headers: list[tuple[str, str]]
    size: int
    body: bytes = b""
    """As far as it came with the head, or came last."""

    def values(self, name: str) -> list[str]:
        """As a server of WSGI reads them: whatever stands between the words of a name."""
        plain = name.lower().replace("_", "-")
        return [value for one, value in self.headers if one.lower().replace("_", "-") == plain and value]


@dataclass
class Trusting:
    """The application. It answers who it thinks is there, counts what is uploaded, echoes a websocket's bytes, has a form, and
    leads on at its own address.
    """

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
            heard = Heard(line, headers, len(body), body)
            self.heard.append(heard)
            if "upgrade" in known and known["upgrade"].lower() == "websocket":
                peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + _ACCEPTED)
                while data := peer.recv(4096):
                    peer.sendall(data)
                return
            if not _read_body(peer, known, heard):
                return
            begin, kind = "200 OK", "application/json"
            answer = json.dumps({"user": heard.values("remote-user"), "size": heard.size}).encode()
            if line.startswith("GET /form"):
                kind, answer = "text/html", _FORM
            elif line.startswith("GET /moved"):
                # As an application does that knows its own address alone.
                begin = f"302 Found\r\nLocation: http://127.0.0.1:{self.port}/there"
            said = f"HTTP/1.1 {begin}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n\r\n"
            peer.sendall(said.encode() + answer)


def _read_body(peer: socket.socket, known: Mapping[str, str], heard: Heard) -> bool:
    """Whether the body came to its end."""
    chunked = known.get("transfer-encoding", "").lower() == "chunked"
    ended = heard.body
    while not ended.endswith(b"0\r\n\r\n") if chunked else heard.size < int(known.get("content-length", "0")):
        more = peer.recv(1 << 20)
        if not more:
            return False
        heard.size += len(more)
        heard.body = more
        ended = (ended + more)[-16:]
    return True


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
    trusting: Trusting
    authority: Path

    async def connect(self) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        return trio.SSLStream(stream, ssl.create_default_context(cafile=str(self.authority)), server_hostname=HOST, https_compatible=True)

    async def raw(self, data: bytes) -> Answered:
        """One request as it stands, byte for byte."""
        stream = await self.connect()
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


def guide(kind: str) -> Sequence[str]:
    """The blocks of lines in a guide."""
    return _BLOCK.findall((GUIDES / f"{kind}.md").read_text())


@dataclass(frozen=True)
class Base:
    """Where `https://id.example.com` is found here."""

    port: int
    certificates: Certificates

    @classmethod
    def make(cls, directory: Path, port: int = 0) -> "Base":
        directory.mkdir()
        return cls(port or free_port(), make_certificates(directory, host=urlsplit(BASE).netloc))


@asynccontextmanager
async def proxy(kind: str, postern: Base | str, secret: str, lines: str = "", *, port: int = 0) -> AsyncIterator[Proxy]:
    """The proxy asks Postern at the guide's `https://id.example.com`, or at an own address of Postern, as the guides say where another
    proxy stands in front of it. `lines` are those that a page of the console has shown for Caddy, in place of the guide's.
    """
    with application() as trusting, open_directory() as place:
        place.chmod(0o755)
        *more, said = [lines] if lines else guide(kind)
        said = replaced(said, {"localhost:8080": f"127.0.0.1:{trusting.port}", **({} if lines else {"cs_your_secret": secret})})
        if isinstance(postern, str):
            said = re.sub(r"server postern .*", f"server postern {urlsplit(postern).netloc}", said).replace(BASE, postern)
        async with name_server({(urlsplit(BASE).netloc, "A"): ["127.0.0.1"]}) as finding:
            base = postern if isinstance(postern, Base) else None
            here = _Here(place, port or free_port(), make_certificates(place, host=HOST), base, finding.port)
            trusted = {} if base is None else {"SSL_CERT_FILE": str(base.certificates.authority)}
            async with _running(_WAYS[kind](here, said, *more), place, here.port, trusted):
                yield Proxy(kind, here.port, trusting, here.own.authority)


@dataclass(frozen=True)
class _Here:
    place: Path
    port: int
    own: Certificates
    base: Base | None
    names: int
    """The port of the server that knows the names."""


def _caddy_behind(here: _Here, text: str) -> list[str]:
    if here.base is not None:
        found = f"{BASE}:{here.base.port} {{\ntransport http {{\nresolvers udp/127.0.0.1:{here.names}\n}}"
        text = replaced(text, {f"{BASE} {{": found})
    return _caddy(here.place, here.port, text, here.own)


def _nginx_behind(here: _Here, text: str) -> list[str]:
    pairs = {
        "listen 443 ssl": f"listen 127.0.0.1:{here.port} ssl",
        f"server_name {HOST};": f"server_name {HOST};\nssl_certificate {here.own.certificate};\nssl_certificate_key {here.own.key};",
    }
    found = "" if here.base is None else f"upstream {urlsplit(BASE).netloc} {{ server 127.0.0.1:{here.base.port}; }}\n"
    return _nginx(here.place, found + replaced(text, pairs))


def _haproxy_behind(here: _Here, text: str, lua: str) -> list[str]:
    (here.place / "postern.lua").write_text(lua)
    pairs = {
        "/etc/haproxy/postern.lua": str(here.place / "postern.lua"),
        "bind :443": f"bind 127.0.0.1:{here.port}",
        f"/etc/haproxy/{HOST}.pem": _together(here.place / "both.pem", here.own),
    }
    found = ""
    if here.base is not None:
        authority = here.base.certificates.authority
        found = f"global\n    httpclient.ssl.ca-file {authority}\n\nresolvers default\n    nameserver here 127.0.0.1:{here.names}\n\n"
        pairs |= {
            f"lua.postern {BASE} ": f"lua.postern {BASE}:{here.base.port} ",
            f"server postern {urlsplit(BASE).netloc}:443": f"server postern 127.0.0.1:{here.base.port}",
            "ca-file @system-ca": f"ca-file {authority}",
        }
    (here.place / "haproxy.cfg").write_text(found + replaced(text, pairs))
    return [place_of("haproxy"), "-db", "-f", str(here.place / "haproxy.cfg")]


_WAYS: Final[Mapping[str, Callable[..., list[str]]]] = {"caddy": _caddy_behind, "nginx": _nginx_behind, "haproxy": _haproxy_behind}


@asynccontextmanager
async def before(recipe: str, base: Base, daemon: int) -> AsyncIterator[None]:
    """The proxy of a recipe in front of the daemon, at `https://id.example.com`."""
    with open_directory() as place:
        place.chmod(0o755)
        async with _running(_RECIPES[recipe](place, base, daemon), place, base.port, {}):
            yield


def _operations(language: str) -> str:
    text = (ROOT / "docs" / "operations" / "install.md").read_text()
    (found,) = (one for one in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if urlsplit(BASE).netloc in one)
    return str(found)


def _caddy_before(place: Path, base: Base, daemon: int) -> list[str]:
    pairs = {"127.0.0.1:8000": f"127.0.0.1:{daemon}"}
    if subprocess.run([place_of("caddy"), "version"], capture_output=True, text=True, check=True).stdout.startswith(("2.6.2", "v2.6.2")):
        # As the words below the lines say.
        pairs |= {"request_buffers 1MiB ": "buffer_requests ", "response_buffers 1MiB": "buffer_responses\nmax_buffer_size 1MiB"}
    return _caddy(place, base.port, replaced(_operations("caddy"), pairs), base.certificates)


def _nginx_before(place: Path, base: Base, daemon: int) -> list[str]:
    pairs = {
        "127.0.0.1:8000": f"127.0.0.1:{daemon}",
        "listen 443 ssl": f"listen 127.0.0.1:{base.port} ssl",
        "/etc/ssl/id.example.com/fullchain.pem": str(base.certificates.certificate),
        "/etc/ssl/id.example.com/privkey.pem": str(base.certificates.key),
    }
    return _nginx(place, replaced(_operations("nginx"), pairs))


def _machines(kind: str) -> Callable[[Path, Base, int], list[str]]:
    def command(place: Path, base: Base, daemon: int) -> list[str]:
        (place / "chain.pem").write_bytes(base.certificates.certificate.read_bytes())
        (place / "key.pem").write_bytes(base.certificates.key.read_bytes())
        _together(place / "both.pem", base.certificates)
        return WAYS[kind](place, base.port, free_port(), [daemon, daemon])

    return command


_RECIPES: Final[Mapping[str, Callable[[Path, Base, int], list[str]]]] = {
    "operations/install.md, nginx": _nginx_before,
    "operations/install.md, Caddy": _caddy_before,
    "ops/machines/nginx.conf": _machines("nginx"),
    "ops/machines/haproxy.cfg": _machines("haproxy"),
}


def _together(file: Path, certificates: Certificates) -> str:
    file.touch(mode=0o600)
    file.write_bytes(certificates.certificate.read_bytes() + certificates.key.read_bytes())
    return str(file)


def _caddy(place: Path, port: int, text: str, certificates: Certificates) -> list[str]:
    site, _, rest = text.partition("{")
    own = f"{site}{{\n\ttls {certificates.certificate} {certificates.key}"
    head = f"{{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\thttps_port {port}\n}}\n"
    (place / "Caddyfile").write_text(head + own + rest)
    return [place_of("caddy"), "run", "--config", str(place / "Caddyfile"), "--adapter", "caddyfile"]


def _nginx(place: Path, text: str) -> list[str]:
    (place / "nginx.conf").write_text(
        f"daemon off;\npid {place}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n"
        f"client_body_temp_path {place}/body;\nproxy_temp_path {place}/proxy;\nfastcgi_temp_path {place}/f;\n"
        f"uwsgi_temp_path {place}/u;\nscgi_temp_path {place}/s;\n{text}}}\n"
    )
    return [place_of("nginx"), "-p", str(place), "-c", str(place / "nginx.conf")]


@asynccontextmanager
async def _running(command: Sequence[str], place: Path, port: int, trusted: Mapping[str, str]) -> AsyncIterator[None]:
    home = {"HOME": str(place), "XDG_DATA_HOME": str(place), "XDG_CONFIG_HOME": str(place), "PATH": "/usr/bin:/bin", **trusted}
    log = (place / "log").open("w")
    # In a group of its own: a killed nginx leaves its worker behind.
    process = subprocess.Popen(command, stdout=log, stderr=log, env=home, cwd=place, process_group=0)
    try:
        with trio.fail_after(PATIENCE):
            while True:
                assert process.poll() is None, (place / "log").read_text()
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await trio.sleep(0.05)
        yield
    finally:
        # Shown if the test fails.
        sys.stdout.write((place / "log").read_text()[-4000:])
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()
