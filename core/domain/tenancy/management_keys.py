"""Management API keys: their capabilities, what all machine keys share, and the access tokens with a key's rights."""

import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, TypeVar
from uuid import UUID

from core.domain.errors import BadRequest, OrganizationNotActive, TokenInvalid, Unauthorized
from core.domain.formats import Json, timestamp
from core.domain.identifiers import ApiKeyId, ClientSecretId, InvitationId, ManagementKeyId, OrganizationId, TrustedIssuerId, UserId
from core.domain.identity.sessions import TokenUse
from core.domain.lines import typed_line
from core.domain.mail import Email
from core.domain.record.events import ActingKey, ActingKind, Actor, Event, Target
from core.domain.secrets import Token
from core.domain.tenancy.roles import Capability, capabilities_of
from core.domain.tenancy.trusted_issuers import TrustedIssuer
from core.frozen import Frozen

OF_ORGANIZATION: Final = "pto"
OF_PLATFORM: Final = "ptp"
LONGEST_LIFE: Final = 365
"""In days."""
FORMER_LIFE: Final = timedelta(hours=24)
"""How long the former secret of an adopted key counts, for those who have to put the new one in its place."""
USUAL_LIFE: Final = 90
"""In days."""
MOST_KEYS: Final = 100
"""The limit for one organization, and for the platform. Expired keys count too, until somebody ends them or the janitor deletes them."""
MOST_LISTED: Final = 1000
"""The most API keys, client secrets and invitations, of each, that a list of what a key has made names."""
CLOSED: Final = "Management API keys cannot use this endpoint"


class PlatformCapability(StrEnum):
    """The capabilities that a management API key of the platform can have. Platform owners have all of them."""

    ORGANIZATIONS_VIEW = "organizations.view"
    ORGANIZATIONS_MANAGE = "organizations.manage"
    PEOPLE_VIEW = "people.view"
    PEOPLE_MANAGE = "people.manage"
    TIERS_MANAGE = "tiers.manage"
    AUDIT_LOGS_VIEW = "audit_logs.view"
    CONFIGURATION_MANAGE = "configuration.manage"


_NONE: Final[frozenset[Capability]] = frozenset()
_NONE_OF_PLATFORM: Final[frozenset[PlatformCapability]] = frozenset()
Word = TypeVar("Word", Capability, PlatformCapability)


class ManagementKey(Frozen, kw_only=True):
    """The stored data of a management API key, with which a script manages an organization, or the platform, without a user. The key never
    does more than its capabilities allow. Until an owner adopts it, it also does no more than its creator may do at that time. The key
    itself is only in the response that creates it. `prefix` is its beginning.
    """

    id: ManagementKeyId
    organization: OrganizationId | None
    """None for a key of the platform."""
    name: str
    prefix: str
    capabilities: tuple[str, ...]
    """`Capability` or `PlatformCapability`, in the order of the request."""
    last_used_at: datetime | None = None
    expires_at: datetime
    created_by: UserId
    created_at: datetime
    adopted_by: UserId | None = None
    """The owner who adopted the key. Since then the key no longer depends on its maker."""
    adopted_at: datetime | None = None
    maker: Email | None = None
    """The maker's address. None when the account is gone, and for a key that was made just now."""
    maker_is_here: bool = True
    """The maker is still a member of the organization, or a platform owner, and the account is active."""
    former_until: datetime | None = None
    """The former secret still counts until then, as long as whoever knows it stays."""


class Maker(Frozen):
    """What the maker of a key may do today. The maker is nobody when the account is gone or deactivated."""

    relations: frozenset[str] = frozenset()
    """The maker's relations to the key's organization."""
    owes_second_factor: bool = False
    """The organization requires a second factor of the maker, and the time to set one up is over."""
    is_platform_owner: bool = False


