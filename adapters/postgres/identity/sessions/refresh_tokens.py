"""The exchange of refresh tokens, in one statement, and the proofs of keys that were used, each of which counts once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from adapters.postgres.functions import Function
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import OWES_SECOND_FACTOR
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import (
    AGENTS_ARE_FORBIDDEN,
    AUTHENTICATES,
    IDLE,
    IS_LIVE,
    PROFILE,
    SUBSCRIPTION_STATE,
    audiences,
    lost_nothing_since,
    may_act,
    open_audiences,
    profile,
    subscription_state,
    tells_more,
)
from adapters.postgres.identity.terms import OWES_TERMS
from adapters.postgres.identity.upstream.ways import directory_context
from adapters.postgres.statements import OnPool, ask, first_made, tell
from adapters.postgres.ties import counts_for
from core.domain.identifiers import ClientId, DeviceId, ImpersonationId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.proofs import Proved
from core.domain.identity.refresh_tokens import Holder, PresentedRefreshToken
from core.domain.identity.sessions import IDLE_LIFETIME, Context, Impersonated, Session
from core.domain.key_proofs import UsedKeyProof
from core.domain.mail import Email
from core.domain.services.clients import shown
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen


class _Presented(Frozen):
    session_id: UUID
    user_id: UUID
    device_id: UUID | None
    organization_id: UUID | None
    organization_slug: str | None
    service_id: UUID | None
    service_slug: str | None
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    ends_at: datetime
    authenticated_by: list[str]
    impersonator_id: UUID | None
    impersonation_id: UUID | None
    email: str
    is_platform_owner: bool
    is_live: bool
    is_admitted: bool
    organization_is_active: bool
    rotated: bool
    rotated_at: datetime | None
    rotated_by: bytes | None
    subscription: Mapping[str, Any] | None
    scopes: list[str] | None
    proved_at: datetime | None
    second_factor_at: datetime | None
    stated_at: datetime | None
    parent_id: UUID | None
    email_is_verified: bool
    role: str | None
    owes_second_factor: bool
    owes_terms: bool
    client_id: str | None
    access_token_alg: str | None
    profile: Mapping[str, Any] | None
    directory_context: str | None
    tells_more: bool
    granted: int | None
    audiences: Sequence[Mapping[str, Any]] | None
    is_agent: bool | None
    agents_are_forbidden: bool
    stays: bool | None

    def presented(self) -> PresentedRefreshToken:
        impersonated = None
        if self.impersonator_id is not None and self.impersonation_id is not None:
            impersonated = Impersonated(ImpersonationId(self.impersonation_id), UserId(self.impersonator_id))
        organization = None if self.organization_id is None else OrganizationId(self.organization_id)
        service = None if self.service_id is None else ServiceId(self.service_id)
        session = Session(
            id=SessionId(self.session_id),
            user=UserId(self.user_id),
            created_at=self.created_at,
            last_seen_at=self.last_seen_at,
            expires_at=self.expires_at,
            ends_at=self.ends_at,
            device=None if self.device_id is None else DeviceId(self.device_id),
            context=Context(organization, self.organization_slug or "", service, self.service_slug or ""),
            authenticated_by=tuple(self.authenticated_by),
            impersonated=impersonated,
            parent=None if self.parent_id is None else SessionId(self.parent_id),
            proved=Proved(self.proved_at, self.second_factor_at, self.stated_at),
            scopes=None if self.scopes is None else tuple(self.scopes),
            directory_context=self.directory_context or "",
        )
        return PresentedRefreshToken(
            session,
            Email(self.email),
            is_platform_owner=self.is_platform_owner,
            is_live=self.is_live,
            is_admitted=self.is_admitted,
            organization_is_active=self.organization_is_active,
            rotated=self.rotated,
            rotated_at=self.rotated_at,
            rotated_by=self.rotated_by,
            subscription=subscription_state(self.subscription),
            email_is_verified=self.email_is_verified,
            role=self.role or "",
            owes_second_factor=self.owes_second_factor,
            owes_terms=self.owes_terms,
            client=None if self.client_id is None else shown(ClientId(self.client_id)),
            algorithm=TokenAlgorithm(self.access_token_alg or TokenAlgorithm.ES256),
            profile=profile(self.profile),
            tells_more=self.tells_more,
            audiences=audiences(self.granted, self.audiences),
            is_agent=self.is_agent or False,
            agents_are_forbidden=self.agents_are_forbidden,
            stays=bool(self.stays),
        )


class PostgresRefreshTokens(OnPool):
    """Implements `ports.identity.sessions.RefreshTokens`."""

    async def rotate(
        self, digest: bytes, successor: bytes, by: bytes, at: datetime, holder: Holder | None = None
    ) -> PresentedRefreshToken | None:
        parameters = {
            "digest": digest,
            "successor": successor,
            "by": by,
            "at": at,
            "idle": IDLE_LIFETIME,
            "service": None if holder is None else holder.service,
            "scopes": [] if holder is None else list(holder.scopes),
            "is_public": holder is None or holder.is_public,
            "resource": None if holder is None or holder.resource is None else storable_text(holder.resource),
            "key": None if holder is None else holder.key,
            "foreign_scopes": [] if holder is None else [storable_text(scope) for scope in holder.foreign_scopes],
        }
        return first_made(await ask(self._pool, _Presented, _ROTATE, parameters), _Presented.presented)


# The arguments of the function, which `rotate` gives.
_ARGUMENTS: Final[Mapping[LiteralString, LiteralString]] = {
    "digest": "bytea",
    "successor": "bytea",
    "by": "bytea",
    "at": "timestamptz",
    "idle": "interval",
    "service": "uuid",
    "scopes": "text[]",
    "is_public": "boolean",
    "resource": "text",
    "key": "text",
    "foreign_scopes": "text[]",
}

# A condition on `services`: the application has nothing to authenticate with, and no URI from which we could still fetch its keys.
_SHOWS_NOTHING: Final[LiteralString] = f"""
           services.service_type in ('mobile', 'desktop') or services.jwks_uri is null and not {AUTHENTICATES}"""

# Conditions on `sessions`, of columns that never change.
_IS_OF_HOLDER: Final = "(%(service)s is null or sessions.scopes is not null and sessions.service_id = %(service)s)"
# A session that began bound stays bound. A public application shows the very key, and another one, which authenticates, any key (RFC 9449
# section 5): it may have a new one since. A session that began without a key gets none by a refresh: a thief would bind it to theirs, and
# nobody would notice that the application still has a token.
_IS_BOUND_HERE: Final = """(
           sessions.key_thumbprint is null
        or %(key)s is not null and (not %(is_public)s or sessions.key_thumbprint = %(key)s)
       )"""

# What the answer and the decision read. The conditions are those of whoever presents the token: without them, it is unknown.
_STANDING: Final[LiteralString] = f"""
            sessions
       join users on users.id = sessions.user_id
       left join organizations on organizations.id = sessions.organization_id
       left join services on services.id = sessions.service_id
       left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id and {counts_for()}
      cross join lateral (select {open_audiences("sessions")} as open) as apis
      where refresh_tokens.digest = %(digest)s and sessions.id = refresh_tokens.session_id
        and {_IS_OF_HOLDER}
        and {_IS_BOUND_HERE}
        and (%(service)s is not null or sessions.scopes is null or services.id is not null and ({_SHOWS_NOTHING}))
        and (sessions.scopes is null or not %(is_public)s or {lost_nothing_since("sessions.created_at")})
        and (%(key)s is not null or not coalesce(services.dpop_bound_access_tokens, false))
