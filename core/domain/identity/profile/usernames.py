"""User names: each is a claim for applications and no way to sign in. It is unique, and never issued twice."""

import hmac
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest
from core.domain.rate_limits import RateLimit

USED_USERNAMES: Final = "used_usernames"
"""The purpose of the server's secret. A digest under it outlives the account, and says nothing without the secret."""
PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{1,38}[a-z0-9]$"
# Each change uses a name up for good, and each refusal says whether a name was ever used.
USERNAME_CHANGES: Final = RateLimit("username_changes", burst=5, seconds_per_request=3600)
_USERNAME: Final = re.compile(PATTERN)
# Names of mailboxes that must exist (RFC 2142), of roles, and of things. Applications show user names to others, or build addresses and
# paths from them, so nobody may speak as one of these.
RESERVED: Final = frozenset(
    [
        "abuse",
        "account",
        "accounts",
        "admin",
        "administrator",
        "administrators",
        "admins",
        "all",
        "anonymous",
        "api",
        "apps",
        "auth",
        "authenticated",
        "billing",
        "bot",
        "bots",
        "channel",
        "config",
        "console",
        "contact",
        "daemon",
        "default",
        "demo",
        "dev",
        "developer",
        "developers",
        "everybody",
        "everyone",
        "false",
        "ftp",
        "group",
        "groups",
        "guest",
        "guests",
        "health",
        "help",
        "here",
        "hostmaster",
        "info",
        "internal",
        "invalid",
        "login",
        "logout",
        "mail",
        "mailer-daemon",
        "member",
        "members",
        "metrics",
        "mod",
        "moderator",
        "moderators",
        "news",
        "no-reply",
        "nobody",
        "none",
        "noreply",
        "noc",
        "null",
        "oauth",
        "official",
        "operator",
        "operators",
        "org",
        "organization",
        "organizations",
        "owner",
        "owners",
        "platform",
        "postern",
        "postmaster",
        "public",
        "robot",
        "root",
        "saml",
        "scim",
        "security",
        "self",
        "service",
        "services",
        "settings",
        "signin",
        "signup",
        "staff",
        "static",
        "status",
        "sudo",
        "superuser",
        "support",
        "sys",
        "sysadmin",
        "system",
        "team",
        "teams",
        "test",
        "tester",
        "true",
        "trouble",
        "undefined",
        "unknown",
        "user",
        "username",
        "users",
        "usenet",
        "uucp",
        "webhooks",
        "webmaster",
        "well-known",
        "www",
        "you",
    ]
)


class WrongField(BadRequest):
    """A value that a field of the profile does not take. `field` names the field."""

    def __init__(self, field: str, message: str, *, words: str, values: Mapping[str, object] = MappingProxyType({})) -> None:
        super().__init__(f"{field}: {message}", words=words, values=values)
        self.field = field


def username(text: str) -> str:
    """The user name that a person asks for. Raises `BadRequest`."""
    name = text.strip()
    if not _USERNAME.fullmatch(name):
        raise WrongField(
            "username",
            "3 to 40 small letters, digits, dots, hyphens and underscores, with a letter or digit at both ends",
            words="username_malformed",
        )
    if name in RESERVED:
        raise WrongField("username", "this name is reserved", words="username_reserved")
    return name


def username_digest(name: str, key: bytes) -> bytes:
    return hmac.digest(key, name.encode(), "sha256")
