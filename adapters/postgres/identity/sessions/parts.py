"""SQL parts about sessions that many statements share, and the statements that revoke sessions."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import array
from adapters.postgres.statements import CHANNEL, NEW_ID
from adapters.postgres.ties import IS_OWN_USE
from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.identifiers import ResourceServerId
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import LOGOUT_TOPIC, NO_SUBSCRIPTION, NOT_JUDGED, Doors, SubscriptionState
from core.domain.record.signals import SIGNAL_TOPIC
from core.domain.tokens import TokenAlgorithm, TokenAudience, TokenAudiences

# How long a session rests before it ends. It carries what the rules said when it was opened.
IDLE: Final = "coalesce(sessions.minutes_idle * interval '1 minute', %(idle)s)"

# The conditions for the lives that the organization and the service of a session say, the shorter one. A null number says nothing.
_IS_YOUNG_ENOUGH: Final = """
       and (organizations.session_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + organizations.session_hours * interval '1 hour' > now())
       and (services.session_lifetime_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + services.session_lifetime_hours * interval '1 hour' > now())
"""
# The shorter life of the two, in hours. Null when neither says one.
SESSION_HOURS: Final = "least(organizations.session_hours, services.session_lifetime_hours)"
_IS_IN_USE: Final = """
       and (organizations.session_idle_minutes is null
         or sessions.last_seen_at + organizations.session_idle_minutes * interval '1 minute' > now())
       and (services.session_idle_minutes is null
         or sessions.last_seen_at + services.session_idle_minutes * interval '1 minute' > now())
"""

# A session is live until it ends or exceeds a limit of its organization or service. Its user must be active. If a platform owner acts in
# the user's name, that platform owner must be active, too, and the user must not be a platform owner, not even one who has become so since.
IS_LIVE: Final[LiteralString] = f"""
           sessions.revoked_at is null
       and sessions.expires_at > now()
       and sessions.ends_at > now()
       {_IS_YOUNG_ENOUGH.strip()}
       {_IS_IN_USE.strip()}
       and users.deactivated_at is null
       and (sessions.organization_id is null or organizations.id is not null)      -- neither organization nor service is being deleted
       and (sessions.service_id is null or services.id is not null)
       and (sessions.impersonator_id is null or not users.is_platform_owner and exists (
               select from users as impersonators
                where impersonators.id = sessions.impersonator_id
                  and impersonators.is_platform_owner
                  and impersonators.deactivated_at is null
           ))
