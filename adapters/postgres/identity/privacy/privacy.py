"""The data about a person in PostgreSQL: read for an export, and anonymized."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from msgspec import convert
from psycopg.errors import UniqueViolation

from adapters.postgres.columns import Columns, IdRow
from adapters.postgres.identity.accounts import ACCOUNT, profile_of
from adapters.postgres.identity.addresses import is_proved
from adapters.postgres.identity.factors.mfa import grace_is_over, second_factor_due_in
from adapters.postgres.identity.privacy.forgetting import AT_ONCE, CREDENTIALS, HOLDS, NOBODY, TIES
from adapters.postgres.identity.privacy.parts import GOING, LOGIN, SELECTED
from adapters.postgres.identity.sessions.parts import is_kept_out
from adapters.postgres.record.events import PURGED
from adapters.postgres.statements import OnStatements, first, first_made
from adapters.postgres.ties import IS_OWN_MEMBERSHIP, IS_UNCONFIRMED_OWNER, has_come
from core.domain.identifiers import LoginEventId, OrganizationId, PrivacyRequestId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.privacy import (
    MOST_AT_ONCE,
    MOST_LISTED,
    PAGE,
    Belonging,
    Export,
    ExportedBlockedClient,
    ExportedConsent,
    ExportedDevice,
    ExportedFactorEvent,
    ExportedFields,
    ExportedIdentity,
    ExportedLogin,
    ExportedManagementKey,
    ExportedOwnProfile,
    ExportedPasskey,
    ExportedPersonThere,
    ExportedProfile,
    ExportedServiceRole,
    ExportedTerms,
    ExportedUserKey,
    PrivacyRequest,
    PrivacyRequester,
    Scope,
    Subject,
    exported_belongings,
    shown_since,
)
from core.domain.identity.profiles import HeldProfile, Picture
from core.domain.mail import Email
from core.domain.record.audit import FORGOTTEN_ADDRESS, FORGOTTEN_USER_AGENT
from core.frozen import Frozen
from ports.identity.accounts import PlaceholderTaken

PRIVACY_REQUEST: Final = Columns(PrivacyRequest, "privacy_requests", named={"user": "user_id"}, prefix="request_")


def _subject(columns: dict[str, Any]) -> Subject:
    """Takes the columns of the account. The rest stays in `columns`."""
    return Subject(
        account=ACCOUNT.taken(columns),
        belongings=convert(columns["belongings"], list[Belonging]),
        asker_governs=columns["asker_governs"],
        is_held_elsewhere=columns["is_held_elsewhere"],
        request=PRIVACY_REQUEST.taken_or_none(columns),
    )


def _found(**columns: Any) -> Subject:
    return _subject(columns)


def _exported(**columns: Any) -> tuple[Subject, Mapping[str, Any]]:
    return _subject(columns), columns


def _export(subject: Subject, scope: Scope, columns: Mapping[str, Any]) -> Export:
    return Export(
        account=subject.account,
        created_at=shown_since(subject, scope),
        belongings=exported_belongings(subject, scope),
        login_events=columns["login_events"],
        mfa_events=convert(columns["mfa_events"], list[ExportedFactorEvent]),
        management_keys=convert(columns["management_keys"], list[ExportedManagementKey]),
        user_keys=convert(columns["user_keys"], list[ExportedUserKey]),
        passkeys=convert(columns["passkeys"], list[ExportedPasskey]),
        consents=convert(columns["consents"], list[ExportedConsent]),
        terms=convert(columns["terms"], list[ExportedTerms]),
        blocked_clients=convert(columns["blocked_clients"], list[ExportedBlockedClient]),
        devices=convert(columns["devices"], list[ExportedDevice]),
        own_profile=_own_profile(subject.account, **columns) if scope.is_whole else None,
        profiles=convert(columns["profiles"], list[ExportedProfile]),
        people_there=convert(columns["people_there"], list[ExportedPersonThere]),
        service_roles=convert(columns["service_roles"], list[ExportedServiceRole]),
        fields=[_fields(one) for one in columns["fields"]],
        metadata={ServiceId(UUID(one["service"])): one["metadata"] for one in columns["metadata"]},
        identities=convert(columns["identities"], list[ExportedIdentity]),
    )


def _own_profile(account: Account, *, told: list[Any] | None, picture: Mapping[str, str] | None, **_columns: object) -> ExportedOwnProfile:
    shown = None if picture is None else Picture(picture["type"], b64decode(picture["content"]))
    return ExportedOwnProfile(HeldProfile(profile_of(told), account.language), shown)


def _login(*, login: Mapping[str, Any]) -> ExportedLogin:
    return convert({**login, "risk_score": round(login["risk_score"], 2)}, ExportedLogin)


class PrivacyRows(OnStatements):
    """Implements `ports.identity.accounts.PrivacyStore`."""

    async def export(
        self, user: UserId, asker: PrivacyRequester, at: datetime, most: int
    ) -> tuple[Subject, Export, Sequence[ExportedLogin]] | None:
        parameters = {**_asking(user, asker, at), "limit": min(PAGE, most), "most_listed": MOST_LISTED}
        rows = await self._statements.ask(_exported, EXPORT, parameters)
        if not rows:
            return None
        ((subject, columns),) = rows
        whole = subject.asker_governs or subject.account.id == asker.user
        scope = Scope(None if whole else [one.organization for one in subject.askers])
        if not (whole or subject.askers):
            # The asker may see nothing, so the statement has read no records.
            return subject, _nothing(subject.account), ()
        return subject, _export(subject, scope, columns), [_login(login=one) for one in columns["logins"]]

    async def logins(self, user: UserId, scope: Scope, before: LoginEventId, limit: int) -> Sequence[ExportedLogin]:
        organizations = list(scope.organizations or ())
        parameters = {"user": user, "whole": scope.is_whole, "organizations": organizations, "before": before, "limit": limit}
        return await self._statements.ask(_login, LOGINS, parameters)

    async def request(self, request: PrivacyRequestId) -> PrivacyRequest | None:
        return first(await self._statements.ask(PRIVACY_REQUEST.row, _REQUEST, {"id": request}))

    async def user(self, email: Email) -> UserId | None:
        return first_made(
            await self._statements.ask(IdRow, "select id from users where email_key = %(email_key)s", {"email_key": email.key}),
            lambda row: UserId(row.id),
        )

    async def find_for_update(self, user: UserId, asker: PrivacyRequester, at: datetime) -> Subject | None:
        await self._statements.tell(_HOLD, {"user": user})
        return first(await self._statements.ask(_found, _SUBJECT, _asking(user, asker, at)))

    async def anonymize(self, request: PrivacyRequest, placeholder: Email) -> None:
        parameters = {
            "user": request.user,
            "target": str(request.user),
            "request": request.id,
            "by": request.requested_by,
            "until": request.requested_at,
            "limit": MOST_AT_ONCE,
        }
        for statement in (PURGED, *HOLDS, *CREDENTIALS):
            await self._statements.tell(statement, parameters)
        rows = await self._statements.ask(_Keys, REMEMBER, parameters)
        known = {**parameters, "keys": rows[0].email_keys}
        for statement in AT_ONCE:
            await self._statements.tell(statement, known)
        await self._statements.tell(_NOTE, parameters)
        try:
            await self._statements.ask(IdRow, _ANONYMIZE, {**parameters, "email": placeholder.address, "email_key": placeholder.key})
        except UniqueViolation:
            raise PlaceholderTaken from None


class _Keys(Frozen):
    email_keys: list[str]


def _nothing(account: Account) -> Export:
    return Export(
        account=account,
        created_at=account.created_at,
        belongings=(),
        login_events=0,
        mfa_events=(),
        management_keys=(),
        user_keys=(),
        passkeys=(),
        consents=(),
        terms=(),
        blocked_clients=(),
        devices=(),
        own_profile=None,
        people_there=(),
        profiles=(),
        service_roles=(),
        fields=(),
        metadata={},
        identities=(),
    )


def _fields(one: Mapping[str, Any]) -> ExportedFields:
    keeper = one["organization"]
    return ExportedFields(None if keeper is None else OrganizationId(UUID(keeper)), one["values"])


def _asking(user: UserId, asker: PrivacyRequester, at: datetime) -> Mapping[str, Any]:
    return {
        "user": user,
        "asker": asker.user,
        "operates": bool(asker.operator),
        "asking_organization": asker.organization,
        "asking_session": asker.session,
        "at": at,
    }


# The lock is as strong as a deletion's from the start. Otherwise this transaction would begin with a weaker lock, and would have to wait
# for other transactions that hold the weaker lock, too, before it gets the strong one.
_HOLD: Final = "select from users where id = %(user)s for update"

# A condition on `organizations`: the asker owns the organization, the organization is active, the asker has satisfied its sign-in rules in
# this session, and its rules for risk let the session in.
_IS_THE_ASKERS: Final[LiteralString] = f"""
           organizations.status = 'active'
       and (%(asking_organization)s::uuid is null or organizations.id = %(asking_organization)s)
       and exists (
               select from memberships as own
                where own.org_id = organizations.id and own.user_id = %(asker)s::uuid and own.role = 'owner'
           )
       and not (
               select {grace_is_over(second_factor_due_in("organizations.id", "%(asker)s::uuid", "asking"), "%(at)s")}
                 from (values (true)) as this (request)
                 left join sessions as asking on asking.id = %(asking_session)s::uuid
           )
       and (organizations.session_hours is null or exists (
               select from sessions
                where sessions.id = %(asking_session)s::uuid
                  and coalesce(sessions.proved_at, sessions.created_at) + organizations.session_hours * interval '1 hour' > %(at)s
           ))
       and not exists (select from sessions where sessions.id = %(asking_session)s::uuid and {is_kept_out()})
