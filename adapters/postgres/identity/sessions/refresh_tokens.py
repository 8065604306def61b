"""The exchange of refresh tokens, in one statement, and the proofs of keys that were used, each of which counts once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
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


# A condition on `services`: the application has nothing to authenticate with, and no URI from which we could still fetch its keys.
_SHOWS_NOTHING: Final[LiteralString] = f"""
                    services.service_type in ('mobile', 'desktop') or services.jwks_uri is null and not {AUTHENTICATES}"""

# A session that began bound stays bound. A public application shows the very key, and another one, which authenticates, any key (RFC 9449
# section 5): it may have a new one since. A session that began without a key gets none by a refresh: a thief would bind it to theirs, and
# nobody would notice that the application still has a token.
_IS_BOUND_HERE: Final = """
                    sessions.key_thumbprint is null
                 or %(key)s::text is not null and (not %(is_public)s::boolean or sessions.key_thumbprint = %(key)s::text)"""

# One statement makes all changes or none. Of two requests that rotate the same token, the second waits for the first's commit, finds the
# token rotated, and changes nothing. The second's result is from before that commit: `rotated` is false and `rotated_at` null, so the
# second request has to look again. A session that is revoked at this very moment is not extended, and then `is_live` is false. The
# statement also extends the sessions from which this session was opened: a use of a session counts as a use of its parents.
_ROTATE: Final[LiteralString] = f"""
    with recursive found as (
             select tokens.rotated_at, tokens.rotated_by, sessions.id as session_id, sessions.user_id, sessions.device_id,
                    sessions.organization_id, organizations.slug as organization_slug, sessions.service_id, services.slug as service_slug,
                    sessions.created_at,
                    sessions.last_seen_at, sessions.expires_at, sessions.ends_at, sessions.authenticated_by, sessions.impersonator_id,
                    sessions.impersonation_id, users.email, users.is_platform_owner,
                    {IS_LIVE} and {may_act("sessions")} as is_live,
                    services.is_agent, {AGENTS_ARE_FORBIDDEN} as agents_are_forbidden,
                    sessions.scopes is not null and services.profile = 'fapi2' as stays,
                    memberships.role, sessions.scopes, sessions.audiences, sessions.proved_at, sessions.second_factor_at,
                    sessions.stated_at, sessions.parent_id,
                    {is_verified_for("sessions.organization_id")} as email_is_verified,
                    {admits("memberships.role is not null", "sessions.user_id")} as is_admitted,
                    coalesce(organizations.status = 'active', false) as organization_is_active,
                    {OWES_SECOND_FACTOR} as owes_second_factor,
                    {OWES_TERMS} as owes_terms,
                    case when sessions.scopes is not null then services.oauth_client_id end as client_id,
                    services.access_token_alg,
                    {SUBSCRIPTION_STATE} as subscription,
                    case when 'profile' = any (sessions.scopes) then {PROFILE} end as profile,
                    {directory_context("sessions.authenticated_by", "sessions.parent_id", "sessions.organization_id")} as directory_context,
                    {tells_more("sessions.service_id", "sessions.organization_id", "sessions.user_id")} as tells_more
               from refresh_tokens as tokens
               join sessions on sessions.id = tokens.session_id
               join users on users.id = sessions.user_id
               left join organizations on organizations.id = sessions.organization_id
               left join services on services.id = sessions.service_id
               left join memberships on memberships.org_id = sessions.organization_id and memberships.user_id = sessions.user_id
                     and {counts_for()}
              where tokens.digest = %(digest)s
                and case
                        when %(service)s::uuid is not null then sessions.scopes is not null and sessions.service_id = %(service)s::uuid
                        else sessions.scopes is null or services.id is not null and ({_SHOWS_NOTHING})
                    end
                and (sessions.scopes is null or not %(is_public)s::boolean or {lost_nothing_since("sessions.created_at")})
                and ({_IS_BOUND_HERE})
                and (%(key)s::text is not null or not coalesce(services.dpop_bound_access_tokens, false))
         ),
         choice as materialized (
             select looked.open,
                    case
                        when found.audiences is null
                        then %(resource)s::text is null
                         and (%(foreign_scopes)s::text[] = '{{}}' or %(scopes)s::text[] <> '{{}}')
                        else audience_fits(looked.open, found.audiences, %(resource)s::text, %(foreign_scopes)s::text[])
                    end as fits
               from found
              cross join lateral (select {open_audiences("found")} as open) as looked
         ),
         rotated as (
             update refresh_tokens
                set rotated_at = case when found.stays then null else %(at)s end,
                    rotated_by = case when found.stays then null else %(by)s end
               from found, choice
              where refresh_tokens.digest = %(digest)s
                and choice.fits
                and refresh_tokens.rotated_at is null
                and found.is_live
                and %(scopes)s::text[] <@ coalesce(found.scopes, '{{}}')
                and (found.organization_id is null
                  or found.is_admitted and found.organization_is_active and not found.owes_second_factor and not found.owes_terms)
          returning refresh_tokens.session_id
         ),
         added as (
             insert into refresh_tokens (digest, session_id, created_at)
             select %(successor)s, rotated.session_id, %(at)s from rotated cross join found where not coalesce(found.stays, false)
         ),
         line as (
             select sessions.id, sessions.parent_id from rotated join sessions on sessions.id = rotated.session_id
          union all
             select sessions.id, sessions.parent_id from line join sessions on sessions.id = line.parent_id
         ),
         living as (
             select sessions.id
               from sessions
              where sessions.id = any (array(select line.id from line)) and sessions.revoked_at is null
              order by sessions.id                     -- the same order everywhere, against deadlocks
                for no key update
         ),
         extended as (
             update sessions
                set expires_at = least(%(at)s + {IDLE}, sessions.ends_at),
                    expires_day = (least(%(at)s + {IDLE}, sessions.ends_at) at time zone 'UTC')::date,
                    last_seen_at = greatest(sessions.last_seen_at, %(at)s)
               from living
              where sessions.id = living.id
          returning sessions.id
         )
  select found.session_id, found.user_id, found.device_id, found.organization_id, found.organization_slug, found.service_id,
         found.service_slug, found.created_at, found.last_seen_at, found.expires_at, found.ends_at, found.authenticated_by,
         found.impersonator_id,
         found.impersonation_id, found.email, found.is_platform_owner, found.is_admitted, found.organization_is_active, found.rotated_at,
         found.rotated_by, found.subscription, found.scopes, found.proved_at, found.second_factor_at, found.stated_at, found.parent_id,
         found.email_is_verified, found.role, found.owes_second_factor, found.owes_terms, found.client_id, found.access_token_alg,
         found.profile,
         found.directory_context, found.tells_more, jsonb_array_length(found.audiences) as granted, choice.open as audiences,
         found.is_agent, found.agents_are_forbidden, found.stays,
         rotated.session_id is not null as rotated,
         found.is_live and (rotated.session_id is null or extended.id is not null) as is_live
    from found
    left join choice on true
    left join rotated on true
    left join extended on extended.id = rotated.session_id
"""


class PostgresUsedKeyProofs(OnPool):
    """Implements `ports.crypto.UsedKeyProofs`."""

    async def use(self, proof: UsedKeyProof) -> bool:
        return await tell(self._pool, _USE, {"digest": proof.digest, "expires_at": proof.expires_at}) == 1


_USE: Final = "insert into used_key_proofs (digest, expires_at) values (%(digest)s, %(expires_at)s) on conflict (digest) do nothing"
