"""Writes a small location database in MaxMind's format, version 2: a search tree over the bits of addresses, and the data at its leaves."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from struct import pack
from typing import Any, Final

_MARKER: Final = b"\xab\xcd\xefMaxMind.com"
_SEPARATOR: Final = bytes(16)
_RECORD_BITS: Final = 32
_TEXT, _MAP, _UINT16, _UINT32, _UINT64, _LIST = 2, 7, 5, 6, 9, 11
_DOUBLE: Final = 3

Node = list[Any]


def place(country: str | None = None, city: str | None = None) -> dict[str, Any]:
    """A record as in the City database."""
    record: dict[str, Any] = {}
    if country is not None:
        record["country"] = {"iso_code": country, "names": {"en": "Somewhere"}}
    if city is not None:
        record["city"] = {"names": {"de": "Irgendwo", "en": city}}
    return record


def write_location_database(file: Path, places: Mapping[str, Any], *, version: int = 6) -> Path:
    """Writes `places`, by network. In a database of IP version 6, IPv4 addresses are under `::/96`."""
    root: Node = [None, None]
    for text, record in places.items():
        network = ip_network(text)
        bits = f"{int(network.network_address):0{network.max_prefixlen}b}"[: network.prefixlen]
        _insert(root, "0" * 96 + bits if version == 6 and network.version == 4 else bits, record)
    nodes: list[Node] = []
    _number(root, nodes)
    data = bytearray()
    tree = bytearray()
    for node in nodes:
        for side in node:
            if isinstance(side, list):
                target = next(number for number, one in enumerate(nodes) if one is side)
            elif side is None:
                target = len(nodes)
            else:
                target = len(nodes) + len(_SEPARATOR) + len(data)
                data += _encoded(side)
            tree += target.to_bytes(_RECORD_BITS // 8)
    metadata = {
        "binary_format_major_version": (_UINT16, 2),
        "binary_format_minor_version": (_UINT16, 0),
        "build_epoch": (_UINT64, 1_700_000_000),
        "database_type": "Test-City",
        "description": {"en": "Made by a test"},
        "ip_version": (_UINT16, version),
        "languages": ["en"],
        "node_count": (_UINT32, len(nodes)),
        "record_size": (_UINT16, _RECORD_BITS),
    }
    file.write_bytes(bytes(tree) + _SEPARATOR + bytes(data) + _MARKER + _encoded(metadata))
    return file


def _insert(node: Node, bits: str, record: Any) -> None:
    for bit in map(int, bits[:-1]):
        if node[bit] is None:
            node[bit] = [None, None]
        node = node[bit]
    node[int(bits[-1])] = record


def _number(node: Node, nodes: list[Node]) -> None:
    nodes.append(node)
    for side in node:
        if isinstance(side, list):
            _number(side, nodes)


def _encoded(value: Any) -> bytes:
    match value:
        case str():
            text = value.encode()
            return _head(_TEXT, len(text)) + text
        case float():
            return _head(_DOUBLE, 8) + pack(">d", value)
        case Mapping():
            return _head(_MAP, len(value)) + b"".join(_encoded(name) + _encoded(inner) for name, inner in value.items())
        case (kind, number):
            whole: bytes = number.to_bytes((number.bit_length() + 7) // 8)
            return _head(kind, len(whole)) + whole
        case Sequence():
            return _head(_LIST, len(value)) + b"".join(map(_encoded, value))
        case _:
            raise TypeError(type(value))


def _head(kind: int, size: int) -> bytes:
    extended = b""
    if kind > 7:
        kind, extended = 0, bytes([kind - 7])
    if size < 29:
        return bytes([kind << 5 | size]) + extended
    if size < 29 + 256:
        return bytes([kind << 5 | 29]) + extended + bytes([size - 29])
    return bytes([kind << 5 | 30]) + extended + (size - 285).to_bytes(2)
