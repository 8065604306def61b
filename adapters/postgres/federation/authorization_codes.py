"""Authorization codes in PostgreSQL. Each is issued and redeemed once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import IdRow, storable_text
from adapters.postgres.federation.clients import CLIENT, ITS_SERVICE, ClientRow
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.privacy.forgetting import holding_by_use
from adapters.postgres.identity.proofs.login_events import log_login, login_parameters, published_parameters, queue_for_export, tell_login
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import (
    PROFILE,
    PROFILE_COLUMNS,
    SUBSCRIPTION_STATE,
    acts_until,
    allows_audiences,
    audiences,
    kept_audiences,
    open_audiences,
    profile,
    subscription_state,
    tells_more,
)
from adapters.postgres.identity.terms import terms_due, time_is_over
from adapters.postgres.identity.upstream.ways import directory_context
from adapters.postgres.record.events import fan_out
from adapters.postgres.statements import Statements, Transaction
from adapters.postgres.ties import ENTERED_AGAIN, IS_OWN_MEMBERSHIP, counts_for, is_own_member
from core.domain.federation.oauth.authorization_codes import (
    CONTENDED,
    LOGGED_ALREADY,
    Claim,
    EarlierUse,
    Issue,
    NewCode,
    Opening,
    Redeemed,
    Untargeted,
)
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.identifiers import ClientId, DeviceId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.login_events import SIGN_IN_TOPIC
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Context, Session, minutes_kept
from core.domain.mail import Email
from core.domain.services.services import ServiceType
from ports.federation.oauth import Redemption

_OF_CLIENT: Final = len(ClientRow._fields)


class _Presented(NamedTuple):
    """The columns of `_PRESENTED`, in their order: the code as it was before this request, and the session that this request opened."""

    user_id: UUID
    service_id: UUID
    organization_id: UUID
    redeemed_at: datetime | None
    redeemed_with: bytes | None
    session_id: UUID | None
    nonce: str | None
    scopes: list[str]
    auth_time: datetime
    stated_at: datetime | None
    authenticated_by: list[str]
    redeemed: bool
    contended: bool
    expires_at: datetime | None
    ends_at: datetime | None
    parent_id: UUID | None
    device_id: UUID | None
    second_factor_at: datetime | None
    email: str | None
    email_is_verified: bool | None
    is_platform_owner: bool | None
    role: str | None
    subscription: Mapping[str, Any] | None
    profile: Mapping[str, Any] | None
    directory_context: str | None
    tells_more: bool
    granted: int | None
    audiences: Sequence[Mapping[str, Any]] | None
    untargeted: bool

    def found(self, context: Context, opening: Opening, at: datetime, resource: str | None) -> Redemption:
        of_code = audiences(self.granted, self.audiences)
        if self.redeemed and self.expires_at is not None and self.ends_at is not None and self.email is not None:
            return Redeemed(
                session=Session(
                    id=opening.session,
                    user=UserId(self.user_id),
                    created_at=at,
                    last_seen_at=at,
                    expires_at=self.expires_at,
                    ends_at=self.ends_at,
                    device=None if self.device_id is None else DeviceId(self.device_id),
                    context=context,
                    authenticated_by=tuple(self.authenticated_by),
                    parent=None if self.parent_id is None else SessionId(self.parent_id),
                    depth=0 if self.parent_id is None else 1,
                    proved=Proved(self.auth_time, self.second_factor_at, self.stated_at),
                    scopes=tuple(self.scopes),
                    directory_context=self.directory_context or "",
                ),
                email=Email(self.email),
                email_is_verified=self.email_is_verified or False,
                is_platform_owner=self.is_platform_owner or False,
                nonce=self.nonce,
                role=self.role or "",
                subscription=subscription_state(self.subscription),
                profile=profile(self.profile),
                tells_more=self.tells_more,
                audience=of_code.chosen(resource),
            )
        if self.redeemed_at is not None and self.redeemed_with is not None and self.session_id is not None:
            return EarlierUse(
                self.redeemed_at,
                self.redeemed_with,
                SessionId(self.session_id),
                UserId(self.user_id),
                OrganizationId(self.organization_id),
                ServiceId(self.service_id),
            )
        if self.untargeted:
            return Untargeted(of_code)
        return CONTENDED if self.contended else None


_NO_SCOPE: Final = ""


class AuthorizationCodeRows:
    """Implements `ports.federation.oauth.AuthorizationCodeStore` and `CodeRedemption`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def redeem(self, claim: Claim, client: RegisteredClient, opening: Opening, at: datetime) -> Redemption:
        parameters = {"service": client.service, **_parameters(claim, opening, at)}
        if client.service_type is ServiceType.PROXY:
            # Its session is a cookie of the browser. Whoever has the browser in hand can ask for any scope, and none lets it stay longer.
            parameters["root"] = _NO_SCOPE
        rows = await self._statements.ask_in_order(_Presented, REDEEM, parameters)
        self._statements.ring_here(SIGN_IN_TOPIC)
        return rows[0].found(client.context, opening, at, claim.resource) if rows else None

    async def redeem_with_secret(
        self, claim: Claim, client: ClientId, secret_digest: bytes | None, opening: Opening, at: datetime
    ) -> tuple[RegisteredClient, Redemption] | None:
        parameters = {"client": client, "secret": None if secret_digest is None else secret_digest.hex(), **_parameters(claim, opening, at)}
        rows = await self._statements.ask_in_order(_met, REDEEM_WITH_SECRET, parameters)
        self._statements.ring_here(SIGN_IN_TOPIC)
        if not rows:
            return None
        row, presented = rows[0]
        registered = row.client(client)
        return registered, None if presented is None else presented.found(registered.context, opening, at, claim.resource)

    async def add(self, code: NewCode, registered: Sequence[str], *, by_trust: bool) -> Issue:
        approved = code.approved
        parameters = {
            "id": code.id,
            "digest": code.digest,
            "service": approved.service,
            "user": approved.user,
            "parent": approved.parent,
            "redirect_uri": approved.redirect_uri,
            "registered": list(registered),
            "by_trust": by_trust,
            "code_challenge": approved.code_challenge,
            "nonce": None if approved.nonce is None else storable_text(approved.nonce),
            "scopes": list(approved.scopes),
            "auth_time": approved.auth_time,
            "stated_at": approved.stated_at,
            "authenticated_by": list(approved.authenticated_by),
            "provider": approved.provider,
            "audiences": kept_audiences(approved.audiences),
            "created_at": code.created_at,
            "expires_at": code.expires_at,
            "key": approved.key,
        }
        pushed = code.approved.pushed
        if pushed is None:
            return Issue.ISSUED if await self._statements.ask(IdRow, _ADD, parameters) else Issue.REFUSED
        (row,) = await self._statements.ask(_OfPushed, _ADD_FOR_PUSHED, {**parameters, "pushed": pushed})
        return Issue.USED if not row.was_open else Issue.ISSUED if row.is_issued else Issue.REFUSED