"""

_IS_LIVE: Final[LiteralString] = f"({IS_LIVE} and {may_act('sessions')})"
_IS_ADMITTED: Final[LiteralString] = admits("memberships.role is not null", "sessions.user_id")
_IS_ACTIVE: Final = "coalesce(organizations.status = 'active', false)"
_STAYS: Final = "coalesce(sessions.scopes is not null and services.profile = 'fapi2', false)"
_FITS: Final = """
            case
                when sessions.audiences is null
                then %(resource)s is null and (%(foreign_scopes)s = '{}' or %(scopes)s <> '{}')
                else audience_fits(apis.open, sessions.audiences, %(resource)s, %(foreign_scopes)s)
            end"""

# The columns of `_Presented`: the type of each, what it is, and what it is after a rotation where the rotation has decided it.
_PRESENTED: Final[Mapping[LiteralString, tuple[LiteralString, LiteralString, LiteralString | None]]] = {
    "session_id": ("uuid", "sessions.id", None),
    "user_id": ("uuid", "sessions.user_id", None),
    "device_id": ("uuid", "sessions.device_id", None),
    "organization_id": ("uuid", "sessions.organization_id", None),
    "organization_slug": ("text", "organizations.slug", None),
    "service_id": ("uuid", "sessions.service_id", None),
    "service_slug": ("text", "services.slug", None),
    "created_at": ("timestamptz", "sessions.created_at", None),
    "last_seen_at": ("timestamptz", "sessions.last_seen_at", None),
    "expires_at": ("timestamptz", "sessions.expires_at", None),
    "ends_at": ("timestamptz", "sessions.ends_at", None),
    "authenticated_by": ("text[]", "sessions.authenticated_by", None),
    "impersonator_id": ("uuid", "sessions.impersonator_id", None),
    "impersonation_id": ("uuid", "sessions.impersonation_id", None),
    "email": ("text", "users.email", None),
    "is_platform_owner": ("boolean", "users.is_platform_owner", None),
    "is_live": ("boolean", _IS_LIVE, "true"),
    "is_admitted": ("boolean", _IS_ADMITTED, "sessions.organization_id is not null"),
    "organization_is_active": ("boolean", _IS_ACTIVE, "sessions.organization_id is not null"),
    "rotated": ("boolean", "false", "true"),
    "rotated_at": ("timestamptz", "refresh_tokens.rotated_at", "null"),
    "rotated_by": ("bytea", "refresh_tokens.rotated_by", "null"),
    "scopes": ("text[]", "sessions.scopes", None),
    "proved_at": ("timestamptz", "sessions.proved_at", None),
    "second_factor_at": ("timestamptz", "sessions.second_factor_at", None),
    "stated_at": ("timestamptz", "sessions.stated_at", None),
    "parent_id": ("uuid", "sessions.parent_id", None),
    "email_is_verified": ("boolean", is_verified_for("sessions.organization_id"), None),
    "role": ("text", "memberships.role", None),
    "owes_second_factor": ("boolean", OWES_SECOND_FACTOR, "false"),
    "owes_terms": ("boolean", OWES_TERMS, "false"),
    "client_id": ("text", "case when sessions.scopes is not null then services.oauth_client_id end", None),
    "access_token_alg": ("text", "services.access_token_alg", None),
    "profile": ("jsonb", f"case when 'profile' = any (sessions.scopes) then {PROFILE} end", None),
    "granted": ("integer", "jsonb_array_length(sessions.audiences)", None),
    "audiences": ("jsonb", "apis.open", None),
    "is_agent": ("boolean", "services.is_agent", None),
    "agents_are_forbidden": ("boolean", AGENTS_ARE_FORBIDDEN, None),
    "stays": ("boolean", _STAYS, None),
    "subscription": ("jsonb", SUBSCRIPTION_STATE, None),
    "directory_context": (
        "text",
        directory_context("sessions.authenticated_by", "sessions.parent_id", "sessions.organization_id"),
        None,
    ),
    "tells_more": ("boolean", tells_more("sessions.service_id", "sessions.organization_id", "sessions.user_id"), None),
}
_COLUMNS: Final[LiteralString] = ", ".join(_PRESENTED)
_AS_IT_IS: Final[LiteralString] = ",\n           ".join(value for _, value, _ in _PRESENTED.values())
_ROTATED: Final[LiteralString] = ",\n           ".join(value if after is None else after for _, value, after in _PRESENTED.values())

ROTATE_REFRESH_TOKEN: Final = Function(
    "rotate_refresh_token_10",
    "Exchanges a refresh token for its successor.",
    _ARGUMENTS,
    {name: kind for name, (kind, _, _) in _PRESENTED.items()},
    {
        "presented": "record",
        "line": "uuid[]",
        "above": "uuid",
    },
    f"""
    select sessions.id, sessions.parent_id, refresh_tokens.rotated_at is null and sessions.revoked_at is null as may_rotate
      into presented
      from refresh_tokens
      join sessions on sessions.id = refresh_tokens.session_id
     where refresh_tokens.digest = %(digest)s and {_IS_OF_HOLDER} and {_IS_BOUND_HERE};
    if not found then
        return;
    end if;

    rotated := false;
    if presented.may_rotate then
        line := array[presented.id];
        above := presented.parent_id;
        while above is not null loop
            line := line || above;
            select sessions.parent_id into above from sessions where sessions.id = above;
        end loop;
        perform from refresh_tokens where digest = %(digest)s and rotated_at is null for no key update;
        if found then
            perform from sessions where id = any (line) and revoked_at is null order by id for no key update;
            update refresh_tokens
               set rotated_at = case when {_STAYS} then null else %(at)s end,
                   rotated_by = case when {_STAYS} then null else %(by)s end
              from {_STANDING}
               and refresh_tokens.rotated_at is null
               and {_FITS}
               and {_IS_LIVE}
               and %(scopes)s <@ coalesce(sessions.scopes, '{{}}')
               and (sessions.organization_id is null
                 or {_IS_ADMITTED} and {_IS_ACTIVE} and not {OWES_SECOND_FACTOR} and not {OWES_TERMS})
         returning {_ROTATED}
              into {_COLUMNS};
            rotated := found;
        end if;
    end if;
    if not rotated then
        select {_AS_IT_IS}
          into {_COLUMNS}
          from refresh_tokens, {_STANDING};
        if not found then
            return;
        end if;
        return next;
        return;
    end if;

    if not stays then
        insert into refresh_tokens (digest, session_id, created_at) values (%(successor)s, presented.id, %(at)s);
    end if;
    update sessions
       set expires_at = least(%(at)s + {IDLE}, sessions.ends_at),
           expires_day = (least(%(at)s + {IDLE}, sessions.ends_at) at time zone 'UTC')::date,
           last_seen_at = greatest(sessions.last_seen_at, %(at)s)
     where id = any (line) and revoked_at is null;
    return next;
""",
)

_ROTATE: Final[LiteralString] = ROTATE_REFRESH_TOKEN.call("*")


class PostgresUsedKeyProofs(OnPool):
    """Implements `ports.crypto.UsedKeyProofs`."""

    async def use(self, proof: UsedKeyProof) -> bool:
        return await tell(self._pool, _USE, {"digest": proof.digest, "expires_at": proof.expires_at}) == 1


_USE: Final = "insert into used_key_proofs (digest, expires_at) values (%(digest)s, %(expires_at)s) on conflict (digest) do nothing"
