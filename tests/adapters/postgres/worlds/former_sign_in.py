"""The statements that looked a sign-in up, and looked at it for the last time, before functions did, as they stood then.

`test_sign_in_worlds.py` runs each of them beside its function, and both must leave the same rows and give the same answers. A process of
the release before sends exactly these statements, and goes on doing so on the new schema. They are made of the parts that other statements
share, so a rule that changes changes in both.

They stay as long as the file of views and functions has no older edition of these functions (docs/decisions/0173). Nothing here is mended:
a difference is a mistake of the function.
"""

from collections.abc import Mapping
from typing import Final, LiteralString

from adapters.postgres.identity.accounts import ACCOUNT
from adapters.postgres.identity.factors.mfa import FIRST_KNOWLEDGE, grace_is_over, has_second_factor, second_factor_due_in
from adapters.postgres.identity.proofs.account_passwords import PRESSURE
from adapters.postgres.identity.proofs.sign_in import _NAMED, KNOWN_TO_APPLICATION, _Place
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import SUBSCRIPTION_STATE, has_hooks, tells_more
from adapters.postgres.identity.sign_in_domains import JOIN_SIGN_IN_DOMAIN, SIGN_IN_DOMAIN_OF_USER
from adapters.postgres.identity.upstream.identities import is_connected
from adapters.postgres.rate_limits import TAKE_WANTED
from adapters.postgres.ties import IS_MEMBER_HERE, IS_OWN_MEMBERSHIP, is_listed, may_know_of_failures

# A try from a device that shows one of this account's device tokens takes from that device's bucket.
_FROM_ONE_DEVICE: Final = """
         known as (
             select devices.id
               from devices
               join users on users.id = devices.user_id
              where devices.token_digest = %(device_digest)s and devices.revoked_at is null and users.email_key = %(email_key)s
         ),
         wanted as (
             select case when known.id is null then %(account_limit)s::text else %(device_limit)s::text end as limit_name,
                    coalesce(known.id::text, %(account_key)s::text) as key,
                    case when known.id is null then %(account_burst)s::float8 else %(device_burst)s::float8 end as burst,
                    case when known.id is null then %(account_pace)s::float8 else %(device_pace)s::float8 end as pace
               from (values (true)) as this (try)
               left join known on this.try
         )"""

# A try without such a device token draws from the account's bucket.
_FROM_ANYWHERE: Final = """
         wanted as (
             select %(account_limit)s::text as limit_name, %(account_key)s::text as key, %(account_burst)s::float8 as burst,
                    %(account_pace)s::float8 as pace
         )"""


# "change" is the stricter of the two, and comes first.
_BREACHED_AT_SIGN_IN: Final[LiteralString] = f"""(
             select min(organizations.breached_at_sign_in)
               from memberships
               join organizations on organizations.id = memberships.org_id
              where memberships.user_id = users.id and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
         )"""


def _find(*, with_token: bool, place: _Place) -> LiteralString:
    """For an address without an account, the statement does the same look-ups, and finds nothing. There are statements without the
    look-ups of a device token or a place that the request does not name, because PostgreSQL initializes every part of a statement, also
    the parts that find nothing.
    """
    wanted = _FROM_ONE_DEVICE if with_token else _FROM_ANYWHERE
    destination, columns, joined = _OF_PLACE[place]
    return f"""
    with {wanted},
         taken as ({TAKE_WANTED})
         {destination}
  select taken.limit_name, taken.key, taken.wait, users.id, users.email, users.password_hash, users.is_platform_owner,
         users.email_verified_at, users.deactivated_at, users.created_at, users.language, users.address_vouched_by,
         {has_second_factor("users.id")} as mfa_enabled,
         {FIRST_KNOWLEDGE[with_token]} as knowledge,
         {_BREACHED_AT_SIGN_IN} as breached_at_sign_in,
         {PRESSURE} as pressure,
         {SIGN_IN_DOMAIN_OF_USER}
         {columns}
    from taken
    {joined}
    left join users on users.email_key = %(email_key)s
    {JOIN_SIGN_IN_DOMAIN}
"""


_AND_DESTINATION: Final[LiteralString] = f", destination as ({_NAMED})"

_DESTINATION_COLUMNS: Final[LiteralString] = f""",
         destination.*,
         {may_know_of_failures("destination.organization_id", "destination.service_id", "users.id")} as may_know_of_failures
"""

_OF_PLACE: Final[Mapping[_Place, tuple[LiteralString, LiteralString, LiteralString]]] = {
    _Place.NOWHERE: ("", "", ""),
    _Place.SERVICE: (_AND_DESTINATION, _DESTINATION_COLUMNS, "left join destination on true"),
    _Place.APPLICATION: ("", KNOWN_TO_APPLICATION, ""),
}

