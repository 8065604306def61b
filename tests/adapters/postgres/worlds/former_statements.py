"""The statements that redeemed a code and exchanged a refresh token before functions did, as they stood then.

`test_worlds.py` runs each of them beside its function, and both must leave the same rows and give the same answers. A process of the
release before sends exactly these statements, and goes on doing so on the new schema. They are made of the parts that other statements
share, so a rule that changes changes in both.

They stay as long as the file of views and functions has no older edition of these functions. When it has one, that one is what a newer one
is compared with, and this module goes (docs/decisions/0173). Nothing here is mended: a difference is a mistake of the function.
"""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.federation.clients import CLIENT, ITS_SERVICE, ClientRow
from adapters.postgres.identity.addresses import is_verified_for
from adapters.postgres.identity.factors.mfa import OWES_SECOND_FACTOR
from adapters.postgres.identity.privacy.forgetting import holding_by_use
from adapters.postgres.identity.proofs.login_events import log_login, queue_for_export, tell_login
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import (
    AGENTS_ARE_FORBIDDEN,
    AUTHENTICATES,
    IDLE,
    IS_LIVE,
    PROFILE,
    PROFILE_COLUMNS,
    SUBSCRIPTION_STATE,
    acts_until,
    allows_audiences,
    lost_nothing_since,
    may_act,
    open_audiences,
    tells_more,
)
from adapters.postgres.identity.terms import OWES_TERMS, terms_due, time_is_over
from adapters.postgres.identity.upstream.ways import directory_context
from adapters.postgres.record.events import fan_out
from adapters.postgres.ties import ENTERED_AGAIN, IS_OWN_MEMBERSHIP, counts_for
from core.domain.federation.oauth.authorization_codes import LOGGED_ALREADY

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
ROTATE: Final[LiteralString] = f"""
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
