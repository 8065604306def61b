"""Authorization codes in PostgreSQL. Each is issued and redeemed once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.columns import IdRow, storable_text
from adapters.postgres.federation.clients import CLIENT, CLIENT_TYPES, ClientRow
from adapters.postgres.functions import Function
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.privacy.forgetting import holding_by_use
from adapters.postgres.identity.proofs.login_events import (
    LOGIN_ARGUMENTS,
    PUBLISHED_ARGUMENTS,
    log_login,
    login_parameters,
    published_parameters,
    queue_for_export,
    tell_login,
)
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
from core.frozen import values_of
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
            **values_of(approved),
            **values_of(code),
            "expires_at": code.expires_at,
            "nonce": None if approved.nonce is None else storable_text(approved.nonce),
            "scopes": list(approved.scopes),
            "authenticated_by": list(approved.authenticated_by),
            "audiences": kept_audiences(approved.audiences),
            "registered": list(registered),
            "by_trust": by_trust,
        }
        if approved.pushed is None:
            return Issue.ISSUED if await self._statements.ask(IdRow, _ADD, parameters) else Issue.REFUSED
        (row,) = await self._statements.ask(_OfPushed, _ADD_FOR_PUSHED, parameters)
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


# The arguments of the function: the client, by its id as an authenticated one or by what it shows, then what `_parameters` makes.
_ARGUMENTS: Final[Mapping[LiteralString, LiteralString]] = {
    "service": "uuid",
    "client": "text",
    "secret": "text",
    "digest": "bytea",
    "redirect_uri": "text",
    "code_challenge": "text",
    "proof": "bytea",
    "resource": "text",
    "at": "timestamptz",
    "session": "uuid",
    "refresh_digest": "bytea",
    "lifetime": "interval",
    "idle": "interval",
    "minutes_idle": "integer",
    "root": "text",
    "key": "text",
    **LOGIN_ARGUMENTS,
    **PUBLISHED_ARGUMENTS,
}

# The columns of `ClientRow`, which are null for a client that is authenticated already. The names are apart from those of the code.
_OF_CLIENT_BY_NAME: Final[Mapping[LiteralString, LiteralString]] = {f"client_{name}": kind for name, kind in CLIENT_TYPES.items()}

# The columns of `_Presented`: the type of each, what it is after a redemption, and what it is without one, where it is not null then.
_PRESENTED: Final[Mapping[LiteralString, tuple[LiteralString, LiteralString, LiteralString]]] = {
    "user_id": ("uuid", "code.user_id", "code.user_id"),
    "service_id": ("uuid", "code.service_id", "code.service_id"),
    "organization_id": ("uuid", "its_organization", "its_organization"),
    "redeemed_at": ("timestamptz", "code.redeemed_at", "code.redeemed_at"),
    "redeemed_with": ("bytea", "code.redeemed_with", "code.redeemed_with"),
    "session_id": ("uuid", "code.session_id", "code.session_id"),
    "nonce": ("text", "code.nonce", "code.nonce"),
    "scopes": ("text[]", "code.scopes", "code.scopes"),
    "auth_time": ("timestamptz", "code.auth_time", "code.auth_time"),
    "stated_at": ("timestamptz", "code.stated_at", "code.stated_at"),
    "authenticated_by": ("text[]", "code.authenticated_by", "code.authenticated_by"),
    "redeemed": ("boolean", "true", "false"),
    "contended": ("boolean", "false", "would_do and fits"),
    "expires_at": ("timestamptz", "expires_at", "null"),
    "ends_at": ("timestamptz", "ends_at", "null"),
    "parent_id": ("uuid", "bounds.id", "null"),
    "device_id": ("uuid", "parent.device_id", "null"),
    "second_factor_at": ("timestamptz", "parent.second_factor_at", "null"),
    "email": ("text", "users.email", "null"),
    "email_is_verified": ("boolean", is_verified_for("its_organization"), "null"),
    "is_platform_owner": ("boolean", "users.is_platform_owner", "null"),
    "role": ("text", "role", "null"),
    "subscription": ("jsonb", "subscription", "null"),
    "profile": ("jsonb", "profile", "null"),
    "directory_context": ("text", "directory_context", "null"),
    "tells_more": ("boolean", "tells_more", "false"),
    "granted": ("integer", "jsonb_array_length(code.audiences)", "jsonb_array_length(code.audiences)"),
    "audiences": ("jsonb", "apis", "apis"),
    "untargeted": ("boolean", "false", "would_do and not fits"),
}
_CLIENT_COLUMNS: Final[LiteralString] = ",\n           ".join(_OF_CLIENT_BY_NAME)
_REDEEMED: Final[LiteralString] = ",\n           ".join(value for _, value, _ in _PRESENTED.values())
_NOT_REDEEMED: Final[LiteralString] = ",\n           ".join(
    value if value != "null" else f"null::{kind}" for kind, _, value in _PRESENTED.values()
)

# The expressions of the sign-in's log entry and event: the person, the provider, the service and the time.
_OF_CODE: Final[Mapping[str, LiteralString]] = {
    "user": "code.user_id",
    "organization": "its_organization",
    "service": "code.service_id",
    "provider": "code.provider",
    "at": "%(at)s::timestamptz",
}
_ONCE: Final = "(select) as once"
_AGENT: Final = "case when client_is_agent then oauth_client_id end"
_LET_HOLD: Final[LiteralString] = holding_by_use(
    "users.id", "%(at)s", "code.authenticated_by", "where users.origin_org_id <> its_organization"
)

# One call does all of the redemption or nothing, in one round trip: applications wait for the answer while somebody signs in.
#
# Each small statement sees what others have committed before it. So the account is locked first, as in every transaction that opens or ends
# sessions, and the browser's session second. A request that ends the browser's session either waits for the account and finds the new
# session, or was first, and then there is no `parent`. What no locked row protects is read after these waits, and nothing of what was read
# before them opens anything: the code's row has no column that changes, but for those that the redemption itself sets. Of two requests with
# the same code, the second waits for the account, and then its update finds no row. The code that this second request has read is from
# before the change, so `contended` makes the request look again. A session that acts in another person's name (`impersonator_id`) cannot
# redeem, because the new session would outlive the impersonation.
#
# A code that another client shows, or without its proof, locks nothing: otherwise a stranger could hold up an account.
REDEEM_CODE: Final = Function(
    "redeem_code_16",
    "Redeems an authorization code: for an authenticated service, or for a client that shows a secret.",
    _ARGUMENTS,
    {**_OF_CLIENT_BY_NAME, **{name: kind for name, (kind, _, _) in _PRESENTED.items()}},
    {
        "code": "record",
        "is_its": "boolean",
        "its_organization": "uuid",
        "users": "record",
        "parent": "sessions",
        "bounds": "sessions",
        "oauth_client_id": "text",
        "most_in_service": "integer",
        "most": "integer",
        "admitted": "boolean",
        "acts_until": "timestamptz",
        "due": "timestamptz",
        "has_consent": "boolean",
        "is_spared": "boolean",
        "would_do": "boolean := false",
        "fits": "boolean",
        "apis": "jsonb",
        "silent_until": "timestamptz",
        "exports": "boolean",
        "has_webhooks": "boolean",
        "has_subscription": "boolean",
        "told": "record",
        "rung": "bigint",
    },
    f"""
    -- What a server does not have that takes no writes may be there on the one that does.
    if current_setting('transaction_read_only')::boolean then
        raise read_only_sql_transaction using message = 'cannot redeem a code in a read-only transaction';
    end if;

    select * into code from authorization_codes where digest = %(digest)s;
    if code.redirect_uri = %(redirect_uri)s
       and code.code_challenge is not distinct from %(code_challenge)s
       and (code.key_thumbprint is null or code.key_thumbprint = %(key)s)
       and code.expires_at > %(at)s
       and code.redeemed_at is null
    then
        is_its := code.service_id = %(service)s or exists (
            select from client_secrets where digest = decode(%(secret)s, 'hex') and service_id = code.service_id
        );
    end if;
    if is_its then
        select id, email, email_verified_at, address_vouched_by, is_platform_owner, origin_org_id, {PROFILE_COLUMNS}
          into users
          from users
         where id = code.user_id and deactivated_at is null
           for no key update;
        if found then
            select *
              into parent
              from sessions
             where id = code.parent_id and user_id = code.user_id
               and revoked_at is null and expires_at > now() and ends_at > now()
               and impersonator_id is null
               and depth = 0
               for share;
        end if;
    end if;

    if parent.id is not null then
        select {CLIENT}, services.org_id, services.oauth_client_id, services.most_sessions, organizations.most_sessions, memberships.role,
               {admits("memberships.role is not null", "code.user_id")}, {acts_until("code")}, {terms_due("code.user_id")},
               coalesce(consents.scopes @> code.scopes, false)
               and {allows_audiences("code.audiences", "code.user_id", "code.service_id")},
               services.trusted and {IS_OWN_MEMBERSHIP},
               exists (select from siem_configurations where siem_configurations.org_id = services.org_id),
               exists (select from webhooks where webhooks.org_id = services.org_id),
               exists (select from subscriptions where subscriptions.user_id = code.user_id and subscriptions.service_id = services.id),
               {tells_more("services.id", "services.org_id", "code.user_id")}
          into {_CLIENT_COLUMNS}, its_organization, oauth_client_id, most_in_service, most, role,
               admitted, acts_until, due,
               has_consent,
               is_spared,
               exports, has_webhooks, has_subscription, tells_more
          from (select %(secret)s as digest) as asked
         cross join services
          left join organizations on organizations.id = services.org_id
          left join memberships on memberships.org_id = services.org_id and memberships.user_id = code.user_id and {counts_for("users")}
          left join consents on consents.service_id = services.id and consents.user_id = code.user_id
         where services.id = code.service_id;
        -- Members of the organization need no consent for its trusted services. When the membership ends, the code needs consent again,
        -- also if the code was given a moment before. The use case checks again what a client that shows a secret needs, to tell one
        -- refusal from another. By then the redemption is committed.
        would_do := coalesce(admitted and acts_until > %(at)s and not {time_is_over("due")}
            and (%(key)s is not null or not client_binds_tokens)
            and (has_consent or is_spared)
            and client_organization_is_active
            and (%(service)s is not null
                 or client_secret is not null and client_service_type <> 'proxy' and not client_holds_fapi2
                and oauth_client_id = %(client)s), false);
        if code.audiences is null then
            fits := %(resource)s is null;
        else
            apis := {open_audiences("code")};
            fits := audience_fits(apis, code.audiences, %(resource)s, '{{}}');
        end if;
    end if;

    -- Right before the redemption, so that nothing that a hook says meanwhile is missed. Where no hook counts, it is one look.
    if would_do and fits and exists (select from hooks where counts_as is not null) then
        would_do := hooks_keep_out(parent.id, code.user_id, its_organization, code.service_id, true) is null;
        -- What a silence lets in ends after twelve hours.
        silent_until := hooks_silent_since(parent.id, code.user_id, its_organization, code.service_id) + interval '12 hours';
    end if;
    if would_do and fits then
        update authorization_codes
           set redeemed_at = %(at)s, redeemed_with = %(proof)s, session_id = %(session)s
         where id = code.id and redeemed_at is null;
    end if;
    if (would_do and fits and found) is not true then
        if %(service)s is null then
            select {CLIENT}
              into {_CLIENT_COLUMNS}
              from (select %(client)s as client, %(secret)s as digest) as asked
              join services on services.oauth_client_id = asked.client
              join organizations on organizations.id = services.org_id;
        end if;
        if not found and %(service)s is null then
            return;
        end if;
        if code.id is not null then
            select org_id into its_organization from all_services where id = code.service_id;
            return query
            select {_CLIENT_COLUMNS},
           {_NOT_REDEEMED};
        elsif %(service)s is null then
            return next;
        end if;
        return;
    end if;

    -- The new session ends with the browser's session, unless the scopes allow a session of its own. The person has chosen the end of an
    -- agent's.
    if not client_is_agent and %(root)s <> all (code.scopes) then
        bounds := parent;
    end if;
    expires_at := least(%(at)s + %(idle)s, %(at)s + %(lifetime)s, bounds.expires_at, bounds.ends_at, acts_until, silent_until);
    ends_at := least(%(at)s + %(lifetime)s, bounds.ends_at, acts_until, silent_until);
    insert into sessions (id, user_id, device_id, organization_id, service_id, created_at, last_seen_at, expires_at, ends_at,
                          authenticated_by, parent_id, depth, proved_at, second_factor_at, stated_at, scopes, audiences,
                          expires_day, minutes_idle, most, most_in_service, key_thumbprint, factor_through, factor_stated)
    values (%(session)s, code.user_id, parent.device_id, its_organization, code.service_id, %(at)s, %(at)s, expires_at, ends_at,
            code.authenticated_by, bounds.id, case when bounds.id is null then 0 else 1 end, code.auth_time,
            parent.second_factor_at, code.stated_at, code.scopes, code.audiences, (expires_at at time zone 'UTC')::date,
            least(%(minutes_idle)s, bounds.minutes_idle), most, most_in_service,
            %(key)s, parent.factor_through, parent.factor_stated);
    insert into refresh_tokens (digest, session_id, created_at) values (%(refresh_digest)s, %(session)s, %(at)s);

    -- Where the log has the sign-in already, the redemption adds nothing to it.
    if code.provider <> '{LOGGED_ALREADY}' then
        {log_login(_ONCE, device="parent.device_id", **_OF_CODE)};
        {tell_login(_ONCE, agent=_AGENT, **_OF_CODE)} into told;
        if exports then
            {queue_for_export(_ONCE, "%(login_id)s::uuid", "its_organization")};
        end if;
        if has_webhooks then
            with queued as (
                     {fan_out("(select told.id, told.name, told.organization_id, told.target_id, told.request_id) as told")}
                 )
            select count(*) into rung from queued;
        end if;
    end if;
    if users.origin_org_id <> its_organization then
        {_LET_HOLD};
    end if;
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
    values (code.service_id, code.user_id, its_organization, %(at)s, %(at)s, %(at)s, case when has_consent then %(at)s end)
        on conflict (service_id, user_id) do update
       set {ENTERED_AGAIN};

    if has_subscription then
        select {SUBSCRIPTION_STATE} into subscription from services where services.id = code.service_id;
    end if;
    if 'profile' = any (code.scopes) then
        profile := {PROFILE};
    end if;
    if 'fed' = any (code.authenticated_by) then
        directory_context := {directory_context("code.authenticated_by", "parent.id", "its_organization")};
    end if;
    return query
    select {_CLIENT_COLUMNS},
           {_REDEEMED};
""",
)

# For a client that is authenticated already.
REDEEM: Final[LiteralString] = REDEEM_CODE.call(", ".join(_PRESENTED), without=("client", "secret"))
# For a client that shows a secret.
REDEEM_WITH_SECRET: Final[LiteralString] = REDEEM_CODE.call("*", without=("service",))