class _OfPushed(NamedTuple):
    was_open: bool
    is_issued: bool


def _met(*columns: Any) -> tuple[ClientRow, _Presented | None]:
    """The columns of `CLIENT` come first. The columns of the code follow, and are null when there is no such code."""
    of_code = columns[_OF_CLIENT:]
    return ClientRow(*columns[:_OF_CLIENT]), None if of_code[0] is None else _Presented(*of_code)


def _parameters(claim: Claim, opening: Opening, at: datetime) -> dict[str, object]:
    return {
        "digest": claim.digest,
        "redirect_uri": storable_text(claim.redirect_uri),
        "code_challenge": claim.code_challenge,
        "proof": claim.proof,
        "resource": None if claim.resource is None else storable_text(claim.resource),
        "at": at,
        "session": opening.session,
        "refresh_digest": opening.refresh_digest,
        **login_parameters(opening.login),
        **published_parameters(opening.event, opening.login),
        "lifetime": opening.lifetime,
        "idle": opening.idle,
        "minutes_idle": minutes_kept(opening.idle),
        "root": opening.root,
        "key": claim.key,
    }


# The caller has locked the account, so nobody takes a consent back meanwhile.
_ADD: Final[LiteralString] = f"""
    insert into authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, code_challenge, nonce, scopes, auth_time,
                                     stated_at, authenticated_by, provider, audiences, created_at, expires_at, key_thumbprint)
    select %(id)s, %(digest)s, services.id, users.id, %(parent)s, %(redirect_uri)s, %(code_challenge)s, %(nonce)s, %(scopes)s::text[],
           %(auth_time)s, %(stated_at)s, %(authenticated_by)s, %(provider)s, %(audiences)s,
           %(created_at)s, %(expires_at)s, %(key)s
      from users
     cross join services
     where users.id = %(user)s and users.deactivated_at is null
       and services.id = %(service)s and services.redirect_uris = %(registered)s::text[]
       and case when %(by_trust)s::boolean
                then services.trusted and {is_own_member("services.org_id", "users.id")}
                else exists (
                         select
                           from consents
                          where consents.user_id = users.id and consents.service_id = services.id and consents.scopes @> %(scopes)s::text[]
                     )
                 and {allows_audiences("%(audiences)s::jsonb", "users.id", "services.id")}
           end
 returning id
"""

# The deletion decides who is first.
_ADD_FOR_PUSHED: Final[LiteralString] = f"""
    with pushed as (delete from pushed_requests where digest = %(pushed)s returning id),
         added as ({_ADD})
  select exists (select from pushed) as was_open, exists (select from added) as is_issued
"""

