"""Summaries of accounts in PostgreSQL. Each number comes from an index of the person's own rows."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString

from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.identity.factors.mfa import ADMINISTERS, grace_ends, second_factor_since, stated_factor_counts
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.statements import ask, first
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.accounts import (
    MOST_REQUIRING,
    MOST_STARTED,
    AccountSummary,
    AdministeredOrganization,
    RequiringOrganization,
    StartedApplication,
    StartingPlaces,
    origin_of,
)
from core.domain.identity.risk import FAILED_ATTEMPTS
from core.domain.mail import Email

_LATELY: Final = timedelta(days=7)


def _summary(
    *, email: str, pending_email: str | None, requiring: Sequence[tuple[str, float, bool, bool]], **columns: Any
) -> AccountSummary:
    return AccountSummary(
        email=Email(email),
        pending_email=None if pending_email is None else Email(pending_email),
        requiring=[RequiringOrganization(name, datetime.fromtimestamp(due, UTC), *what) for name, due, *what in requiring],
        **columns,
    )


def _application(one: Mapping[str, Any]) -> StartedApplication:
    return StartedApplication(
        one["name"],
        one["organization"],
        None if one["last_used_at"] is None else datetime.fromisoformat(one["last_used_at"]),
        f"/ui/open/{one['org_slug']}/{one['slug']}" if one["saml"] else origin_of(one["redirect_uri"] or ""),
    )


def _application_row(*, application: Mapping[str, Any]) -> StartedApplication:
    return _application(application)


def _start(
    *, started: Sequence[Mapping[str, Any]], administered: Sequence[Mapping[str, Any]], **columns: Any
) -> tuple[AccountSummary, StartingPlaces]:
    places = StartingPlaces(
        tuple(map(_application, started)),
        tuple(AdministeredOrganization(one["slug"], one["name"], one["waits"]) for one in administered),
    )
    return _summary(**columns), places


class PostgresAccountSummaries(OnPool):
    """Implements `ports.identity.accounts.AccountSummaryLookup`."""

    async def find(self, user: UserId, now: datetime, session: SessionId | None = None) -> AccountSummary | None:
        return first(await ask(self._pool, _summary, _FIND, _asked(user, now, session)))

    async def start(self, user: UserId, now: datetime, session: SessionId | None = None) -> tuple[AccountSummary, StartingPlaces] | None:
        most = {"most": MOST_STARTED, "most_places": MOST_STARTED}
        return first(await ask(self._pool, _start, _START, {**_asked(user, now, session), **most, "organization": None}))

    async def applications(self, user: UserId, organization: str) -> Sequence[StartedApplication]:
        parameters = {"user": user, "organization": storable_text(organization), "most": MOST_STARTED}
        return await ask(self._pool, _application_row, _APPLICATIONS, parameters)


def _asked(user: UserId, now: datetime, session: SessionId | None) -> Mapping[str, Any]:
    return {
        "user": user,
        "session": session,
        "now": now,
        "lately": now - _LATELY,
        "failures": [failure.value for failure in FAILED_ATTEMPTS],
        "most_requiring": MOST_REQUIRING,
    }


_SUMMARY: Final[LiteralString] = f"""
    select users.email, users.pending_email, users.created_at, users.password_hash is not null as has_password, users.password_changed_at,
           {second_factor_since("users.id")} as second_factor_since,
           exists (select from mfa_secrets where user_id = users.id and enabled_at is not null) as has_authenticator,
           (select count(*) from passkeys where user_id = users.id) as passkeys,
           (select count(*) from backup_codes where user_id = users.id and used_at is null) as backup_codes,
           (select count(*) from devices where user_id = users.id and revoked_at is null) as devices,
           (
               select count(*)
                 from sessions
                where user_id = users.id and revoked_at is null and expires_at > %(now)s and ends_at > %(now)s
                  and exchanged_from is null
           ) as sessions,
           (
               exists (select from profile_fields where org_id is null)
            or exists (
                   select
                     from memberships
                     join profile_fields on profile_fields.org_id = memberships.org_id
                    where memberships.user_id = users.id
               )
            or exists (
                   select
                     from service_users
                     join profile_fields on profile_fields.org_id = service_users.org_id
                    where service_users.user_id = users.id
               )
           ) as has_fields,
           (
               select count(*)
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = users.id
           ) as organizations,
           (
               select count(*)
                 from invitations
                 join organizations on organizations.id = invitations.org_id
                where invitations.email_key = users.email_key and {is_proved()}
                  and invitations.status = 'pending' and invitations.expires_at > %(now)s and organizations.status = 'active'
           ) as invitations,
           (select count(*) from identities where user_id = users.id) as connections,
           (
               select count(*)
                 from (
                          select reason, created_at from login_events where user_id = users.id order by id desc limit 100
                      ) as latest
                where latest.created_at > %(lately)s and latest.reason = any (%(failures)s)
           ) as failed_sign_ins,
           coalesce((
               select jsonb_agg(jsonb_build_array(one.name, extract(epoch from one.due), one.passkey, one.stated) order by one.due)
                 from (
                          select organizations.name,
                                 least(
                                     case when organizations.mfa_required_since is not null
                                          then {grace_ends("organizations.mfa_required_since")} end,
                                     case when of_administrators.asked then {grace_ends("organizations.admin_required_since")} end,
                                     case when of_everybody.asked then {grace_ends("organizations.all_required_since")} end
                                 ) as due,
                                 of_everybody.asked or of_administrators.asked and organizations.admin_factor = 'passkey' as passkey,
                                 exists (
                                     select from sessions where sessions.id = %(session)s::uuid and {stated_factor_counts("sessions")}
                                 ) as stated
                            from memberships
                            join organizations on organizations.id = memberships.org_id
                           cross join lateral (
                                     select organizations.admin_factor is not null and {ADMINISTERS} as asked
                                 ) as of_administrators
                           cross join lateral (
                                     select organizations.all_factor is not null
                                        and must_have_passkey(organizations.all_factor, organizations.all_factor_role_id,
                                                              organizations.id, users.id) as asked
                                 ) as of_everybody
                           where memberships.user_id = users.id
                             and (organizations.mfa_required_since is not null or of_administrators.asked or of_everybody.asked)
                             and organizations.status = 'active'
                           order by due
                           limit %(most_requiring)s
                      ) as one
           ), '[]') as requiring
