"""SCIM clients of an organization: their tokens, and the log of their requests."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import BadRequest
from core.domain.federation.scim.mappings import NOTHING_MAPPED, ScimMapping
from core.domain.formats import Json, timestamp
from core.domain.identifiers import OrganizationId, ScimExchangeId, ScimTokenId, UserId
from core.domain.record.events import ActingKey, ActingKind, Actor, Event, Target
from core.frozen import Frozen

KIND: Final = "scim_live"
# The provider in the event of an account that a directory made. A registered account has its way to sign in there.
THROUGH_SCIM: Final = "scim"
MOST_TOKENS: Final = 50
"""The limit for one organization. Expired tokens count too, because they stay until somebody deletes them."""


class ScimToken(Frozen, kw_only=True):
    """The stored data of a SCIM token, with which a directory manages the users of one organization. The token itself is only in the
    response that creates it. `prefix` is its beginning.
    """

    id: ScimTokenId
    organization: OrganizationId
    name: str
    prefix: str
    last_used_at: datetime | None = None
    expires_at: datetime | None
    created_by: UserId
    created_at: datetime


class ScimHolder(Frozen):
    """The directory that holds a valid token of an active organization."""

    token: ScimTokenId
    name: str
    prefix: str
    organization: OrganizationId
    organization_slug: str
    mapping: ScimMapping = NOTHING_MAPPED
    """The fields of the organization that the directory fills by attributes."""

    @property
    def acting(self) -> ActingKey:
        return ActingKey(self.token, self.name, self.prefix, ActingKind.SCIM_TOKEN)

    @property
    def facts(self) -> Mapping[str, Json]:
        """What an event says of the directory."""
        return {"through": THROUGH_SCIM, "scim_token_id": str(self.token)}


def require_future(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise BadRequest("expires_at: must be in the future, or omitted for a token that does not expire")


def require_room(count: int) -> None:
    if count >= MOST_TOKENS:
        raise BadRequest(f"An organization has at most {MOST_TOKENS} SCIM tokens: delete one first")


def scim_token_created(token: ScimToken, actor: Actor) -> Event:
    return _event("scim_token.created", token, actor)


def scim_token_deleted(token: ScimToken, actor: Actor) -> Event:
    return _event("scim_token.deleted", token, actor)


def _event(name: str, token: ScimToken, actor: Actor) -> Event:
    details: dict[str, Json] = {
        "name": token.name,
        "prefix": token.prefix,
        "expires_at": None if token.expires_at is None else timestamp(token.expires_at),
    }
    return Event(name, actor, Target("scim_token", str(token.id)), token.organization, details)


KEPT_FOR: Final = timedelta(days=7)
MOST_KEPT: Final = 1000
"""The limit of one organization. The oldest exchanges are deleted first."""
REDACTED: Final = "…"
_LONGEST_PATH: Final = 200
_LONGEST_QUERY: Final = 2000
# The limit of a path or filter in a body, which may have many of them.
_LONGEST_TEXT: Final = 500
_LONGEST_REASON: Final = 500
# The limit of list entries, and of an object's attributes: enough to show the structure.
_MOST_SHOWN: Final = 10
_DEEPEST: Final = 8
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_ID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
# Texts that may be shown: words of the protocol, and truth values as some directories write them.
_WORDS: Final = frozenset({"add", "replace", "remove", "true", "false", "work", "home", "other", "user", "group", ""})
_SHOWN_AS_THEY_ARE: Final = frozenset({"schemas", "sortby", "sortorder"})
_NUMBERS: Final = frozenset({"startindex", "count"})
_COMPARED: Final = re.compile(r"\b(eq|ne|co|sw|ew|gt|ge|lt|le)(\s+)('[^']*'?|[^\s\")\]]+)", re.IGNORECASE)
_WITH_ADDRESS: Final = re.compile(r"[^\s“”\"',]*@[^\s“”\"',]*")
_PATHS: Final = frozenset({"path", "filter"})
_NAME: Final = re.compile(r"[A-Za-z$][A-Za-z0-9_.:$-]{0,99}")


class ScimExchange(Frozen, kw_only=True):
    """One request of a SCIM token and its outcome, with the reason of a refusal. Everything about users is removed before a request is
    stored: a text becomes `…`, unless it is a word of SCIM. `request` shows the structure of the body. None when the body could not be
    read, or there was none.
    """

    id: ScimExchangeId
    organization: OrganizationId
    token: ScimTokenId
    token_name: str
    method: str
    path: str
    query: str | None
    request: Json
    status: int
    scim_type: str | None
    reason: str | None
    occurred_at: datetime


def shown_path(path: str) -> str:
    """Ids say which resource the request was about. Any other text in place of an id may be about a person."""
    segments = [segment if _is_word(segment) or _ID.fullmatch(segment) else REDACTED for segment in path.split("/")]
    return "/".join(segments)[:_LONGEST_PATH]


def shown_query(pairs: Mapping[str, str]) -> str | None:
    """The query without personal data. `pairs` are decoded."""
    if not pairs:
        return None
    return "&".join(f"{_shown_name(name)}={_shown_value(name.lower(), value)}" for name, value in pairs.items())[:_LONGEST_QUERY]


def shown_body(value: Json, name: str = "", depth: int = 0) -> Json:
    """The structure of a body: all attributes, and only the values that say nothing about a person."""
    if depth > _DEEPEST:
        return REDACTED
    if isinstance(value, str):
        return _shown_text(name.lower(), value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if name.lower() in _NUMBERS else REDACTED
    if isinstance(value, Mapping):
        pairs = list(value.items())
        shown: dict[str, Json] = {_shown_name(inner): shown_body(one, inner, depth + 1) for inner, one in pairs[:_MOST_SHOWN]}
        return shown | ({REDACTED: f"{len(pairs) - _MOST_SHOWN} more"} if len(pairs) > _MOST_SHOWN else {})
    listed = [shown_body(one, name, depth + 1) for one in value[:_MOST_SHOWN]]
    return [*listed, f"{len(value) - _MOST_SHOWN} more"] if len(value) > _MOST_SHOWN else listed


def shown_reason(reason: str) -> str:
    """The reason without addresses: a reason may quote a directory's text."""
    # To look for addresses takes time that grows with the square of a word's length. The cut may leave half of an address, which goes.
    if len(reason) > 2 * _LONGEST_REASON:
        reason = reason[: 2 * _LONGEST_REASON].rpartition(" ")[0]
    return _WITH_ADDRESS.sub(REDACTED, reason)[:_LONGEST_REASON]