# The expressions of the sign-in's log entry and event: the person, the provider, the service and the time.
_OF_CODE: Final[Mapping[str, LiteralString]] = {
    "user": "code.user_id",
    "organization": "place.org_id",
    "service": "place.id",
    "provider": "code.provider",
    "at": "%(at)s::timestamptz",
}
_AGENT: Final = "case when place.is_agent then place.oauth_client_id end"

_LET_HOLD: Final[LiteralString] = holding_by_use(
    "account.id",
    "%(at)s",
    "code.authenticated_by",
    "from redeemed cross join account cross join code cross join place where account.origin_org_id <> place.org_id",
)

# One statement does all of the redemption or nothing, in one round trip: applications wait for the answer while somebody signs in.
#
# The statement sees the database as it was when the statement began. Rows that may have changed meanwhile are locked, because a lock reads
# the newest row again. The account is locked first, as in every transaction that opens or ends sessions, and the browser's session second.
# A request that ends the browser's session either waits for the account and finds the new session, or was first, and then `parent` is
# empty. Of two requests with the same code, the second waits for the account, and then finds that the code's row has changed. The columns
# that this second request selects are from before the change, so `contended` makes the request look again. A session that acts in another
# person's name (`impersonator_id`) cannot redeem, because the new session would outlive the impersonation.
#
# The statement's first part names the `service` that redeems. Without a service there is no `code`, and the other parts do nothing.
_REDEEMING: Final[LiteralString] = f"""
         code as materialized (
             select *
               from authorization_codes
              where digest = %(digest)s
                and service_id = (select id from service)
                and redirect_uri = %(redirect_uri)s
                and code_challenge is not distinct from %(code_challenge)s
                and (key_thumbprint is null or key_thumbprint = %(key)s::text)
                and expires_at > %(at)s
                and redeemed_at is null
         ),
         account as materialized (
             select id, email, email_verified_at, address_vouched_by, is_platform_owner, origin_org_id, {PROFILE_COLUMNS}
               from users
              where id = (select user_id from code) and deactivated_at is null
                for no key update
         ),
         parent as materialized (
             select id, device_id, expires_at, ends_at, depth, second_factor_at, minutes_idle, factor_through, factor_stated
               from sessions
              where id = (select code.parent_id from code, account where account.id = code.user_id)
                and user_id = (select user_id from code)
                and revoked_at is null and expires_at > now() and ends_at > now()
                and impersonator_id is null
                and depth = 0
                for share
         ),
         place as materialized (
             select services.id, services.org_id, services.is_agent, services.oauth_client_id, acting.until as acts_until, memberships.role,
                    services.most_sessions as most_in_service, organizations.most_sessions as most,
                    coalesce(consents.scopes @> code.scopes, false)
                    and {allows_audiences("code.audiences", "code.user_id", "code.service_id")} as has_consent
               from code
               join account on account.id = code.user_id
               join services on services.id = code.service_id
              cross join lateral (select {acts_until("code")} as until) as acting
               left join organizations on organizations.id = services.org_id
               left join memberships on memberships.org_id = services.org_id and memberships.user_id = code.user_id
                     and {counts_for("account")}
               left join consents on consents.service_id = code.service_id and consents.user_id = code.user_id
              where {admits("memberships.role is not null", "code.user_id")}
                and acting.until > %(at)s
                and not {time_is_over(terms_due("code.user_id"))}
                and (%(key)s::text is not null or not services.dpop_bound_access_tokens)
                -- Members of the organization need no consent for its trusted services. When the membership ends, the code needs
                -- consent again, also if the code was given a moment before.
                and (coalesce(consents.scopes @> code.scopes, false)
                 and {allows_audiences("code.audiences", "code.user_id", "code.service_id")} or services.trusted and {IS_OWN_MEMBERSHIP})
         ),
         choice as materialized (
             select looked.open,
                    case
                        when code.audiences is null then %(resource)s::text is null
                        else audience_fits(looked.open, code.audiences, %(resource)s::text, '{{}}')
                    end as fits
               from code
              cross join lateral (select {open_audiences("code")} as open) as looked
         ),
         redeemed as (
             update authorization_codes as codes
                set redeemed_at = %(at)s, redeemed_with = %(proof)s, session_id = %(session)s
               from code, parent, place, choice
              where codes.id = code.id and codes.redeemed_at is null and choice.fits
          returning codes.id
         ),
         opened as (
             insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                                   authenticated_by, parent_id, depth, proved_at, second_factor_at, stated_at, scopes, audiences,
                                   expires_day, minutes_idle, most, most_in_service, key_thumbprint, factor_through, factor_stated)
             select %(session)s, code.user_id, parent.device_id, place.org_id, place.id, %(at)s, %(at)s, until.expires_at,
                    least(%(at)s + %(lifetime)s, bounds.ends_at, place.acts_until),
                    code.authenticated_by, bounds.id, case when bounds.id is null then 0 else 1 end, code.auth_time,
                    parent.second_factor_at, code.stated_at, code.scopes, code.audiences, (until.expires_at at time zone 'UTC')::date,
                    least(%(minutes_idle)s::integer, bounds.minutes_idle), place.most, place.most_in_service,
                    %(key)s::text, parent.factor_through, parent.factor_stated
               from redeemed
              cross join code
              cross join parent
              cross join place
               -- The new session ends with the browser's session, unless the scopes allow a session of its own. The person has chosen the
               -- end of an agent's.
               left join parent as bounds on not place.is_agent and %(root)s::text <> all (code.scopes)
              cross join lateral (
                        select least(%(at)s + %(idle)s, %(at)s + %(lifetime)s, bounds.expires_at, bounds.ends_at, place.acts_until)
                                   as expires_at
                    ) as until
          returning expires_at, ends_at, parent_id, device_id, second_factor_at
         ),
         issued as (
             insert into refresh_tokens (digest, session_id, created_at)
             select %(refresh_digest)s, %(session)s, %(at)s from redeemed
         ),
         -- Where the log has the sign-in already, the redemption adds nothing to it.
         unlogged as (select from redeemed cross join code where code.provider <> '{LOGGED_ALREADY}'),
         logged as (
             {log_login("unlogged cross join code cross join parent cross join place", device="parent.device_id", **_OF_CODE)}
         ),
         exported as (
             {queue_for_export("unlogged cross join place", "%(login_id)s::uuid", "place.org_id")}
         ),
         told as (
             {tell_login("unlogged cross join code cross join place", agent=_AGENT, **_OF_CODE)}
         ),
         queued as (
             {fan_out("told")}
         ),
         let_hold as ({_LET_HOLD}
         ),
         entered as (
             insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
             select place.id, code.user_id, place.org_id, %(at)s, %(at)s, %(at)s, case when place.has_consent then %(at)s end
               from redeemed, code, place
                 on conflict (service_id, user_id) do update
                set {ENTERED_AGAIN}
         )
"""

