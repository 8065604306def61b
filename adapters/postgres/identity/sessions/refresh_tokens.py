"""The exchange of refresh tokens, in one statement, and the proofs of keys that were used, each of which counts once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from adapters.postgres.functions import Function
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import ASKS_FOR_FACTOR, OWES_SECOND_FACTOR
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
    is_kept_out: bool = False

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
            is_kept_out=self.is_kept_out,
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

# Conditions of whoever presents the token: to others, it is unknown. An application that has not authenticated must show nothing, too. The
# first two are of columns of `sessions` that never change.
_IS_OF_HOLDER: Final = "(%(service)s is null or sessions.scopes is not null and sessions.service_id = %(service)s)"
# A session that began bound stays bound. A public application shows the very key, and another one, which authenticates, any key (RFC 9449
# section 5): it may have a new one since. A session that began without a key gets none by a refresh: a thief would bind it to theirs, and
# nobody would notice that the application still has a token.
_IS_BOUND_HERE: Final = (
    "(sessions.key_thumbprint is null or %(key)s is not null and (not %(is_public)s or sessions.key_thumbprint = %(key)s))"
)


_IS_THEIRS: Final[LiteralString] = f"""{_IS_OF_HOLDER}
       and {_IS_BOUND_HERE}
       and (sessions.scopes is null or not %(is_public)s or {lost_nothing_since("sessions.created_at")})
       and (%(key)s is not null or not coalesce(services.dpop_bound_access_tokens, false))"""


# What the decision and the answer read.
_STANDING: Final[LiteralString] = f"""sessions
      join users on users.id = sessions.user_id
      left join organizations on organizations.id = sessions.organization_id
      left join services on services.id = sessions.service_id
      left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id and {counts_for()}
