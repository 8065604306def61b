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
    LIVES_IN_OWN_NAME,
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

# Conditions of whoever presents the token. To others, it is unknown. The first two are of columns of `sessions` that never change.
_IS_OF_HOLDER: Final = "(%(service)s is null or sessions.scopes is not null and sessions.service_id = %(service)s)"
# A session that began bound stays bound. A public application shows the very key, and another one, which authenticates, any key (RFC 9449
# section 5): it may have a new one since. A session that began without a key gets none by a refresh: a thief would bind it to theirs, and
# nobody would notice that the application still has a token.
_IS_BOUND_HERE: Final = (
    "(sessions.key_thumbprint is null or %(key)s is not null and (not %(is_public)s or sessions.key_thumbprint = %(key)s))"
)


def _is_theirs(shows_nothing: LiteralString) -> LiteralString:
    """Without `%(service)s` it comes from a person's own page, or from an application that shows nothing."""
    return f"""{_IS_OF_HOLDER}
               and {_IS_BOUND_HERE}
               and (%(service)s is not null or sessions.scopes is null or services.id is not null and ({shows_nothing}))
               and (sessions.scopes is null or not %(is_public)s or {lost_nothing_since("sessions.created_at")})
               and (%(key)s is not null or not coalesce(services.dpop_bound_access_tokens, false))"""


# What the decision and the answer read.
_STANDING: Final[LiteralString] = f"""sessions
              join users on users.id = sessions.user_id
              left join organizations on organizations.id = sessions.organization_id
              left join services on services.id = sessions.service_id
              left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id
                    and {counts_for()}"""
_IS_ADMITTED: Final[LiteralString] = admits("memberships.role is not null", "sessions.user_id")
_IS_ACTIVE: Final = "coalesce(organizations.status = 'active', false)"
_STAYS: Final = "coalesce(sessions.scopes is not null and services.profile = 'fapi2', false)"

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
    "is_live": ("boolean", f"{IS_LIVE.strip()} and {may_act('sessions')}", "true"),
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
    "owes_second_factor": ("boolean", ASKS_FOR_FACTOR, "false"),
    "owes_terms": ("boolean", OWES_TERMS, "false"),
    "client_id": ("text", "case when sessions.scopes is not null then services.oauth_client_id end", None),
    "access_token_alg": ("text", "services.access_token_alg", None),
    "profile": ("jsonb", f"case when 'profile' = any (sessions.scopes) then {PROFILE} end", None),
    "granted": ("integer", "jsonb_array_length(sessions.audiences)", None),
    "is_agent": ("boolean", "services.is_agent", None),
    "agents_are_forbidden": ("boolean", AGENTS_ARE_FORBIDDEN, None),
    "stays": ("boolean", _STAYS, None),
}
# Further columns of `_Presented`. The function asks for them one by one, and only if they can say something.
_RARE: Final[Mapping[LiteralString, LiteralString]] = {
    "audiences": "jsonb",
    "subscription": "jsonb",
    "directory_context": "text",
    "tells_more": "boolean",
}
_COLUMNS: Final[LiteralString] = ", ".join(_PRESENTED)
_AS_IT_IS: Final[LiteralString] = ",\n               ".join(value for _, value, _ in _PRESENTED.values())
_ROTATED: Final[LiteralString] = ",\n                   ".join(value if after is None else after for _, value, after in _PRESENTED.values())


def _rotation(
    standing: LiteralString,
    apis: LiteralString,
    *,
    shows_nothing: LiteralString,
    lives: LiteralString,
    fits: LiteralString,
    owes_second_factor: LiteralString,
) -> LiteralString:
    """The exchange, and all that has to hold for it."""
    return f"""
            update refresh_tokens
               set rotated_at = case when {_STAYS} then null else %(at)s end,
                   rotated_by = case when {_STAYS} then null else %(by)s end
              from {standing}
             where refresh_tokens.digest = %(digest)s and refresh_tokens.rotated_at is null and sessions.id = refresh_tokens.session_id
               and {_is_theirs(shows_nothing)}
               and {lives.strip()}
               and {may_act("sessions")}
               and %(scopes)s <@ coalesce(sessions.scopes, '{{}}')
               and {fits}
               and (sessions.organization_id is null
                 or {_IS_ADMITTED} and {_IS_ACTIVE} and not {owes_second_factor} and not {OWES_TERMS})
         returning {_ROTATED},
                   {apis}
              into {_COLUMNS}, audiences""".strip()