# The columns of the code and of its redemption. The code may belong to another client than the one that asks.
_PRESENTED: Final[LiteralString] = f"""
         codes.user_id, codes.service_id, all_services.org_id as organization_id, codes.redeemed_at, codes.redeemed_with, codes.session_id,
         codes.nonce, codes.scopes, codes.auth_time, codes.stated_at, codes.authenticated_by,
         redeemed.id is not null as redeemed,
         redeemed.id is null and parent.id is not null and services.id is not null and choice.fits as contended,
         opened.expires_at, opened.ends_at, opened.parent_id, opened.device_id, opened.second_factor_at,
         users.email, {is_verified_for("all_services.org_id")} as email_is_verified, users.is_platform_owner, services.role,
         {SUBSCRIPTION_STATE} as subscription,
         case when 'profile' = any (codes.scopes) then {PROFILE} end as profile,
         {directory_context("codes.authenticated_by", "parent.id", "all_services.org_id")} as directory_context,
         {tells_more("services.id", "services.org_id", "users.id")} as tells_more,
         jsonb_array_length(codes.audiences) as granted, choice.open as audiences,
         redeemed.id is null and parent.id is not null and services.id is not null and not choice.fits as untargeted
"""
_WHAT_BECAME_OF_IT: Final = """
    left join redeemed on true
    left join opened on true
    left join account as users on true
    left join parent on true
    left join place as services on true
    left join choice on true
"""

# For a client that is authenticated already.
REDEEM: Final[LiteralString] = f"""
    with service as materialized (select %(service)s::uuid as id),
         {_REDEEMING}
  select {_PRESENTED}
    from authorization_codes as codes
    join all_services on all_services.id = codes.service_id
         {_WHAT_BECAME_OF_IT}
   where codes.digest = %(digest)s
"""

# For a client that shows a secret. The use case checks both conditions of `service` again, to tell one refusal from another. By then this
# statement is committed, so the statement must not redeem for a client that the use case will refuse.
REDEEM_WITH_SECRET: Final[LiteralString] = f"""
    with asked as (select %(client)s::text as client, %(secret)s::text as digest),
         client ({", ".join(ClientRow._fields)}) as materialized (
             select {CLIENT}
               from asked
                    {ITS_SERVICE}
         ),
         service as materialized (
             select service_id as id from client where secret is not null and organization_is_active and service_type <> 'proxy'
                and (not binds_tokens or %(key)s::text is not null) and not holds_fapi2
         ),
         {_REDEEMING}
  select client.*, {_PRESENTED}
    from client
    left join authorization_codes as codes on codes.digest = %(digest)s
    left join all_services on all_services.id = codes.service_id
         {_WHAT_BECAME_OF_IT}
"""
