"""Documents of a size that cost most to read, by kind: XML, JSON, pictures and forms."""

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

SIZE: Final = 100_000
_MARKS: Final = "a" + "\u0344" * 60 + "\u0f73" * 60
_LAUGHS: Final = "".join(f"<!ENTITY a{one} '{10 * ('&a' + str(one - 1) + ';')}'>" for one in range(1, 10))


def _filled(part: str, size: int) -> str:
    """The part again and again, whole."""
    return part * max(size // len(part.encode()), 1)


def _numbered(part: str, size: int) -> str:
    """The part with another number each time."""
    return "".join(part.replace("#", str(one)) for one in range(max(size // (len(part) + 4), 1)))


def xml_documents(opening: str, closing: str, size: int = SIZE) -> Mapping[str, bytes]:
    """Documents that begin and end as a good one does. What is read first is in the beginning."""
    room = size - len(opening) - len(closing) - 100
    inside = {
        "deep": "<a>" * (room // 7) + "</a>" * (room // 7),
        # libxml2 itself gives up at 256 levels.
        "deep as allowed": "".join(f"{'<a>' * 200}{'</a>' * 200}" for _ in range(room // 1400)),
        "small elements": _filled("<a/>", room),
        "elements with attributes": _filled('<a b=""/>', room),
        "many attributes": "<a " + _numbered("b#='' ", room) + "/>",
        "many namespaces": "<a " + _numbered("xmlns:b#='c' ", room) + "/>",
        "namespaces within each other": _numbered("<a xmlns:b#='c'>", min(room * 3 // 4, 4000)) + "</a>" * (min(room * 3 // 4, 4000) // 20),
        "many ids": _numbered('<a ID="i#"/>', room),
        "marks": f"<a>{_filled(_MARKS, room)}</a>",
        "marks in an attribute": "<a b='" + _filled(_MARKS, room) + "'/>",
        "references": f"<a>{_filled('&#x344;', room)}</a>",
        "spaces": _filled(" \n\t", room),
        "brackets": f"<a>{_filled('&lt;', room)}</a>",
        "texts between": _filled("x<a/>", room),
        "many issuers": _filled("<saml:Issuer>x</saml:Issuer>", room),
        "many signatures": _filled('<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>', room),
        "many certificates": _filled("<ds:X509Certificate xmlns:ds='http://www.w3.org/2000/09/xmldsig#'>MIIC</ds:X509Certificate>", room),
    }
    documents = {name: f"{opening}{one}{closing}".encode() for name, one in inside.items()}
    entities = f'<!DOCTYPE r [<!ENTITY a0 "lol">{_LAUGHS}]>'
    documents["entities"] = f"{entities}{opening}{_filled('&a9;', room - len(entities))}{closing}".encode()
    documents["entity declarations"] = ("<!DOCTYPE r [" + _numbered("<!ENTITY e# 'x'>", room) + f"]>{opening}{closing}").encode()
    documents["a long declaration"] = ("<?xml version='1.0'" + " " * room + f"?>{opening}{closing}").encode()
    documents["spaces before"] = f"{' ' * room}{opening}{closing}".encode()
    documents["no XML"] = b"<" * size
    return documents


def deflated(document: bytes) -> str:
    packing = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b64encode(packing.compress(document) + packing.flush()).decode()


def json_documents(size: int = SIZE) -> Mapping[str, bytes]:
    """Values, to stand for a member of a body."""
    room = size - 200
    return {
        "deep arrays": b"[" * (room // 2) + b"]" * (room // 2),
        "deep as allowed": b"[" + b",".join([b"[" * 90 + b"]" * 90] * (room // 182)) + b"]",
        "deep objects": b'{"a":' * (room // 6) + b"1" + b"}" * (room // 6),
        "many members": ("{" + _numbered('"a#":1,', room) + '"z":1}').encode(),
        "one member again": ("{" + _filled('"a":1,', room) + '"a":1}').encode(),
        "small numbers": ("[" + _filled("0,", room) + "0]").encode(),
        "small objects": ("[" + _filled("{},", room) + "{}]").encode(),
        "small texts": ("[" + _filled('"",', room) + '""]').encode(),
        "objects of a member": ("[" + _filled('{"value":"x"},', room) + "{}]").encode(),
        "long numbers": ("[" + _filled("9" * 4000 + ",", room) + "0]").encode(),
        "one number": b"9" * room,
        "fractions": ("[" + _filled("1.7976931348623157e-308,", room) + "0]").encode(),
        "far numbers": ("[" + _filled("1e-320,", room) + "0]").encode(),
        "marks": json.dumps(_filled(_MARKS, room), ensure_ascii=False).encode(),
        "marks as names": json.dumps({f"{one}{_MARKS}": 1 for one in range(room // 300)}, ensure_ascii=False).encode(),
        "escapes": ('"' + _filled("\\u0344", room) + '"').encode(),
        "backslashes": ('"' + _filled("\\\\", room) + '"').encode(),
        "halves of pairs": ('"' + _filled("\\ud800", room) + '"').encode(),
        "brackets in texts": ('["' + _filled("[{", room) + '"]').encode(),
        "spaces": b"[" + b" \n\t\r" * (room // 4) + b"]",
        "ligatures": json.dumps(_filled("\ufdfa", room), ensure_ascii=False).encode(),
    }


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)) + b"".join(chunks) + _chunk(b"IEND", b"")


def _webp(parts: bytes) -> bytes:
    head = b"VP8X" + struct.pack("<I", 10) + b"\x02\x00\x00\x00" + b"\x3f\x00\x00" * 2
    return b"RIFF" + struct.pack("<I", len(head) + len(parts) + 4) + b"WEBP" + head + parts


def _part(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body + b"\x00" * (len(body) % 2)


def pictures(size: int = SIZE) -> Mapping[str, bytes]:
    jpeg = b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x40\x00\x40\x01\x01\x11\x00"
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
    bomb = zlib.compress(bytes(size * 900), 9)[: size - 100]
    frame = _part(b"ANMF", bytes(16) + _part(b"junk", b"") * 480)
    return {
        "PNG of small chunks": _png(_chunk(b"tEXt", b"") * (size // 12)),
        "PNG of some chunks": _png(_chunk(b"IDAT", bytes(size // 450 - 12)) * 440),
        "PNG with a bomb": _png(_chunk(b"IDAT", bomb)),
        "PNG with a bomb of a text": _png(_chunk(b"zTXt", b"a\x00\x00" + bomb)),
        "PNG with a bomb of colours": _png(_chunk(b"iCCP", b"a\x00\x00" + bomb)),
        "JPEG of fill bytes": jpeg + b"\xff" * size,
        "JPEG of fill bytes before the size": b"\xff\xd8" + b"\xff" * size,
        "JPEG of small segments": jpeg + b"\xff\xfe\x00\x02" * (size // 4),
        "JPEG with a scan of stuffed bytes": jpeg + scan + b"\xff\x00" * (size // 2) + b"\xff\xd9",
        "JPEG with a scan of restarts": jpeg + scan + b"\xff\xd0" * (size // 2) + b"\xff\xd9",
        "JPEG of many scans": jpeg + (scan + b"\xff\x00" * 90) * (size // 190) + b"\xff\xd9",
        "WebP of small parts": _webp(_part(b"junk", b"") * (size // 8)),
        "WebP of frames of small parts": _webp(frame * (size // len(frame))),
        "WebP of some parts": _webp(_part(b"ANMF", bytes(16)) * 480),
        "no picture": b"\x00" * size,
    }


def form(name: str, packed: str) -> bytes:
    return f"{name}={quote(packed, safe='')}".encode()


def with_file(field: str, content: bytes, **fields: str) -> bytes:
    parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    head = f'--b\r\nContent-Disposition: form-data; name="{field}"; filename="f"\r\nContent-Type: image/png\r\n\r\n'.encode()
    return b"".join((*parts, head, content, b"\r\n--b--\r\n"))


def forms_with_files(size: int = SIZE) -> Mapping[str, bytes]:
    return {
        "many parts": b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * (size // 58) + b"--b--\r\n",
        "boundaries": b"--b\r\n" * (size // 5),
        "half boundaries": with_file("picture", b"\r\n--" * (size // 4)),
        "a long head": b'--b\r\nContent-Disposition: form-data; name="a"' + b"; x=y" * (size // 5) + b"\r\n\r\n\r\n--b--\r\n",
        "lines": with_file("picture", b"\r\n" * (size // 2)),
    }