class ManagementKeyHolder(Frozen, kw_only=True):
    """The program behind a valid key, and what it may do at this moment."""

    key: ManagementKeyId
    name: str
    prefix: str
    organization: OrganizationId | None
    organization_slug: str
    organization_name: str = ""
    """Filled when a change asks once more what the key may do."""
    capabilities: frozenset[Capability] = _NONE
    platform_capabilities: frozenset[PlatformCapability] = _NONE_OF_PLATFORM
    responsible: UserId
    """The person who answers for the key: its maker, or the owner who adopted it."""

    @property
    def acting(self) -> ActingKey:
        return ActingKey(self.key, self.name, self.prefix, ActingKind.MANAGEMENT_KEY)


class MadeKey(Frozen):
    """An API key that a management key has made."""

    id: ApiKeyId
    service_slug: str
    name: str
    prefix: str


class MadeSecret(Frozen):
    """A client secret that a management key has made."""

    id: ClientSecretId
    service_slug: str
    prefix: str


class MadeInvitation(Frozen):
    """An invitation that a management key has sent, and that waits for its answer or was accepted."""

    id: InvitationId
    email: Email
    role: str
    created_at: datetime
    accepted: bool


class MadeByKey(Frozen):
    """What a management key has made that lasts without the key. Invitations that wait are void once the key has ended; those that were
    accepted have made somebody a member.
    """

    api_keys: Sequence[MadeKey] = ()
    client_secrets: Sequence[MadeSecret] = ()
    invitations: Sequence[MadeInvitation] = ()


def named_capabilities(words: Collection[str]) -> frozenset[Capability]:
    """Those of a key of an organization, whoever made it."""
    return capabilities_of(_known(Capability, words))


def able_in_organization(words: Collection[str], maker: Maker | None) -> frozenset[Capability]:
    """What a key with these words may do in its organization today. `maker` is None for an adopted key, which stands for itself. Words of a
    later release permit nothing.
    """
    known = named_capabilities(words)
    if maker is None:
        return known
    return _NONE if maker.owes_second_factor else known & capabilities_of(maker.relations)


def able_on_platform(words: Collection[str], maker: Maker | None) -> frozenset[PlatformCapability]:
    """As `able_in_organization`, for a key of the platform."""
    if maker is not None and not maker.is_platform_owner:
        return _NONE_OF_PLATFORM
    return frozenset(_known(PlatformCapability, words))


def _known(words: type[Word], names: Iterable[str]) -> Iterable[Word]:
    stored = frozenset(names)
    return [word for word in words if word.value in stored]


def wanted_capabilities(wanted: Collection[Word]) -> tuple[Word, ...]:
    """Each capability once, in the order of the request. Raises `BadRequest` for an empty list."""
    if not wanted:
        raise BadRequest("capabilities: at least one is required", words="tick_one")
    return tuple(dict.fromkeys(wanted))


def end_of_life(days: int, now: datetime) -> datetime:
    """Raises `BadRequest`."""
    if not 1 <= days <= LONGEST_LIFE:
        raise BadRequest(f"expires_in_days: 1 to {LONGEST_LIFE}", words="field_bounds", values={"least": 1, "most": LONGEST_LIFE})
    return now + timedelta(days=days)


def require_keys_room(count: int) -> None:
    if count >= MOST_KEYS:
        raise BadRequest(
            f"There can be at most {MOST_KEYS} management API keys: revoke one first", words="limit_reached", values={"most": MOST_KEYS}
        )


def management_key_created(key: ManagementKey, actor: Actor) -> Event:
    target, details = _facts(key)
    if key.organization is None:
        return Event("platform.management_key.created", actor, target, None, details)
    return Event("management_key.created", actor, target, key.organization, details)


def management_key_adopted(key: ManagementKey, actor: Actor) -> Event:
    target, details = _facts(key)
    details |= {"former_secret_until": None if key.former_until is None else timestamp(key.former_until)}
    if key.organization is None:
        return Event("platform.management_key.adopted", actor, target, None, details)
    return Event("management_key.adopted", actor, target, key.organization, details)