"""

# The columns of `_Presented`: the type of each, and what it is.
_PRESENTED: Final[Mapping[LiteralString, tuple[LiteralString, LiteralString]]] = {
    "session_id": ("uuid", "sessions.id"),
    "user_id": ("uuid", "sessions.user_id"),
    "device_id": ("uuid", "sessions.device_id"),
    "organization_id": ("uuid", "sessions.organization_id"),
    "organization_slug": ("text", "organizations.slug"),
    "service_id": ("uuid", "sessions.service_id"),
    "service_slug": ("text", "services.slug"),
    "created_at": ("timestamptz", "sessions.created_at"),
    "last_seen_at": ("timestamptz", "sessions.last_seen_at"),
    "expires_at": ("timestamptz", "sessions.expires_at"),
    "ends_at": ("timestamptz", "sessions.ends_at"),
    "authenticated_by": ("text[]", "sessions.authenticated_by"),
    "impersonator_id": ("uuid", "sessions.impersonator_id"),
    "impersonation_id": ("uuid", "sessions.impersonation_id"),
    "email": ("text", "users.email"),
    "is_platform_owner": ("boolean", "users.is_platform_owner"),
    "is_live": ("boolean", f"{IS_LIVE.strip()} and {may_act('sessions')}"),
    "is_admitted": ("boolean", admits("memberships.role is not null", "sessions.user_id")),
    "organization_is_active": ("boolean", "coalesce(organizations.status = 'active', false)"),
    "rotated_at": ("timestamptz", "token.rotated_at"),
    "rotated_by": ("bytea", "token.rotated_by"),
    "scopes": ("text[]", "sessions.scopes"),
    "proved_at": ("timestamptz", "sessions.proved_at"),
    "second_factor_at": ("timestamptz", "sessions.second_factor_at"),
    "stated_at": ("timestamptz", "sessions.stated_at"),
    "parent_id": ("uuid", "sessions.parent_id"),
    "email_is_verified": ("boolean", is_verified_for("sessions.organization_id")),
    "role": ("text", "memberships.role"),
    "owes_second_factor": ("boolean", ASKS_FOR_FACTOR),
    "owes_terms": ("boolean", OWES_TERMS),
    "client_id": ("text", "case when sessions.scopes is not null then services.oauth_client_id end"),
    "access_token_alg": ("text", "services.access_token_alg"),
    "profile": ("jsonb", f"case when 'profile' = any (sessions.scopes) then {PROFILE} end"),
    "audiences": ("jsonb", open_audiences("sessions")),
    "granted": ("integer", "jsonb_array_length(sessions.audiences)"),
    "is_agent": ("boolean", "services.is_agent"),
    "agents_are_forbidden": ("boolean", AGENTS_ARE_FORBIDDEN),
    "stays": ("boolean", "coalesce(sessions.scopes is not null and services.profile = 'fapi2', false)"),
}
# Further columns of `_Presented`, of which most sessions have nothing, and whether this request has rotated the token.
_FURTHER: Final[Mapping[LiteralString, LiteralString]] = {
    "subscription": "jsonb",
    "directory_context": "text",
    "tells_more": "boolean",
    "rotated": "boolean",
    "is_kept_out": "boolean",
}

_NAME: Final = "rotate_refresh_token_11"
# Columns of the answer, by names that no table has.
_SESSION: Final[LiteralString] = f"{_NAME}.session_id"
_USER: Final[LiteralString] = f"{_NAME}.user_id"
_SERVICE: Final[LiteralString] = f"{_NAME}.service_id"
_ORGANIZATION: Final[LiteralString] = f"{_NAME}.organization_id"
_VALUES: Final[LiteralString] = ",\n           ".join(value for _, value in _PRESENTED.values())
_COLUMNS: Final[LiteralString] = ",\n           ".join(_PRESENTED)

# One call makes all changes or none. It locks no account. It waits for the token, which two requests may rotate, then for the sessions of
# its line, in the order of their ids: a use of a session counts as a use of the sessions from which it was opened. After these waits it
# reads what it decides by, and what it writes then waits for nobody. Of two requests that rotate the same token, the second waits for the
# first's commit, and finds the token rotated. A session that is revoked at this very moment is not extended, and then `is_live` is false.
#
# A token that somebody else shows locks no session.
ROTATE_REFRESH_TOKEN: Final = Function(
    _NAME,
    "Exchanges a refresh token for its successor, and says what it is worth.",
    _ARGUMENTS,
    {**{name: kind for name, (kind, _) in _PRESENTED.items()}, **_FURTHER},
    {
        "token": "record",
        "is_current": "boolean",
        "held": "record",
        "line": "uuid[] := '{}'",
        "one": "uuid",
        "kept": "jsonb",
        "owns": "boolean",
    },
    f"""
    select session_id, rotated_at, rotated_by
      into token
      from refresh_tokens
     where digest = %(digest)s and rotated_at is null
       for no key update;
    is_current := found;
    if not is_current then
        select session_id, rotated_at, rotated_by into token from refresh_tokens where digest = %(digest)s;
        if not found then
            return;
        end if;
    end if;

    if is_current then
        select id, parent_id, depth
          into held
          from sessions
         where id = token.session_id and revoked_at is null and expires_at > now() and ends_at > now()
           and (organization_id is null or exists (select from organizations where organizations.id = sessions.organization_id))
           and (service_id is null or exists (select from services where services.id = sessions.service_id))
           and {_IS_OF_HOLDER}
           and {_IS_BOUND_HERE};
        is_current := found;
    end if;
    if is_current then
        case held.depth
            when 0 then
                line := array[held.id];
            when 1 then
                line := array[least(held.id, held.parent_id), greatest(held.id, held.parent_id)];
            else
                line := array(
                    with recursive above as (
                        select held.id, held.parent_id
                         union all
                        select sessions.id, sessions.parent_id from above join sessions on sessions.id = above.parent_id
                    )
                    select above.id from above order by above.id
                );
        end case;
        foreach one in array line loop
            perform from sessions where id = one and revoked_at is null for no key update;
        end loop;
    end if;

    select {_VALUES},
           sessions.audiences
      into {_COLUMNS},
           kept
      from {_STANDING.strip()}
     where sessions.id = token.session_id
       and {_IS_THEIRS};
    if not found then
        return;
    end if;
    if %(service)s is null and scopes is not null then
        perform from services where services.id = {_SERVICE} and ({_SHOWS_NOTHING});
        if not found then
            return;
        end if;
    end if;
    if owes_second_factor then
        select {OWES_SECOND_FACTOR} into owes_second_factor from {_STANDING.strip()} where sessions.id = {_SESSION};
    end if;

    is_kept_out := false;
    if organization_id is not null and impersonator_id is null and exists (select from hooks where counts_as is not null) then
        -- A no alone, however old the yes is: nobody is asked here.
        is_kept_out := hooks_keep_out(session_id, user_id, organization_id, service_id, false) is not null;
    end if;
    rotated := is_current and is_live and not is_kept_out
        and %(scopes)s <@ coalesce(scopes, '{{}}')
        and case
                when kept is null then %(resource)s is null and (%(foreign_scopes)s = '{{}}' or %(scopes)s <> '{{}}')
                else audience_fits(audiences, kept, %(resource)s, %(foreign_scopes)s)
            end
        and (organization_id is null or is_admitted and organization_is_active and not owes_second_factor and not owes_terms);
    if rotated then
        update refresh_tokens
           set rotated_at = case when stays then null else %(at)s end, rotated_by = case when stays then null else %(by)s end
         where digest = %(digest)s;
        if not stays then
            insert into refresh_tokens (digest, session_id, created_at) values (%(successor)s, held.id, %(at)s);
        end if;
        foreach one in array line loop
            update sessions
               set expires_at = least(%(at)s + {IDLE}, sessions.ends_at),
                   expires_day = (least(%(at)s + {IDLE}, sessions.ends_at) at time zone 'UTC')::date,
                   last_seen_at = greatest(sessions.last_seen_at, %(at)s)
             where id = one and revoked_at is null;
        end loop;
    end if;

    if 'fed' = any (authenticated_by) then
        directory_context := {directory_context("authenticated_by", f"{_NAME}.parent_id", _ORGANIZATION)};
    end if;
    tells_more := false;
    if organization_id is not null then
        select {tells_more(_SERVICE, _ORGANIZATION, _USER)},
               exists (select from subscriptions where subscriptions.user_id = {_USER} and subscriptions.service_id = {_SERVICE})
          into tells_more, owns;
        if owns and service_slug is not null then  -- a service that is being deleted has none
            select {SUBSCRIPTION_STATE} into subscription from (select {_USER} as id) as users, (select {_SERVICE} as id) as services;
        end if;
    end if;
    return next;
""",
)

_ROTATE: Final[LiteralString] = ROTATE_REFRESH_TOKEN.call("*")


class PostgresUsedKeyProofs(OnPool):
    """Implements `ports.crypto.UsedKeyProofs`."""

    async def use(self, proof: UsedKeyProof) -> bool:
        return await tell(self._pool, _USE, {"digest": proof.digest, "expires_at": proof.expires_at}) == 1


_USE: Final = "insert into used_key_proofs (digest, expires_at) values (%(digest)s, %(expires_at)s) on conflict (digest) do nothing"