def _shown_text(name: str, value: str) -> Json:
    if name in _SHOWN_AS_THEY_ARE and _NAME.fullmatch(value):
        return value
    if name in _PATHS:
        return _without_texts(value[:_LONGEST_TEXT])
    return value if value.lower() in _WORDS or _ID.fullmatch(value) else REDACTED


def _shown_value(name: str, value: str) -> str:
    if name == "filter":
        return _without_texts(value)
    if name in {"attributes", "excludedattributes", "sortby", "sortorder"}:
        return ",".join(one if _NAME.fullmatch(one) else REDACTED for one in value.split(",")[:_MOST_SHOWN])
    return value if value.isdecimal() else REDACTED


def _without_texts(text: str) -> str:
    """A filter or path without its values. Words of the protocol and ids stay."""

    def shown(found: re.Match[str]) -> str:
        inner = found[0].strip('"')
        return found[0] if inner.lower() in _WORDS or _ID.fullmatch(inner) else f'"{REDACTED}"'

    def bare(found: re.Match[str]) -> str:
        return found[0] if found[3].lower() in _WORDS or _ID.fullmatch(found[3]) else f"{found[1]}{found[2]}{REDACTED}"

    redacted = _COMPARED.sub(bare, _QUOTED.sub(shown, text[:_LONGEST_QUERY]))
    return redacted if "@" not in redacted else REDACTED


def _shown_name(name: str) -> str:
    """An attribute's name. Some directories use paths with filters as names, so filters lose their values here too."""
    return name if _NAME.fullmatch(name) else _without_texts(name)[:_LONGEST_PATH] if "[" in name else REDACTED


def _is_word(segment: str) -> bool:
    return segment in {"", "scim", "v2", "Users", "Groups", "ServiceProviderConfig", "ResourceTypes", "Schemas", ".search", "Bulk"}
