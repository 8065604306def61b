"""The forms of settings: from text to value, and back for `postern config`. A form never repeats the text in an error, because the text may
be a secret.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from email.utils import parseaddr
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, Generic, TypeVar
from urllib.parse import SplitResult, urlsplit

from core.domain.identity.passkeys import MOST_PASSKEY_ORIGINS, is_local, written_origin
from core.domain.identity.registering import listed_domain
from core.domain.outbound import NotADestination, host
from core.domain.secrets import Password, Secret
from core.frozen import Frozen
from entrypoints.numbers import is_number

T = TypeVar("T")

_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)?")
_SECONDS: Final = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZE: Final = re.compile(r"(\d{1,12})(B|KiB|MiB|GiB)?")
_BYTES: Final = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Finds a password in a URL, user:password@ up to the last @, because a password that was not percent-encoded may contain any character.
# The second pattern finds password=… in libpq's key=value form, and among a URL's options.
_PASSWORD_OF_USER: Final = re.compile(r"(?<=://)([^/:?]*):.*@", re.DOTALL)
_PASSWORD_OPTION: Final = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE)


_SHARE: Final = re.compile(r"(?:0|1)?(?:\.[0-9]{1,9})?(?<=[0-9])")
# What RFC 9110 permits for a name, and visible ASCII with spaces inside for a value.
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


_CONTACT: Final = re.compile(r"(?:mailto:[!-~]+@[!-~]+|https://[!-~]+|tel:\+?[0-9-]+)")


class Malformed(Exception):
    """The message completes the sentence "POSTERN_X must be …"."""


class SettingForm(Frozen, Generic[T]):
    parse: Callable[[str], T]
    write: Callable[[T], str] = str


class Address(Frozen):
    """Where to listen: a host and a port, or the path of a Unix socket."""

    host: str
    port: int
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def url(self, scheme: str) -> str:
        """The URL by which a program on this machine reaches the address."""
        if self.path is not None:
            return f"{scheme}://localhost"
        if ip_or_none(self.host) is not None and ip_address(self.host).is_unspecified:
            return str(Address("localhost", self.port).with_scheme(scheme))
        return self.with_scheme(scheme)

    def with_scheme(self, scheme: str) -> str:
        usual = {"http": 80, "https": 443}[scheme]
        text = f"{scheme}://{self}"
        return text.removesuffix(f":{self.port}") if self.port == usual else text


def ip_or_none(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _address(text: str) -> Address:
    sentence = "host:port, [ipv6]:port or unix:/path"
    if text.startswith("unix:"):
        path = Path(text.removeprefix("unix:"))
        if not path.is_absolute():
            raise Malformed("unix: with an absolute path")
        return Address("", 0, path)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ip_or_none(host) is None or ":" not in host:
            raise Malformed(sentence)
    elif ":" in host:
        raise Malformed(sentence)
    if not colon or not host or not is_number(port) or int(port) > 65_535:
        raise Malformed(sentence)
    return Address(host, int(port))


def _split(text: str, sentence: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it is what validates it
    except ValueError:
        raise Malformed(sentence) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(letter.isspace() for letter in text) or not text.isprintable():
        raise Malformed(sentence)
    if parts.username is not None or parts.password is not None or parts.fragment or parts.query or "?" in text or "#" in text:
        raise Malformed(sentence)
    return parts


def _origin(text: str) -> str:
    sentence = "a scheme and host like https://login.example.com, without a path"
    parts = _split(text, sentence)
    if parts.path not in {"", "/"}:
        raise Malformed(sentence)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _url(text: str) -> str:
    _split(text, "an http:// or https:// URL without query or fragment")
    return text.rstrip("/")


def _endpoint(text: str) -> str:
    """The unchanged URL, because an issuer is compared letter by letter."""
    _split(text, "an http:// or https:// URL without query or fragment")
    return text


def _proxy(text: str) -> Secret:
    sentence = "the address of an HTTP proxy, http://user:password@host:3128"
    try:
        parts = urlsplit(text)
        usable = parts.scheme == "http" and parts.hostname and parts.port != 0 and parts.path in {"", "/"} and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise Malformed(sentence)
    return Secret(text)


def _list(text: str) -> list[str]:
    return [part for part in (one.strip() for one in text.split(",")) if part]


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(ip_network(part) for part in _list(text))
    except ValueError:
        raise Malformed("addresses or networks like 10.0.0.0/8, separated by commas") from None


def _choice(words: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise Malformed(f"{', '.join(words[:-1])} or {words[-1]}")
        return text.lower()

    return parse


def _switch(text: str) -> bool:
    if text.lower() not in {"on", "off"}:
        raise Malformed("on or off")
    return text.lower() == "on"


def _database_url(text: str) -> Secret:
    if not text.startswith(("postgresql://", "postgres://")) and "=" not in text:
        raise Malformed("a URL like postgresql://user:password@host:5432/database")
    return Secret(text)


def _mail(text: str) -> str:
    if text == "console" or text.startswith("file:"):
        return text
    sentence = "smtp://user@host:port, smtps://user@host:port, file:<dir> or console"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it is what validates it
    except ValueError:
        raise Malformed(sentence) from None
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise Malformed(sentence)
    return text


def _sender(text: str) -> str:
    address = parseaddr(text)[1]
    if "@" not in address or not text.isprintable():
        raise Malformed("an address, or Name <address>")
    return text


def _contacts(text: str) -> tuple[str, ...]:
    """RFC 9116 section 2.5.3: web addresses are https."""
    contacts = tuple(_list(text))
    if not contacts or not all(_CONTACT.fullmatch(one) for one in contacts):
        raise Malformed("one or more of mailto:…, https://… or tel:…, separated by commas")
    return contacts


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise Malformed("a path, and after ~ the name of a user of this machine") from None


def _hosts(text: str) -> tuple[str, ...]:
    try:
        return tuple(host(part) for part in _list(text))
    except NotADestination:
        raise Malformed("names or addresses of hosts, separated by commas") from None


def _passkey_id(text: str) -> str:
    sentence = "the name of a host like id.example.com, in small letters and without a port"
    try:
        name = host(text)
    except NotADestination:
        raise Malformed(sentence) from None
    # Browsers take no address, and no name without a dot but that of this machine.
    if name != text or ip_or_none(name) is not None or ("." not in name and not is_local(name)):
        raise Malformed(sentence)
    return name


def _passkey_origins(text: str) -> tuple[str, ...]:
    sentence = f"at most {MOST_PASSKEY_ORIGINS} origins like https://login.example.com, separated by commas"
    found: dict[str, None] = {}
    for part in _list(text):
        parts = _split(part, sentence)
        name = parts.hostname or ""
        if parts.path not in {"", "/"} or ip_or_none(name) is not None or not (parts.scheme == "https" or is_local(name)):
            raise Malformed(sentence)
        found[written_origin(part)] = None
    if len(found) > MOST_PASSKEY_ORIGINS:
        raise Malformed(sentence)
    return tuple(found)


def _mail_domains(text: str) -> tuple[str, ...]:
    domains = {listed_domain(part) for part in _list(text)}
    if "" in domains:
        raise Malformed("mail domains like acme.example, separated by commas")
    return tuple(sorted(domains))


def _share(text: str) -> float:
    if not _SHARE.fullmatch(text) or float(text) > 1:
        raise Malformed("a share from 0 to 1, like 0.1")
    return float(text)


def _headers(text: str) -> tuple[tuple[str, Secret], ...]:
    pairs = [part.partition("=") for part in _list(text)]
    if not all(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value) for name, _, value in pairs):
        raise Malformed("headers like Authorization=Bearer abc, separated by commas")
    return tuple((name.lower(), Secret(value)) for name, _, value in pairs)


def whole(least: int, most: int) -> SettingForm[int]:
    def parse(text: str) -> int:
        if not is_number(text) or not least <= int(text) <= most:
            raise Malformed(f"a whole number from {least} to {most}")
        return int(text)

    return SettingForm(parse)


def duration(least: int, most: int) -> SettingForm[timedelta]:
    """Seconds, or a number with one of ms, s, m, h, d."""

    def parse(text: str) -> timedelta:
        found = _DURATION.fullmatch(text)
        seconds = int(found[1]) * _SECONDS[found[2]] if found else -1
        if not least <= seconds <= most:
            raise Malformed(f"a time from {least} to {most} seconds, like 90 or 15m")
        return timedelta(seconds=seconds)

    return SettingForm(parse, lambda value: f"{value.total_seconds():.12g}s")


def size(least: int, most: int) -> SettingForm[int]:
    """Bytes, or a number with KiB, MiB or GiB."""

    def parse(text: str) -> int:
        found = _SIZE.fullmatch(text)
        value = int(found[1]) * _BYTES[found[2]] if found else -1
        if not least <= value <= most:
            raise Malformed(f"a size from {_size(least)} to {_size(most)}, like 1MiB")
        return value

    return SettingForm(parse, _size)


def _size(value: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if value >= _BYTES[unit] and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return str(value)


def masked_url(text: str) -> str:
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD_OF_USER.sub(r"\1:***@", text))


address: Final = SettingForm(_address)
origin: Final = SettingForm(_origin)
origins: Final = SettingForm(lambda text: tuple(_origin(part) for part in _list(text)), ",".join)
url: Final = SettingForm(_url)
endpoint: Final = SettingForm(_endpoint)
networks: Final = SettingForm(_networks, lambda value: ",".join(map(str, value)))
path: Final = SettingForm(_path)
text: Final = SettingForm(str)
secret: Final = SettingForm(Secret)
secrets: Final = SettingForm(lambda text: tuple(map(Secret, _list(text))), lambda value: ",".join(map(str, value)))
password: Final = SettingForm(Password)
database_url: Final = SettingForm(_database_url)
proxy: Final = SettingForm(_proxy)
mail: Final = SettingForm(_mail)
sender: Final = SettingForm(_sender)
switch: Final = SettingForm(_switch, lambda value: "on" if value else "off")


contacts: Final = SettingForm(_contacts, ",".join)
hosts: Final = SettingForm(_hosts, ",".join)
share: Final = SettingForm(_share, lambda value: f"{value:.9g}")
headers: Final = SettingForm(_headers)
mail_domains: Final = SettingForm(_mail_domains, ",".join)
passkey_id: Final = SettingForm(_passkey_id)
passkey_origins: Final = SettingForm(_passkey_origins, ",".join)


def choice(*words: str) -> SettingForm[str]:
    return SettingForm(_choice(words))
