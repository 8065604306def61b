"""Scopes: the data and actions that a person allows an application (RFC 6749 section 3.3, OpenID Connect Core sections 5.4 and 11)."""

from collections.abc import Sequence
from typing import Final

OPENID: Final = "openid"
PROFILE: Final = "profile"
EMAIL: Final = "email"
OFFLINE_ACCESS: Final = "offline_access"
"""The session lives on when the person signs out in the browser."""
ORGANIZATION: Final = "organization"
"""The organization of the service, and the person's role in it."""
ROLES: Final = "roles"
"""The roles that the person holds in the service, and what these roles permit there."""
GROUPS: Final = "groups"
"""The role in the organization in the form of a group, which more applications understand, and the person's teams there."""
PROVIDER_TOKEN: Final = "provider_token"  # noqa: S105 - a scope
"""The person's access token at the provider through which they signed in. Other sessions than those of an authorization need no scope."""
SCOPES: Final = (OPENID, PROFILE, EMAIL, OFFLINE_ACCESS, ORGANIZATION, ROLES, GROUPS, PROVIDER_TOKEN)

LONGEST_SCOPES: Final = 1000


def words(text: str) -> tuple[str, ...]:
    """The scopes that a request names, each once, in the order of the request."""
    return tuple(dict.fromkeys(text.split(" "))) if text.strip(" ") else ()


def known(named: Sequence[str]) -> tuple[str, ...]:
    """The scopes that exist, in our order; others are ignored (OpenID Connect Core section 3.1.2.1)."""
    return tuple(scope for scope in SCOPES if scope in named)