# The statements by whether the request shows a device token, and where the sign-in leads to.
FIND: Final[Mapping[tuple[bool, _Place], LiteralString]] = {
    (with_token, place): _find(with_token=with_token, place=place) for with_token in (False, True) for place in _Place
}


# A password reset or a deactivation ends all sessions. The lock on the account makes either of them wait until the new session exists, so
# that the new session ends, too. While the person gave the proof, they may have enabled a second factor, or the trust of the device may
# have ended. Every transaction locks the account before its flows and devices, and these before the service, so that no two deadlock. The
# lock on the service is the one that a foreign key takes: other transactions can add sessions and users of the service meanwhile. Sign-ins
# of one person come one after the other from here on: they write the same rows, the try that is given back and the place in a service, and
# in which order depends on what is sent together.
def _last_look(*, offers_passkey: bool) -> LiteralString:
    """The statement for a sign-in after which a page can, or cannot, offer a passkey. Most cannot, and do not pay for it."""
    return f"""
    with held as materialized (
             select id, email, email_key, is_platform_owner, email_verified_at, deactivated_at, created_at, language,
                    address_vouched_by, origin_org_id {_OFFERED[offers_passkey]}
               from users
              where id = %(user)s and deactivated_at is null
                and (%(encoded)s::text is null or password_hash = %(encoded)s)
                and (%(since)s::timestamptz is null or password_changed_at is null or password_changed_at <= %(since)s)
                for no key update
         ),
         users as materialized (
             select held.*,
                    %(identity)s::uuid is null or {is_connected("held")} as is_connected,
                    %(flow)s::uuid is null or exists (
                        select
                          from flows
                         where flows.id = %(flow)s and flows.signed_in_at is null and flows.expires_at > now()
                           for no key update
                    ) as flow_is_open,
                    not {has_second_factor("held.id")} or exists (
                        select
                          from devices
                         where devices.id = %(on_device)s and devices.user_id = held.id and devices.revoked_at is null
                           and devices.trusted_until > now()
                           for no key update
                    ) as one_factor_is_enough,
                    {is_listed("held.id")} as is_listed,
                    %(flow)s::uuid is not null and owes_answers(held.id, held.created_at, %(flow)s) as owes_answers,
                    {_OFFERS_PASSKEY[offers_passkey]} as offers_passkey,
                    exists (
                        select
                          from memberships
                          join organizations on organizations.id = memberships.org_id
                         where memberships.user_id = held.id
                        offset 1
                    ) as belongs_to_several
               from held
         ),
         destination as (
             select services.id, services.slug, services.org_id, services.sign_in_policy, services.is_agent,
                    services.dpop_bound_access_tokens, organizations.slug as organization_slug, organizations.status
               from services
               join organizations on organizations.id = services.org_id
              where services.id = %(service)s
                for key share
         )
  select {ACCOUNT.names}, users.is_connected, users.flow_is_open, users.one_factor_is_enough, users.is_listed, users.owes_answers,
           users.offers_passkey, users.belongs_to_several,
           services.id as service_id, services.slug as service_slug, services.org_id as organization_id, services.organization_slug,
           services.status = 'active' as organization_is_active, services.is_agent,
           services.dpop_bound_access_tokens as binds_tokens,
           {admits(IS_MEMBER_HERE, "users.id")} as is_admitted,
           {grace_is_over(second_factor_due_in("services.org_id", "users.id"))} as owes_second_factor,
           coalesce(users.origin_org_id <> services.org_id, false) as is_made_elsewhere,
           {may_know_of_failures("services.org_id", "services.id", "users.id")} as may_know_of_failures,
           {SUBSCRIPTION_STATE} as subscription,
           {tells_more("services.id", "services.org_id", "users.id")} as tells_more,
           risk_rules_asked(users.id, %(organization)s::uuid) as rules_asked,
           services.id is not null and {has_hooks("services.org_id")} as has_hooks,
           terms_pending(users.id, coalesce(%(organization)s::uuid, services.org_id)) as terms
    from users
    left join destination as services on true
"""


_OFFERED: Final = {True: ", passkey_offered_at, passkey_offers_ended_at", False: ""}
_OFFERS_PASSKEY: Final = {
    True: """held.passkey_offers_ended_at is null
                    and (held.passkey_offered_at is null or held.passkey_offered_at <= now() - %(offered_again_after)s::interval)
                    and may_be_offered_passkey(held.id)""",
    False: "false",
}
LAST_LOOK: Final = {offers: _last_look(offers_passkey=offers) for offers in (False, True)}