"""


# A part of any statement with the parameter `session`, the id of a session.
SESSION_LIVES: Final[LiteralString] = f"""exists (
               select
                 from sessions
                 join users on users.id = sessions.user_id
                 left join organizations on organizations.id = sessions.organization_id
                 left join services on services.id = sessions.service_id
                where sessions.id = %(session)s
                  and {IS_LIVE}
           )"""


def lost_nothing_since(time: LiteralString) -> LiteralString:
    """A condition on `services`: the application has lost no credential since `time`, so a grant from that time needs only the client id.

    Once an application has lost its credentials, anybody can name its client id. A grant that the application received while it still
    authenticated must not go to others. A grant from the minute after the loss counts as received before, because its request may have
    come in just before the loss, and clocks differ.
    """
    return f"coalesce({time} > services.credential_removed_at + interval '1 minute', true)"


# A condition on `services`: the application has keys or a secret to authenticate with. Other applications have only a client id, which
# anybody may use.
AUTHENTICATES: Final = "(services.jwks is not null or exists (select from client_secrets where client_secrets.service_id = services.id))"


def acts_until(row: LiteralString) -> LiteralString:
    """The end of what `row` was granted, a code or session with `audiences`, `user_id`, `service_id` and `created_at`. `services` is its
    service. Infinity for a service that is no agent; null where an agent may not act, or no longer.

    The rule is in the schema, in the function `agent_acts_until`; statements call it for agents alone.
    """
    return f"""case
               when services.is_agent
               then agent_acts_until({row}.audiences, {row}.user_id, {row}.service_id, {row}.created_at)
               else 'infinity'::timestamptz
           end"""


def may_act(row: LiteralString) -> LiteralString:
    """A condition on `row` as above, which may have no service: the agent may still act for the person. A service that was an agent before
    has lost what was opened until then.
    """
    return f"""case
               when services.is_agent then coalesce({acts_until(row)} > now(), false)
               else coalesce({row}.created_at >= services.agent_since, true)
           end"""


# A condition on `services` and `organizations`: the organization lets no agents act, and the service is one.
AGENTS_ARE_FORBIDDEN: Final = "coalesce(services.is_agent and organizations.agents = 'forbidden', false)"

# A condition on `services` and `consents`, a row of `resource_consents`: it has not ended, and it lets an agent act, if the service is one.
CONSENT_LIVES: Final = """
           case
               when services.is_agent then agent_consent_lives(consents)
               else coalesce(consents.expires_at > now(), true) and coalesce(consents.granted_at >= services.agent_since, true)
           end"""


# The rules stand in the schema, in the functions of these names.

# A condition on `resource_servers`: tokens are made for the API. The rule of the domain is `ResourceServer.state`; a test compares the two.
IS_OPEN: Final = "resource_is_open(resource_servers)"


def admits_service(service: LiteralString) -> LiteralString:
    """A condition on `resource_servers`: the service, an expression of an id, may ask for tokens."""
    return f"resource_admits(resource_servers, {service})"


def is_held(scope: LiteralString, person: LiteralString) -> LiteralString:
    """A condition on `resource_servers`: the person holds the permission that the scope, an expression of one of its objects, asks for."""
    return f"resource_scope_is_held(resource_servers, {scope}, {person})"


def is_reached(scope: LiteralString, methods: LiteralString) -> LiteralString:
    """A condition: a sign-in by these methods reaches what the scope, an expression of one of its objects, asks for."""
    return f"resource_scope_is_reached({scope}, {methods})"


# A condition on `sessions`: an identity assertion opened the session. Such a session hangs on its directory's word alone.
IS_BY_ASSERTION: Final = "(sessions.opened_through is not null and sessions.audiences is not null)"


def asks_nothing(scope: LiteralString) -> LiteralString:
    """A condition: the scope, an expression of one of its objects, asks nothing of the sign-in. The rule of the domain is
    `SignInDemand.asks`.
    """
    return f"coalesce({scope} -> 'acr_values', '[]') = '[]' and {scope} ->> 'max_age' is null"


def open_audiences(row: LiteralString, *, spared: LiteralString = "false") -> LiteralString:
    """The open APIs of a code or session, a row with `audiences`, `user_id`, `service_id` and `authenticated_by`. Null without APIs. Scopes
    that the person has refused since are missing, unless the condition `spared` holds.

    An API that has ended, or that no longer admits the application, and a permission that was taken away count from the next request on.
    """
    columns: LiteralString = f"{row}.audiences, {row}.user_id, {row}.service_id, {row}.authenticated_by, {spared}"
    return f"case when {row}.audiences is not null then open_audiences({columns}) end"


def allows_audiences(granted: LiteralString, person: LiteralString, service: LiteralString) -> LiteralString:
    """A condition: the person allows the service everything that is granted, an expression of the document that a code keeps."""
    return f"({granted} is null or audiences_are_allowed({granted}, {person}, {service}))"


def audiences(granted: int | None, found: Sequence[Mapping[str, Any]] | None) -> TokenAudiences:
    return TokenAudiences(granted or 0, tuple(map(_audience, found or ())))


def kept_audiences(granted: Sequence[TokenAudience]) -> Jsonb | None:
    """The document that a code keeps, for `open_audiences`."""
    if not granted:
        return None
    return Jsonb([{"resource_id": str(one.id), "identifier": one.identifier, "scopes": list(one.scopes)} for one in granted])


def granted_audiences(kept: Sequence[Mapping[str, Any]] | None) -> Sequence[TokenAudience]:
    """Reads the document that `kept_audiences` made."""
    return [TokenAudience(ResourceServerId(UUID(one["resource_id"])), one["identifier"], tuple(one["scopes"])) for one in kept or ()]


def _audience(row: Mapping[str, Any]) -> TokenAudience:
    return TokenAudience(
        id=ResourceServerId(UUID(row["id"])),
        identifier=row["identifier"],
        scopes=tuple(row["scopes"]),
        lifetime=lifetime(row["lifetime"]),
        algorithm=TokenAlgorithm(row["algorithm"]),
    )


def lifetime(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def door_parameters(doors: Doors) -> Mapping[str, Any]:
    """What risk policies of organizations have decided about a session's sign-in.

    The columns `let_in_by` and `kept_out_by`. Both are null for a sign-in that no rule was asked about.
    """
    if doors == NOT_JUDGED:
        return {"let_in_by": None, "kept_out_by": None}
    return {"let_in_by": array(one.hex for one in doors.let_in_by), "kept_out_by": array(one.hex for one in doors.kept_out_by)}


def is_kept_out_of_service() -> LiteralString:
    """Whether the rules for risk keep this session out of `services`: out of its organization, or out of it alone."""
    return f"""(
               {is_kept_out()}
            or organizations.risk_counts_since is not null and sessions.impersonator_id is null
           and coalesce(services.id = any (sessions.kept_out_by), false)
           )"""


def is_kept_out(organization: LiteralString = "organizations", session: LiteralString = "sessions") -> LiteralString:
    """Whether the organization's rules for risk keep this session out of it. A session that the rules have not judged comes in if it is
    older than the first of them that counts. A session of the organization itself was judged when it was opened, and a platform owner who
    acts for somebody has not signed in as them.
    """
    return f"""(
               {organization}.risk_counts_since is not null and {session}.impersonator_id is null
           and {session}.organization_id is distinct from {organization}.id
           and (coalesce({organization}.id = any ({session}.kept_out_by), false)
                or {session}.created_at >= {organization}.risk_counts_since
                   and not coalesce({organization}.id = any ({session}.let_in_by), false))
           )"""


# A condition: some hook counts. It is asked first, so that a statement pays for one look where none does.
A_HOOK_COUNTS: Final = "exists (select from hooks where hooks.counts_as is not null)"


def hooks_against(
    organization: LiteralString,
    person: LiteralString,
    service: LiteralString = "null::uuid",
    session: LiteralString = "sessions",
    *,
    looks_at_age: bool = True,
) -> LiteralString:
    """What hooks have against the session at a door of the organization: 'no', or 'unasked' if the door gives something new and none of
    them has let the session in lately. Null for nothing. A platform owner who acts for somebody has not signed in as them.
    """
    age: LiteralString = "true" if looks_at_age else "false"
    return f"""case
               when {A_HOOK_COUNTS} and {session}.impersonator_id is null
               then hooks_keep_out({session}.id, {person}, {organization}, {service}, {age})
           end"""


# What hooks have against the sign-in that a session in a service goes back to. Nobody is asked, and no verdict is too old.
SAID_BY_HOOKS: Final[LiteralString] = hooks_against(
    "sessions.organization_id", "sessions.user_id", "sessions.service_id", looks_at_age=False
)


def has_hooks(organization: LiteralString) -> LiteralString:
    """Whether a hook is to be asked at a way in of the organization, in shadow or not."""
    return f"exists (select from hooks where hooks.org_id = {organization} or hooks.org_id is null)"


# A part of any statement that reads `users`: the person's profile. Null for a person who has set nothing, so that the others cost little.
PROFILE: Final[LiteralString] = """
           case
               when num_nonnulls(users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                                 users.language, users.profile_updated_at) > 0
               then jsonb_build_object(
                        'name', users.name, 'given_name', users.given_name, 'family_name', users.family_name, 'username', users.username,
                        'zoneinfo', users.zoneinfo, 'picture', users.picture_id, 'language', users.language,
                        'updated_at', floor(extract(epoch from users.profile_updated_at))::bigint
                    )
           end"""
# The columns that `PROFILE` reads, for a statement that passes them on.
PROFILE_COLUMNS: Final = "name, given_name, family_name, username, zoneinfo, picture_id, language, profile_updated_at"


def profile(found: Mapping[str, Any] | None) -> StandardProfile:
    """Converts the value of `PROFILE`.

    Sessions, sign-in and userinfo read it with everything else.
    """
    return NO_PROFILE if found is None else StandardProfile(**found)


def tells_more(service: LiteralString, organization: LiteralString, person: LiteralString) -> LiteralString:
    """Whether the service may learn more of the person than the account: it has claims or roles, or the person is in a team of its
    organization. `ServiceFacts` are the answer to that, and cost one more round trip. Each part is one look into an index.
    """
    return f"""(
               exists (select from service_claims where service_claims.service_id = {service} offset 0)
               or exists (select from service_roles where service_roles.service_id = {service} offset 0)
               or exists (select from team_members where team_members.user_id = {person} and team_members.org_id = {organization} offset 0)
           )"""


# What an `update` of `sessions` sets. The time of a proof never moves back. A provider may state an older time for its sign-in than the
# session has shown already. Its silence always counts: whoever comes back by a provider that states no time has to be offered the mailed
# code again. A second factor alone says nothing about the first proof.
RENEWED: Final[LiteralString] = """
           proved_at = greatest(sessions.proved_at, %(proved_at)s),
           second_factor_at = greatest(sessions.second_factor_at, %(second_factor_at)s),
           stated_at = case
                           when %(proved_at)s::timestamptz is null then sessions.stated_at
                           when %(stated_at)s::timestamptz = 'epoch' then 'epoch'
                           when %(stated_at)s::timestamptz is not null
                           then greatest(coalesce(sessions.stated_at, sessions.proved_at), %(stated_at)s::timestamptz)
                       end,
           refuses_applications = case
                                      when %(proved_at)s::timestamptz is null then sessions.refuses_applications
                                      else %(refuses_applications)s
                                  end