"""

_PERSON: Final[LiteralString] = f"""
    with person as (
             select * from users where id = %(user)s
         ),
         belonging as (
             select organizations.id, organizations.slug, memberships.role, memberships.created_at as joined_at,
                    {IS_OWN_MEMBERSHIP} as is_own, {IS_UNCONFIRMED_OWNER} as is_unconfirmed_owner,
                    memberships.role = 'owner' and organizations.status = 'suspended' as is_owner_of_suspended,
                    coalesce({_IS_THE_ASKERS}, false) as is_the_askers,
                    memberships.came_by = 'created' or person.origin_org_id is not distinct from organizations.id as made_the_account,
                    exists (
                        select from service_users
                         where service_users.user_id = person.id and service_users.org_id = organizations.id
                           and {has_come()}
                    ) as has_been_there
               from person
               join memberships on memberships.user_id = person.id
               join organizations on organizations.id = memberships.org_id
         ),
         allowed as (
             select %(operates)s::boolean or exists (
                        select from users where users.id = %(asker)s::uuid and is_platform_owner and deactivated_at is null
                    ) as asker_governs
         )
"""

_SUBJECT_COLUMNS: Final[LiteralString] = f"""
           (
               select coalesce(
                          jsonb_agg(
                              jsonb_build_object(
                                  'organization', belonging.id, 'organization_slug', slug, 'role', role, 'joined_at', joined_at,
                                  'is_own', is_own, 'is_the_askers', is_the_askers, 'made_the_account', made_the_account,
                                  'knows_the_account', is_own or made_the_account or has_been_there,
                                  'is_unconfirmed_owner', is_unconfirmed_owner, 'is_owner_of_suspended', is_owner_of_suspended,
                                  'teams', array(
                                      select teams.slug
                                        from team_members
                                        join teams on teams.id = team_members.team_id
                                       where team_members.user_id = %(user)s and team_members.org_id = belonging.id
                                       order by teams.slug
                                  )
                              )
                              order by joined_at, belonging.id
                          ),
                          '[]'
                      )
                 from belonging
           ) as belongings,
           allowed.asker_governs,
           exists (
               select
                 from ({TIES}) as ties
                 join organizations on organizations.id = ties.org_id
                where ties.has_come and not coalesce({_IS_THE_ASKERS}, false)
                  and not (
                          coalesce(%(asker)s::uuid = %(user)s, false) and ties.service_id is null
                          and organizations.id in (select belonging.id from belonging where belonging.is_unconfirmed_owner)
                      )
           ) as is_held_elsewhere,
           {PRIVACY_REQUEST.names}
