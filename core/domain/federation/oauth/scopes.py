"""Scopes: what a person lets an application know and do (RFC 6749 section 3.3, OpenID Connect Core sections 5.4 and 11)."""

from collections.abc import Sequence
from typing import Final

OPENID: Final = "openid"
PROFILE: Final = "profile"
EMAIL: Final = "email"
OFFLINE_ACCESS: Final = "offline_access"
"""The session stays when the person signs out in the browser."""
ORGANIZATION: Final = "organization"
"""Which organization the service belongs to, and the person's role in it."""
GROUPS: Final = "groups"
"""The role once more, as a group of the kind that applications know."""
SCOPES: Final = (OPENID, PROFILE, EMAIL, OFFLINE_ACCESS, ORGANIZATION, GROUPS)

LONGEST_SCOPES: Final = 1000


def words(text: str) -> tuple[str, ...]:
    """The scopes that a request names, each once, in its order."""
    return tuple(dict.fromkeys(text.split(" "))) if text.strip(" ") else ()


def known(named: Sequence[str]) -> tuple[str, ...]:
    """Those that there are; others do not count (OpenID Connect Core section 3.1.2.1)."""
    return tuple(scope for scope in SCOPES if scope in named)
