"""SAML messages from browsers, and a limit on the work that they cause on the event loop."""

from base64 import b64decode, b64encode
from functools import partial
from types import TracebackType
from typing import Final
from urllib.parse import unquote_plus, urlencode
from zlib import DEFLATED, MAX_WBITS, compressobj

import trio

from core.domain.saml import LONGEST_MESSAGE, Envelope, MessageRefused, SamlBinding
from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.decoding import beside_the_loop
from entrypoints.http.pages.authorization.authorization_pages import pairs

SAML_FORM: Final = Raw("application/x-www-form-urlencoded", 3 * LONGEST_MESSAGE)
"""The limit for a form: a message in base64, with every byte percent-encoded at worst."""
REQUEST: Final = "SAMLRequest"
RESPONSE: Final = "SAMLResponse"
_SIGNED: Final = ("RelayState", "SigAlg")
# A parameter of our own, in the address of a redirect after a form. It says that the sender used a form.
_CAME_BY: Final = "came_by"
_FORM: Final = "form"
_DEFLATE: Final = "urn:oasis:names:tc:SAML:2.0:bindings:URL-Encoding:DEFLATE"
# The length that web servers commonly accept for the address of a request.
_LONGEST_ADDRESS: Final = 7000


def in_address(query: bytes, name: str) -> Envelope:
    """The message in an address. Raises `MessageRefused` when there is not exactly one such message."""
    raw = _once(query, (name, "RelayState", "SigAlg", "Signature", "SAMLEncoding", _CAME_BY))
    if name not in raw:
        raise _missing(name)
    if "SAMLEncoding" in raw and _decoded(raw["SAMLEncoding"]) != _DEFLATE:
        raise MessageRefused("its SAMLEncoding is not DEFLATE")
    signed = "&".join(f"{one}={raw[one]}" for one in (name, *_SIGNED) if one in raw)
    return Envelope(
        binding=SamlBinding.REDIRECT,
        packed=_decoded(raw[name]),
        relay_state=_decoded(raw["RelayState"]) if "RelayState" in raw else None,
        signature=_decoded(raw["Signature"]) if "Signature" in raw else None,
        algorithm=_decoded(raw["SigAlg"]) if "SigAlg" in raw else None,
        # The signature covers each parameter exactly as the sender encoded it.
        signed_octets=signed.encode("latin-1"),
        came_by_form=raw.get(_CAME_BY) == _FORM,
    )


async def in_form(body: bytes, name: str) -> Envelope:
    """The message in a form. Raises `MessageRefused` when there is not exactly one such message."""
    return await beside_the_loop(partial(_in_form, body, name), body)


def _in_form(body: bytes, name: str) -> Envelope:
    found: dict[str, str] = {}
    for field, value in pairs(body):
        if field in {name, "RelayState"}:
            if field in found:
                raise _twice(field)
            found[field] = value
    if name not in found:
        raise _missing(name)
    return Envelope(binding=SamlBinding.POST, packed=found[name], relay_state=found.get("RelayState"))


def has(encoded: bytes, name: str) -> bool:
    """Whether the form has the field. It searches the bytes and does not split them, because a form of nothing but ampersands has many
    parts.
    """
    field, parts = b"&" + name.encode(), b"&" + encoded + b"&"
    return field + b"=" in parts or field + b"&" in parts


async def address(path: str, name: str, envelope: Envelope) -> str:
    """An address with the same message, so that the browser comes back with its cookies. Only a message whose signature does not count can
    go this way. Raises `MessageRefused` if the message is too long.
    """
    return await beside_the_loop(partial(_address, path, name, envelope), envelope.packed)


def _address(path: str, name: str, envelope: Envelope) -> str:
    try:
        document = b64decode("".join(envelope.packed.split()), validate=True)
    except ValueError:
        raise MessageRefused("it is not base64") from None
    deflating = compressobj(9, DEFLATED, -MAX_WBITS)
    fields = {name: b64encode(deflating.compress(document) + deflating.flush()).decode(), _CAME_BY: _FORM}
    if envelope.relay_state is not None:
        fields["RelayState"] = envelope.relay_state
    made = f"{path}?{urlencode(fields)}"
    if len(made) > _LONGEST_ADDRESS:
        raise MessageRefused("it is too long for an address", "Sign logout requests, and upload metadata with the certificate")
    return made


def _once(query: bytes, names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in query.decode("latin-1").split("&"):
        field, _, value = part.partition("=")
        if field in names:
            if field in found:
                raise _twice(field)
            found[field] = value
    return found


def _decoded(raw: str) -> str:
    return unquote_plus(raw, errors="replace")


def _missing(name: str) -> MessageRefused:
    return MessageRefused(f"there is no {name}", f"Send {name}", words="saml_missing")


def _twice(name: str) -> MessageRefused:
    return MessageRefused(f"it has {name} twice", f"Send {name} once")


class FewAtOnce:
    """`async with few:` waits in line for a place. The limit on requests in flight bounds the line.

    Hundreds of pieces of work at once would take turns in each round of the event loop, and every other request would wait for a whole
    round.
    """

    __slots__ = ("_places",)

    def __init__(self, most: int) -> None:
        self._places: Final = trio.Semaphore(most)

    async def __aenter__(self) -> None:
        try:
            # If a place is free, the task takes it without giving up its turn.
            self._places.acquire_nowait()
        except trio.WouldBlock:
            await self._places.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._places.release()
