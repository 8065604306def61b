"""What programs, browsers, crawlers and people with a finding look for at the same address of every site, as the public keys."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import NotFound
from core.domain.identity.passkeys import RELATED_ORIGINS, Obstacle
from core.domain.languages import CONSOLE_LANGUAGES
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, NoBody, Origins
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.page_addresses import ADD_PASSKEY, PASSKEYS, PASSWORD
from entrypoints.http.pages.kit import shipped_pages

_KEY: Final = {
    "kty": "EC",
    "crv": "P-256",
    "kid": "9f2c1a7e",
    "use": "sig",
    "alg": "ES256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}


class KeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517 section 5)."""

    keys: Annotated[Sequence[dict[str, Any]], example([_KEY])]
    """The public keys: the current signing key, the next one, and earlier keys whose tokens are still valid."""


# A rotation publishes the next key long before it signs: verifiers that look every few minutes never meet an unknown one.
@endpoint.get("/.well-known/jwks.json", caller=ANYONE, limit=UNLIMITED, tags=("keys",), cache="public, max-age=300", origins=Origins.ALL)
async def get_jwks(_call: Call, postern: Postern) -> KeySet:
    """Get the public keys that verify access tokens and ID tokens

    Return the current keys, the next keys, and earlier keys whose tokens are still valid. `kid` in a token's header identifies the key that
    signed it.
    """
    return msgspec.convert(await postern.foundation.signing_keys.published(), KeySet)


# RFC 9116 section 2.5.5 recommends less than a year. The answer is made anew each day, so this is how long a copy of it counts.
_COUNTS_FOR: Final = timedelta(days=90)
_SECURITY: Final = "/.well-known/security.txt"
_PUBLIC: Final[Statement] = {"caller": ANYONE, "limit": UNLIMITED, "tags": ("operations",), "cache": "public, max-age=3600"}
_TEXT: Final[Statement] = {**_PUBLIC, "produces": "text/plain; charset=utf-8"}
_CONTACT: Final[Statement] = {**_TEXT, "refuses": (NotFound,)}
# Browsers keep nothing of it, and an origin that the operator takes out must soon be out.
_RELATED: Final[Statement] = {**_PUBLIC, "cache": "public, max-age=300", "refuses": (NotFound,)}
_LEADING: Final[Statement] = {**_PUBLIC, "status": 303}
_ICON: Final[Statement] = {**_PUBLIC, "produces": "image/x-icon"}


class PasskeyEndpoints(msgspec.Struct, frozen=True):
    """The pages to which password managers direct people for their passkeys."""

    enroll: Annotated[str, example("https://id.example.org/ui/passkeys/add")]
    """The page on which the person adds a passkey."""
    manage: Annotated[str, example("https://id.example.org/ui/passkeys")]
    """The page that lists the person's passkeys."""


@endpoint.get(_SECURITY, **_CONTACT)
def get_security_contact(_call: Call, postern: Postern) -> bytes:
    """Get the contact for vulnerability reports (RFC 9116)

    Return the contact in the setting `POSTERN_SECURITY_CONTACT`. If the operator has not set it, the response is 404.
    """
    foundation = postern.foundation
    if not foundation.security_contacts:
        raise NotFound
    tomorrow = foundation.clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    lines = [
        *(f"Contact: {contact}" for contact in foundation.security_contacts),
        f"Expires: {tomorrow + _COUNTS_FOR:%Y-%m-%dT%H:%M:%SZ}",
        f"Preferred-Languages: {', '.join(CONSOLE_LANGUAGES)}",
        f"Canonical: {foundation.public_url}{_SECURITY}",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


@endpoint.get("/.well-known/change-password", **_LEADING)
def open_password_page(_call: Call, postern: Postern) -> Answer[NoBody]:
    """Redirect to the page for changing a password

    Password managers open this well-known URL when a person wants to change their password.
    """
    return Answer(NO_BODY, 303, ((b"location", f"{postern.foundation.public_url}{PASSWORD}".encode()),))


@endpoint.get("/.well-known/passkey-endpoints", **_PUBLIC)
def get_passkey_endpoints(_call: Call, postern: Postern) -> PasskeyEndpoints:
    """Get the URLs of the passkey pages

    Password managers read this well-known URL, and direct people to the page on which they can add a passkey.
    """
    at = postern.foundation.public_url
    return PasskeyEndpoints(enroll=at + ADD_PASSKEY, manage=at + PASSKEYS)


class RelatedOrigins(msgspec.Struct, frozen=True):
    """The origins whose pages may use the passkeys of this host (Web Authentication, level 3, section 5.11)."""

    origins: Annotated[Sequence[str], example(["https://login.example.org"])]
    """The origins of pages that may create and use passkeys."""


@endpoint.get(RELATED_ORIGINS, **_RELATED)
def get_related_origins(_call: Call, postern: Postern) -> RelatedOrigins:
    """Get the origins that may use the passkeys of this host

    Browsers read this well-known URL on the host that passkeys belong to (`POSTERN_PASSKEY_ID`), when a page on another host requests one
    of its passkeys. If passkeys belong to the host of the base URL, and `POSTERN_PASSKEY_ORIGINS` names no other origin, the response is
    404.
    """
    party = postern.identity.passkeys.relying_party
    if isinstance(party, Obstacle) or not party.is_of_several:
        raise NotFound
    return RelatedOrigins(party.origins)


@endpoint.get("/robots.txt", **_TEXT)
def get_robots(_call: Call, _postern: Postern) -> bytes:
    """Get the rules for crawlers

    Disallow all crawlers. Pages of an installation are of no use in search results, and many of their links can be used only once.
    """
    return b"User-agent: *\nDisallow: /\n"


@endpoint.get("/favicon.ico", **_ICON)
def get_sign(_call: Call, _postern: Postern) -> bytes:
    """Get the default favicon

    Browsers request this icon for responses that are not pages. Pages specify a sharper icon.
    """
    return shipped_pages().sign