"""


def proof_parameters(proved: Proved) -> Mapping[str, Any]:
    return {
        "proved_at": proved.at,
        "second_factor_at": proved.second_factor_at,
        "stated_at": proved.stated_at,
        "refuses_applications": proved.refuses_applications,
    }


# The end of any statement about the subscriptions of one user of a service: it picks the current subscription, or else the youngest.
CURRENT_FIRST: Final = """
     order by subscriptions.status in ('active', 'past_due') desc, subscriptions.created_at desc, subscriptions.id desc
     limit 1
"""

# A part of any statement that reads `users` and a service as `services`: the subscription state of this person for the tokens of that
# service. An active subscription whose period has ended counts as expired, even before a job has recorded the end. Only a subscription
# that the payment provider manages stays active until the provider says otherwise.
SUBSCRIPTION_STATE: Final[LiteralString] = f"""(
    select jsonb_build_object(
               'plan', plans.name,
               'features', plans.features,
               'status', case
                             when subscriptions.status = 'active' and not subscriptions.managed and subscriptions.current_period_end <=
                             now() then 'expired'
                             else subscriptions.status
                         end,
               'current_period_end', subscriptions.current_period_end
           )
      from subscriptions
      join plans on plans.id = subscriptions.plan_id
     where subscriptions.user_id = users.id and subscriptions.service_id = services.id
     {CURRENT_FIRST}
)"""


def subscription_state(found: Mapping[str, Any] | None) -> SubscriptionState:
    """Converts the value of `SUBSCRIPTION_STATE`.

    Tokens of an application carry it. Sessions, sign-in and impersonation read it with everything else.
    """
    if found is None:
        return NO_SUBSCRIPTION
    end = datetime.fromisoformat(found["current_period_end"]).astimezone(UTC)
    return SubscriptionState(found["plan"], tuple(found["features"]), found["status"], end)


def revoking(which: LiteralString) -> LiteralString:
    """Revokes the live sessions that meet the condition `which`, and all sessions that were opened from them.

    Lock the account in a statement before this one. A request that opens a session from another one locks the account, too. Without the
    lock, a session that is being opened would escape.

    The statement locks sessions in the order of their ids, as presence and refresh do. So two statements that revoke or mark the same
    sessions cannot deadlock.
    """
    return f"""
    with recursive ending as (
             select id
               from sessions
              where {which} and revoked_at is null
          union
             select sessions.id
               from sessions
               join ending on sessions.parent_id = ending.id
              where sessions.revoked_at is null
         ),
         living as (
             select id, user_id, service_id
               from sessions
              where id = any (array(select id from ending)) and revoked_at is null
              order by id
                for no key update
         ),
         noticed as ({noticing("living")})
  update sessions
     set revoked_at = now()
    from living
   where sessions.id = living.id