_ASKS_FOR_NONE: Final = "%(resource)s is null and (%(foreign_scopes)s = '{}' or %(scopes)s <> '{}')"
_ROTATION: Final[LiteralString] = _rotation(
    f"{_STANDING}\n             cross join lateral (select {open_audiences('sessions')} as open) as apis",
    "apis.open",
    shows_nothing=_SHOWS_NOTHING,
    lives=IS_LIVE,
    fits=f"""case
                       when sessions.audiences is null then {_ASKS_FOR_NONE}
                       else audience_fits(apis.open, sessions.audiences, %(resource)s, %(foreign_scopes)s)
                   end""",
    owes_second_factor=OWES_SECOND_FACTOR,
)
# Where each rare part is the condition that it is not needed. What passes here would pass there.
_PLAIN_ROTATION: Final[LiteralString] = _rotation(
    _STANDING,
    "null",
    shows_nothing="false",
    lives=LIVES_IN_OWN_NAME,
    fits=f"sessions.audiences is null and {_ASKS_FOR_NONE}",
    owes_second_factor=ASKS_FOR_FACTOR,
)

# One call makes all changes or none. It locks no account. It waits for the token, which two requests may rotate, then for the sessions of its
# line, in the order of their ids: a use of a session counts as a use of the sessions from which it was opened. After these waits, one
# statement asks whether all holds at this moment, and rotates. Of two requests that rotate the same token, the second waits for the first's
# commit, and finds the token rotated. A session that is revoked at this very moment is not extended, and then `is_live` is false.
#
# What is read again after a refusal may say that all holds, since it is from a moment later. Then the request has to look again.
_NAME: Final = "rotate_refresh_token_10"
# Columns of the answer, by names that no table has.
_USER: Final[LiteralString] = f"{_NAME}.user_id"
_SERVICE: Final[LiteralString] = f"{_NAME}.service_id"
_ORGANIZATION: Final[LiteralString] = f"{_NAME}.organization_id"
ROTATE_REFRESH_TOKEN: Final = Function(
    _NAME,
    "Exchanges a refresh token for its successor, and says what it is worth.",
    _ARGUMENTS,
    {**{name: kind for name, (kind, _, _) in _PRESENTED.items()}, **_RARE},
    {"token": "record", "line": "uuid[]", "one": "uuid", "owns": "boolean"},
    f"""
    rotated := false;
    select session_id into token from refresh_tokens where digest = %(digest)s and rotated_at is null for no key update;
    if found then
        select sessions.id, sessions.parent_id, sessions.depth,
               sessions.audiences is not null or sessions.impersonator_id is not null or {ASKS_FOR_FACTOR}
            or %(service)s is null and sessions.scopes is not null as has_rare_parts
          into token
          from sessions
          left join organizations on organizations.id = sessions.organization_id
         where sessions.id = token.session_id and sessions.revoked_at is null
           and {_IS_OF_HOLDER}
           and {_IS_BOUND_HERE};
        if found then
            case token.depth
                when 0 then line := array[token.id];
                when 1 then line := array[least(token.id, token.parent_id), greatest(token.id, token.parent_id)];
                else
                    line := array(
                        with recursive line as (
                            select token.id, token.parent_id
                             union all
                            select sessions.id, sessions.parent_id from line join sessions on sessions.id = line.parent_id
                        )
                        select line.id from line order by line.id
                    );
            end case;
            foreach one in array line loop
                perform from sessions where id = one and revoked_at is null for no key update;
            end loop;
            if token.has_rare_parts then
                {_ROTATION};
            else
                {_PLAIN_ROTATION};
            end if;
            rotated := found;
        end if;
    else
        perform from refresh_tokens where digest = %(digest)s;
        if not found then
            return;
        end if;
    end if;

    if rotated then
        if not stays then
            insert into refresh_tokens (digest, session_id, created_at) values (%(successor)s, token.id, %(at)s);
        end if;
        foreach one in array line loop
            update sessions
               set expires_at = least(%(at)s + {IDLE}, sessions.ends_at),
                   expires_day = (least(%(at)s + {IDLE}, sessions.ends_at) at time zone 'UTC')::date,
                   last_seen_at = greatest(sessions.last_seen_at, %(at)s)
             where id = one and revoked_at is null;
        end loop;
    else
        select {_AS_IT_IS}
          into {_COLUMNS}
          from refresh_tokens
         cross join {_STANDING}
         where refresh_tokens.digest = %(digest)s and sessions.id = refresh_tokens.session_id
               and {_is_theirs(_SHOWS_NOTHING)};
        if not found then
            return;
        end if;
        if owes_second_factor then
            select {OWES_SECOND_FACTOR} into owes_second_factor from {_STANDING} where sessions.id = {_NAME}.session_id;
        end if;
        if granted is not null then
            select {open_audiences("sessions")} into audiences from sessions where sessions.id = {_NAME}.session_id;
        end if;
    end if;

    if 'fed' = any (authenticated_by) then
        directory_context := {directory_context("authenticated_by", f"{_NAME}.parent_id", _ORGANIZATION)};
    end if;
    tells_more := false;
    if organization_id is not null then
        select {tells_more(_SERVICE, _ORGANIZATION, _USER)},
               {_NAME}.service_slug is not null    -- the service is not being deleted
           and exists (select from subscriptions where subscriptions.user_id = {_USER} and subscriptions.service_id = {_SERVICE})
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
