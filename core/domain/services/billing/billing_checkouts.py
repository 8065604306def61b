"""Hosted checkout: a person buys a plan on the provider's page. The addresses to return to, and the rule for repeated requests."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from core.domain.errors import BadRequest
from core.domain.services.redirect_uris import web_page

# The provider accepts no less than half an hour.
LIFETIME: Final = timedelta(hours=1)
# For so long, an equal request gets the same checkout. The rest of the checkout's hour is enough to pay.
REPEATED_WITHIN: Final = timedelta(minutes=25)
# The provider forgets idempotency keys after a day.
KEY_LIFETIME: Final = timedelta(hours=20)
_SESSION: Final = "{CHECKOUT_SESSION_ID}"


def return_address(text: str, field: str, redirect_uris: Iterable[str], *, names_session: bool = False) -> str:
    """The address, unchanged. It must be on the origin of one of the service's redirect URIs, to which people are sent anyway. Raises
    `BadRequest`, which names the field.
    """
    read = web_page(text.replace(_SESSION, "session") if names_session else text, field)
    if _origin(read) not in set(map(_origin, redirect_uris)):
        raise BadRequest(f"{field}: must be on an origin of the service's redirect URIs", words="origin_of_redirect")
    return text


def _origin(address: str) -> tuple[str, str] | None:
    parts = urlsplit(address)
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme)
    return None if usual is None else (parts.scheme, parts.netloc.lower().removesuffix(usual))


def digest_of(*parts: str) -> str:
    """A digest that tells two requests apart without storing them."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_repeated(digest: str, last_digest: str, asked_at: datetime, now: datetime) -> bool:
    return digest == last_digest and now - asked_at < REPEATED_WITHIN