"""

# The applications that a person may use: those of organizations where they are a member by their own act, and those that they have used. An
# organization that lists somebody puts nothing on their page. Agents sign nobody in, nor does a service without an address to sign in at.
_APPLICATIONS: Final[LiteralString] = f"""
               select jsonb_build_object('name', services.name, 'slug', services.slug, 'organization', organizations.name,
                                         'org_slug', organizations.slug, 'last_used_at', used.last_login_at,
                                         'redirect_uri', services.redirect_uris[1], 'saml', by_saml.is_on) as application
                 from (
                          select service_id from service_users where user_id = %(user)s and last_login_at is not null
                           union
                          select services.id
                            from memberships
                            join services on services.org_id = memberships.org_id
                           where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP}
                      ) as known
                 join services on services.id = known.service_id
                 join organizations on organizations.id = services.org_id and organizations.status = 'active'
                cross join (select %(user)s::uuid as id) as person
                cross join lateral (
                          select exists (select from saml_configurations where service_id = services.id and enabled) as is_on
                      ) as by_saml
                 left join service_users as used on used.service_id = services.id and used.user_id = %(user)s
                where (%(organization)s::text is null or organizations.slug = %(organization)s)
                  and not services.is_agent
                  and (used.last_login_at is not null or services.redirect_uris <> '{{}}' or by_saml.is_on)
                  and {admits("exists (select from memberships where org_id = services.org_id and user_id = person.id)", "person.id")}
                order by used.last_login_at desc nulls last, services.name, services.id
                limit %(most)s"""

# A member who has a role beyond the plainest, or a team with one, has something to do in the console. As long as the person has not said
# yes to the membership, the organization's name stands on the page where they answer, and nowhere else.
_LOOKED_AFTER: Final[LiteralString] = f"""
                 from memberships
                 join organizations on organizations.id = memberships.org_id
                where memberships.user_id = %(user)s and {IS_OWN_MEMBERSHIP}
                  and (organizations.status = 'active' or organizations.status = 'pending' and memberships.role = 'owner')
                  and (memberships.role <> 'member' or exists (
                          select
                            from team_members
                            join teams on teams.id = team_members.team_id and teams.role is not null
                           where team_members.user_id = %(user)s and team_members.org_id = memberships.org_id
                      ))
                order by (memberships.role = 'owner') desc, organizations.name
                limit %(most_places)s
"""
ADMINISTERED_AS_JSON: Final[LiteralString] = f"""array(
               select jsonb_build_object('slug', organizations.slug, 'name', organizations.name, 'waits', organizations.status = 'pending')
                      {_LOOKED_AFTER}
           )"""
_PLACES: Final[LiteralString] = f"""
           array({_APPLICATIONS}
           ) as started,
           {ADMINISTERED_AS_JSON} as administered
"""
_OF_PERSON: Final = " from users where users.id = %(user)s"
_FIND: Final[LiteralString] = f"{_SUMMARY} {_OF_PERSON}"
_START: Final[LiteralString] = f"{_SUMMARY}, {_PLACES} {_OF_PERSON}"