"""


def ending_codes(whose: LiteralString) -> LiteralString:
    """Deletes the authorization codes that no application has redeemed, refuses requests from afar that wait for their tokens, and denies
    the device codes that the person has approved and no device has redeemed. Use this statement beside every statement that ends all
    sessions of a person somewhere: otherwise an approval from a moment before opens a session a moment after.

    Lock the account in a statement before this one. A request that redeems a code locks the account, too: either that request has already
    opened its session, or it finds the code gone.

    A request from afar that waits for the person's answer becomes nobody's, and stays as it is for its application: otherwise the
    application would learn that there is such a person, and the moment of a new password.

    The statement deletes the row of an authorization code, because a request that redeems the code at this moment has read the row
    before, and only looks whether the row still exists.
    """
    return f"""
    with ended as (
             delete from authorization_codes where {whose} and redeemed_at is null
         ),
         from_afar as (
             update afar_requests
                set state = case state when 'allowed' then 'refused' else state end,
                    user_id = case state when 'allowed' then user_id end,
                    binding_message = case state when 'allowed' then binding_message end,
                    session_id = null
              where {whose} and state in ('pending', 'allowed')
         )
  update device_codes
     set state = 'denied'
   where {whose} and state = 'approved'
"""


# The session in the parameter `but`, the sessions from which it was opened, and the sessions that were opened from it.
LINE: Final = """
                 with recursive above as (
                          select id, parent_id from sessions where id = %(but)s
                       union all
                          select sessions.id, sessions.parent_id from sessions join above on sessions.id = above.parent_id
                      ),
                      below as (
                          select id from sessions where id = %(but)s
                       union all
                          select sessions.id from sessions join below on sessions.parent_id = below.id
                      )
               select id from above union select id from below