def management_key_ended(key: ManagementKey, actor: Actor, made: MadeByKey, *, ended_made: bool) -> Event:
    """`made` is what the key has made that lasted until then. A key of the platform makes nothing that lasts."""
    target, details = _facts(key)
    if key.organization is None:
        return Event("platform.management_key.ended", actor, target, None, details)
    lasting: dict[str, Json] = {
        "api_keys": [str(one.id) for one in made.api_keys],
        "client_secrets": [str(one.id) for one in made.client_secrets],
        "invitations": [str(one.id) for one in made.invitations],
    }
    return Event("management_key.ended", actor, target, key.organization, {**details, "made": lasting, "ended_made": ended_made})


def _facts(key: ManagementKey) -> tuple[Target, dict[str, Json]]:
    return Target("management_key", str(key.id)), {
        "name": key.name,
        "prefix": key.prefix,
        "capabilities": list(key.capabilities),
        "expires_at": timestamp(key.expires_at),
    }


LONGEST_KEY_NAME: Final = 100

Key = TypeVar("Key")
Holder = TypeVar("Holder")


class NewMachineKey(Frozen, Generic[Key]):
    """A new machine key, at the only time when its text is known. `key` is the stored part. A client presents such a key to act without a
    user. Applications have API keys, and directories have SCIM tokens. Each kind states to whom a key belongs and what its holder may do.
    All of them are created, named, found and marked as used in one way.
    """

    key: Key
    text: Token


class KnownKey(Frozen, Generic[Holder]):
    """A key as the database knows it for this request. The owner of the key exists."""

    holder: Holder
    digest: bytes
    expires_at: datetime | None
    organization_is_active: bool

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def holder_of(known: KnownKey[Holder] | None, shown: Token, now: datetime, refusal: str) -> Holder:
    """The holder of the shown key. Raises `Unauthorized` with this refusal when there is no such key or it has expired, and
    `OrganizationNotActive`.
    """
    if known is None or not hmac.compare_digest(known.digest, shown.digest()) or known.is_expired(now):
        # An unknown and an expired key get the same answer: only the holder of a good key may learn more.
        raise Unauthorized(refusal)
    if not known.organization_is_active:
        raise OrganizationNotActive
    return known.holder


def key_name(text: str) -> str:
    """The name as it is stored. Raises `BadRequest`."""
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_KEY_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_KEY_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_KEY_NAME})
    return name


def prefix_of(text: Token) -> str:
    """The beginning of the key, which is no secret. People tell their keys apart by it."""
    return text.reveal().rpartition("_")[0]


OF_WORKLOAD: Final = "ptw"
"""Begins such a token, as `pto` begins a key. No other kind of token has it, so a look at the text tells how to check it."""
KEY_TOKEN_LIFETIME: Final = timedelta(minutes=15)
_AUDIENCE: Final = "management"


class KeyToken(Frozen):
    """The claims of an access token with the rights of a management API key, for workloads that have no secret. Such a token lives for
    fifteen minutes, and never longer than its key, and than the trusted issuer by which it was issued. No claim counts before the database
    has confirmed it.
    """

    key: ManagementKeyId
    rule: TrustedIssuerId
    rule_of: datetime
    """The last change of the trusted issuer when the token was given."""


def key_claims(
    holder: ManagementKeyHolder, rule: TrustedIssuer, *, issuer: str, token_id: str, now: datetime, expires_at: datetime
) -> Mapping[str, Json]:
    """The token names no session, so no rule for people and applications admits it."""
    return {
        "iss": issuer,
        "sub": str(holder.key),
        "aud": _AUDIENCE,
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "token_use": TokenUse.MANAGEMENT_KEY.value,
        "org": holder.organization_slug,
        "trusted_issuer": str(rule.id),
        "trusted_issuer_of": timestamp(rule.updated_at),
    }


def key_token(claims: Mapping[str, Json]) -> KeyToken:
    """Raises `TokenInvalid` for a token of ours that is for something else."""
    if claims.get("token_use") != TokenUse.MANAGEMENT_KEY.value or claims.get("aud") != _AUDIENCE:
        raise TokenInvalid(detail="no token with the rights of a management key")
    return KeyToken(
        ManagementKeyId(UUID(str(claims["sub"]))),
        TrustedIssuerId(UUID(str(claims["trusted_issuer"]))),
        datetime.fromisoformat(str(claims["trusted_issuer_of"])),
    )