"""

_FROM: Final = """
      from person as users
     cross join allowed
      left join privacy_requests on privacy_requests.user_id = users.id
"""

_SUBJECT: Final[LiteralString] = f"{_PERSON} select {ACCOUNT.names}, {_SUBJECT_COLUMNS} {_FROM}"

EXPORT: Final[LiteralString] = f"""
    {_PERSON},
         scope as (
             select allowed.asker_governs or coalesce(%(asker)s::uuid = %(user)s, false) as whole,
                    array(select id from belonging where is_the_askers) as organizations
               from allowed
         ),
         page as (
             select login_events.*
               from scope
              cross join lateral (
                        select *
                          from login_events
                         where user_id = %(user)s and (scope.whole or organization_id = any (scope.organizations))
                         order by id desc
                         limit %(limit)s
                    ) as login_events
         )
    select {_SUBJECT_COLUMNS}, {SELECTED}
    {_FROM}
"""

LOGINS: Final[LiteralString] = f"""
    select {LOGIN} as login
      from (
               select *
                 from login_events
                where user_id = %(user)s and id < %(before)s and (%(whole)s or organization_id = any (%(organizations)s::uuid[]))
                order by id desc
                limit %(limit)s
           ) as page,
           {GOING}
     order by id desc
"""

_REQUEST: Final[LiteralString] = f"select {PRIVACY_REQUEST.names} from privacy_requests where id = %(id)s"

# The request remembers the person's current and pending address, if the current address is proved, and the addresses of invitations that
# the person has accepted. Addresses that the person has given up are left out: `former_addresses` has those, and says until when each one
# counts.
#
# Each address is kept as its key and as it was written, because texts contain the written form: an internationalized domain is written
# differently from its key.
#
# An unproved address may be anybody's: the things that others have sent to it, or keep about it, are not about the person who goes.
# Otherwise anybody could register another person's address, ask to be forgotten, and so end other tenants' invitations to that address.
#
# `NOBODY` replaces forgotten addresses. It is left out, because each search for it would find the rows that are already changed.
REMEMBER: Final[LiteralString] = f"""
    insert into privacy_requests (id, user_id, requested_by, requested_at, email_keys)
    select %(request)s, id, %(by)s, %(until)s,
           array(
               select distinct key
                 from (
                          select unnest(array[users.email_key, users.pending_email_key, lower(users.email), lower(users.pending_email)])
                           where {is_proved()}
                           union all
                          select unnest(array[invitations.email_key, lower(invitations.email)])
                            from audit_entries
                            join invitations on invitations.id = (audit_entries.details ->> 'invitation_id')::uuid
                           where audit_entries.target_type = 'user' and audit_entries.target_id = %(target)s
                             and audit_entries.action = 'user.joined'
                             and not exists (
                                     select
                                       from former_addresses
                                      where former_addresses.user_id = users.id and former_addresses.email_key = invitations.email_key
                                 )
                      ) as known (key)
                where key <> '{NOBODY}'
           )
      from users
     where id = %(user)s
 returning email_keys
"""

# The API requires this event among the person's events.
_NOTE: Final[LiteralString] = f"""
    insert into mfa_events (id, user_id, name, success, address, user_agent, created_at)
    values (%(request)s, %(user)s, 'user_anonymized', true, '{FORGOTTEN_ADDRESS}', '{FORGOTTEN_USER_AGENT}', %(until)s)
"""

_ANONYMIZE: Final = """
    update users
       set email = %(email)s, email_key = %(email_key)s, pending_email = null, pending_email_key = null, password_hash = null,
           email_verified_at = null, language = null, deactivated_at = coalesce(deactivated_at, %(until)s),
           deactivated_by_org_id = null, locked_at = null, anonymized_at = %(until)s, updated_at = %(until)s
     where id = %(user)s
 returning id
"""