"""


def noticing(ended: LiteralString, *, by_policy: bool = False) -> LiteralString:
    """Adds a logout notice for each of these sessions whose service wants notices (OpenID Connect Back-Channel Logout), and one for each
    stream of the service that hears of ended sessions (CAEP `session-revoked`), if the person uses the service by their own act. The
    notices are part of the statement that ends the sessions, so no statement can forget them, and none asks for the person's tie too late.

    `ended` is a table of the sessions' ids, users and services, and its statement has locked the sessions. So two statements that end the
    same session do not wait for each other's notices. `by_policy`: the sessions have run out; the table has `expires_at`, too.

    A notice for a stream has a digest in place of the session's id, and waits by `tell_at`: so a process of the release before neither
    meets it as a conflict nor sends it.

    The statement notifies dispatchers only if it adds a notice, because a notification makes commits wait for each other.
    """
    return f"""
             insert into logout_notices (id, service_id, session_id, user_id, next_at, created_at, updated_at, stream_id, tell_at,
                                         ended_all, by_policy)
             select {NEW_ID}, told.id, ended.id, ended.user_id, now(), now(), now(), null::uuid, null::timestamptz, null::boolean,
                    null::boolean
               from {ended} as ended
               join all_services as told on told.id = ended.service_id
              where told.backchannel_logout_uri is not null and told.deleted_at is null
                -- Nobody signed in for an exchange, so nobody is signed out.
                and not exists (select from sessions as opened where opened.id = ended.id and opened.exchanged_from is not null)
              union all
             select {NEW_ID}, told.id, md5(streams.id::text || ended.id::text)::uuid, ended.user_id, null, now(), now(), streams.id, now(),
                    not exists (
                        select from sessions as others
                         where others.user_id = ended.user_id and others.service_id = ended.service_id and others.revoked_at is null
                           and others.expires_at > now() and others.ends_at > now() and others.id not in (select id from {ended} as these)
                        offset 0
                    ),
                    {"true" if by_policy else "false"}
               from {ended} as ended
               join signal_streams as streams on streams.service_id = ended.service_id
               join signal_settings on signal_settings.service_id = streams.service_id
               join all_services as told on told.id = streams.service_id
               join organizations on organizations.id = told.org_id
               join service_users on service_users.service_id = told.id and service_users.user_id = ended.user_id and {IS_OWN_USE}
              where told.deleted_at is null and organizations.status = 'active' and streams.status <> 'disabled'
                and 'session-revoked' = any (streams.events) and 'session-revoked' = any (signal_settings.events)
                and not exists (select from sessions as opened where opened.id = ended.id and opened.exchanged_from is not null)
                {"and streams.created_at < ended.expires_at" if by_policy else ""}
                 on conflict (service_id, session_id) do nothing
          returning pg_notify('{CHANNEL}', case when stream_id is null then '{LOGOUT_TOPIC}' else '{SIGNAL_TOPIC}' end)
    """
