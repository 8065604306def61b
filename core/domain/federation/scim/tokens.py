"""SCIM tokens: with such a token, a directory manages the people of one organization."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.federation.scim.mappings import NOTHING_MAPPED, ScimMapping
from core.domain.identifiers import OrganizationId, ScimTokenId, UserId
from core.domain.json import Json, timestamp
from core.domain.record.events import ActingKey, ActingKind, Actor, Event, Target
from core.frozen import Frozen

KIND: Final = "scim_live"
# The provider in the event of an account that a directory made. A registered account has its way to sign in there.
THROUGH_SCIM: Final = "scim"
MOST_TOKENS: Final = 50
"""The limit for one organization. Expired tokens count too, because they stay until somebody deletes them."""


class ScimToken(Frozen, kw_only=True):
    """The stored data of a token. The token itself is only in the answer that creates it. `prefix` is its beginning."""

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
        raise BadRequest("expires_at: must lie in the future, or be left out for a token that does not expire")


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
