"""Accounts in PostgreSQL, with profiles, pictures and summaries."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.errors import UniqueViolation

from adapters.postgres.columns import AnswerRow, Columns, IdRow, storable_text
from adapters.postgres.identity.addresses import is_proved, nobody_knows, proved_domains
from adapters.postgres.identity.factors.mfa import ADMINISTERS, grace_ends, second_factor_since, stated_factor_counts
from adapters.postgres.identity.privacy.forgetting import HANDED_OVER, HOLDS, NEVER_USED, NOBODYS, PROFILE
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.statements import OnPool, OnStatements, OnTransaction, ask, first, first_made, only
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from core.domain.errors import BadRequest
from core.domain.identifiers import IdentityId, OrganizationId, PasskeyId, PictureId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import (
    MOST_REQUIRING,
    MOST_STARTED,
    Account,
    AccountSummary,
    AdministeredOrganization,
    RequiringOrganization,
    StartedApplication,
    StartingPlaces,
    origin_of,
)
from core.domain.identity.profiles import NO_PROFILE, HeldProfile, OwnProfile, Picture
from core.domain.identity.proofs import WaysIn
from core.domain.identity.risk import FAILED_ATTEMPTS
from core.domain.identity.upstream.claims import Voucher
from core.domain.languages import Language
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen

ACCOUNT: Final = Columns(
    Account,
    "users",
    apart=("deactivated_by", "locked_at", "lock_waits", "password_changed_at"),
    turned={"language": (Language.of, attrgetter("value")), "address_vouched_by": (Voucher.of, attrgetter("text"))},
)
# For statements that must know who has deactivated the account: whether a proof of the address, or a directory, may activate it again.
ACCOUNT_AND_WHO_DEACTIVATED: Final[LiteralString] = f"{ACCOUNT.names}, users.deactivated_by"
# The same condition as `Account.opens_by_proof`.
OPENS_BY_PROOF: Final = "users.deactivated_by is not null"


def is_locked(row: LiteralString = "users") -> LiteralString:
    """The same condition as `Account.is_locked`, on a row of `users`."""
    return f"{row}.deactivated_at = {row}.locked_at"


def lock_waits(row: LiteralString = "users") -> LiteralString:
    """The lock of a row of `users` waits for its answer. A lock sets both moments, and whatever answers it moves the second."""
    return f"({row}.deactivated_at is not null and {row}.locked_at = {row}.password_changed_at)"


# For those that must know whether it is locked.
ACCOUNT_AND_LOCK: Final[LiteralString] = f"{ACCOUNT_AND_WHO_DEACTIVATED}, users.locked_at, {lock_waits()} is true as lock_waits"
# Ends the deactivation by an organization's directory. It may have come over a lock, which goes on.
LIFTED: Final = "deactivated_at = case when locked_at = password_changed_at then locked_at end, deactivated_by_org_id = null"


_NO_WAYS_IN: Final = WaysIn(password=False, passkeys=0, identities=0)


class AccountRows(OnTransaction):
    """Implements `ports.identity.accounts.AccountStore` in one transaction."""

    async def add(
        self,
        account: Account,
        password_hash: str | None,
        origin: ServiceId | None = None,
        *,
        origin_organization: OrganizationId | None = None,
        registered_in: bytes | None = None,
    ) -> bool:
        added = await self._transaction.ask(
            IdRow,
            _ADD,
            {
                **ACCOUNT.values(account),
                "email_key": account.email.key,
                "password_hash": password_hash,
                "origin": origin,
                "origin_organization": origin_organization,
                "registered_in": registered_in,
            },
        )
        return bool(added)

    async def open_by_proof(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _OPEN_BY_PROOF, {"user": user, "at": at}))

    async def forget_holder(self, user: UserId) -> None:
        for statement in (*HOLDS, *HANDED_OVER):
            await self._transaction.tell(statement, {"user": user})

    async def find(self, email: Email) -> Account | None:
        return first(await self._transaction.ask(ACCOUNT.row, _FIND, {"email_key": email.key}))

    async def hold(self, user: UserId) -> None:
        # Nobody reads the answer of this statement, so the statement travels with the next one.
        await self._transaction.tell(_HOLD, {"user": user})

    async def hold_to_move(self, user: UserId) -> None:
        await self._transaction.tell(_HOLD_TO_MOVE, {"user": user})

    async def hold_shared(self, user: UserId) -> None:
        await self._transaction.tell(_HOLD_SHARED, {"user": user})

    async def ways_in(self, user: UserId) -> WaysIn:
        return first(await self._transaction.ask(WaysIn, _WAYS_IN, {"user": user})) or _NO_WAYS_IN

    async def other_ways_in(self, user: UserId, email: Email, *, but: PasskeyId | IdentityId, shared: Collection[str]) -> WaysIn:
        whose = {"user": user, "email_key": storable_text(email.key), "mail_domain": storable_text(mail_domain(email))}
        return first(await self._transaction.ask(WaysIn, _OTHER_WAYS_IN, {**whose, "but": but, "shared": list(shared)})) or _NO_WAYS_IN

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        return first(await self._transaction.ask(ACCOUNT.row, _VERIFY_EMAIL, {"user": user, "email_key": email.key, "at": at}))

    async def is_nobodys(self, user: UserId) -> bool:
        rows = await self._transaction.ask(AnswerRow, NOBODYS, {"user": user})
        return bool(rows) and rows[0].yes

    async def hold_unproved(self, now: datetime, retention: timedelta, after: datetime | None, limit: int) -> Sequence[Account]:
        parameters = {"now": now, "retention": retention, "after": after, "limit": limit}
        accounts = await self._transaction.ask(ACCOUNT.row, HOLD_UNPROVED, parameters)
        return sorted(accounts, key=lambda account: (account.created_at, account.id))

    async def never_used(self, users: Collection[UserId], now: datetime) -> Sequence[UserId]:
        return [UserId(row.id) for row in await self._transaction.ask(IdRow, NEVER_USED, {"users": list(users), "now": now})]

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        return only(await self._transaction.ask(AnswerRow, _EMAIL_IS_TAKEN, {"email_key": email.key, "user": user})).yes

    async def await_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        parameters = {"user": user, "email": email.address, "email_key": email.key, "at": at}
        return first(await self._transaction.ask(ACCOUNT.row, _AWAIT_EMAIL, parameters))

    async def withdraw_email(self, user: UserId, at: datetime) -> None:
        await self._transaction.tell(_WITHDRAW_EMAIL, {"user": user, "at": at})

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        try:
            changed = await self._transaction.ask(ACCOUNT.row, _CHANGE_EMAIL, {"user": user, "email": email.address, "at": at})
        except UniqueViolation:
            raise BadRequest("This e-mail address cannot be used", words="email_unusable") from None
        return first(changed)

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        return {account.id: account for account in await self._transaction.ask(ACCOUNT.row, _FIND_ALL, {"users": list(users)})}

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _DEACTIVATE, {"user": user, "at": at}))

    async def activate(self, user: UserId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _ACTIVATE, {"user": user, "at": at}))


# Of two transactions that add the same e-mail address at once, the second waits for the first's commit and then adds nothing. A service or
# an organization that is being deleted at this moment does not become the origin. `origin_org_id` says who made the account: see
# `privacy/forgetting.py`. No other statement writes it, except to clear it.
_ADD: Final = """
    insert into users (id, email, email_key, password_hash, is_platform_owner, email_verified_at, address_vouched_by, deactivated_at,
                       origin_service_id, origin_org_id, registered_in, created_at, updated_at, language)
    values (%(id)s, %(email)s, %(email_key)s, %(password_hash)s, %(is_platform_owner)s, %(email_verified_at)s,
            %(address_vouched_by)s, %(deactivated_at)s,
            (select services.id from services where services.id = %(origin)s for key share),
            (select organizations.id from organizations where organizations.id = %(origin_organization)s for key share), %(registered_in)s,
            %(created_at)s, %(created_at)s, %(language)s)
        on conflict (email_key) do nothing
 returning id
"""

_OPEN_BY_PROOF: Final[LiteralString] = f"""
    update users
       set deactivated_at = null, deactivated_by_org_id = null, origin_org_id = null, origin_service_id = null, updated_at = %(at)s
     where id = %(user)s and {OPENS_BY_PROOF} and {lock_waits()} is not true
 returning id
"""

_FIND: Final[LiteralString] = f"""
    select {ACCOUNT_AND_LOCK}
      from users
     where email_key = %(email_key)s
"""

_FIND_ALL: Final[LiteralString] = f"""
    select {ACCOUNT_AND_LOCK}, users.password_changed_at
      from users
     where id = any(%(users)s)
"""

# The weakest lock that keeps out a second change: other transactions can still add rows that refer to the account.
_HOLD: Final = "select id from users where id = %(user)s for no key update"

_HOLD_TO_MOVE: Final = "select from users where id = %(user)s for update"

_WAYS_IN: Final = """
    select password_hash is not null as password,
           (select count(*) from passkeys where passkeys.user_id = users.id) as passkeys,
           (select count(*) from identities where identities.user_id = users.id) as identities
      from users
     where id = %(user)s
"""

# The statement counts an identity at one of the three shared providers if the installation or an active organization has a client there. It
# counts an identity at an organization's own provider if that provider may vouch for the account: the same condition as `_may_vouch` in
# `upstream/identities.py`.
_OTHER_WAYS_IN: Final[LiteralString] = f"""
    select password_hash is not null as password,
           (select count(*) from passkeys where passkeys.user_id = users.id and passkeys.id <> %(but)s) as passkeys,
           (
               select count(*)
                 from identities
                 left join upstream_providers as providers on providers.id = identities.upstream_provider_id
                 left join organizations on organizations.id = providers.org_id
                where identities.user_id = users.id and identities.id <> %(but)s
                  and (
                          identities.provider = any (%(shared)s::text[])
                       or exists (
                              select
                                from oauth_credentials
                                join organizations as homes on homes.id = oauth_credentials.org_id and homes.status = 'active'
                               where oauth_credentials.provider = identities.provider
                          )
                       or exists (
                              -- With another issuer, or another profile, it knows nobody by the identities of before.
                              select
                                from further_providers as further
                               where further.key = identities.provider and further.enabled
                                 and identities.issuer =
                                     coalesce(nullif(further.settings ->> 'issuer', ''), further.settings ->> 'profile_url')
                          )
                       or (
                              providers.enabled and organizations.status = 'active'
                          and users.email_key = %(email_key)s and not users.is_platform_owner
                          and %(mail_domain)s::text = any ({proved_domains("providers.org_id")}::text[])
                          )
                      )
           ) as identities
      from users
     where id = %(user)s
"""

_HOLD_SHARED: Final = "select from users where id = %(user)s for share"

_VERIFY_EMAIL: Final[LiteralString] = f"""
    update users
       set email_verified_at = coalesce(email_verified_at, %(at)s), registered_in = null, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null and email_key = %(email_key)s
 returning {ACCOUNT.names}
"""

# Skips accounts that somebody holds: whoever proves an address at this moment holds the account, and has their way. A clock that is wrong,
# the process's or the database's, must not end accounts that are young.
HOLD_UNPROVED: Final[LiteralString] = f"""
    select {ACCOUNT.names}
      from users
     where {nobody_knows()} and users.deactivated_at is null and users.origin_org_id is null and not users.is_platform_owner
       and users.created_at < least(%(now)s, now()) - %(retention)s::interval
       and users.created_at > coalesce(%(after)s::timestamptz, '-infinity')
     order by users.created_at
     limit %(limit)s
       for update skip locked
"""

_EMAIL_IS_TAKEN: Final = "select exists (select from users where email_key = %(email_key)s and id <> %(user)s) as yes"

_AWAIT_EMAIL: Final[LiteralString] = f"""
    update users
       set pending_email = %(email)s, pending_email_key = %(email_key)s, updated_at = %(at)s
     where id = %(user)s and deactivated_at is null
 returning {ACCOUNT.names}
"""

_WITHDRAW_EMAIL: Final = """
    update users
       set pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and pending_email is not null
"""

_CHANGE_EMAIL: Final[LiteralString] = f"""
    with before as (
             select {ACCOUNT.names}
               from users
              where id = %(user)s and deactivated_at is null and pending_email = %(email)s
                for no key update
         )
  update users
     set email = pending_email, email_key = pending_email_key, pending_email = null, pending_email_key = null,
         email_verified_at = %(at)s, updated_at = %(at)s
    from before
   where users.id = before.id
returning before.*
"""


# If a directory had deactivated the account, the platform takes the deactivation over, and no directory can activate the account again. A
# lock ends with it: no new password opens the account. Two moments that are equal would be a lock.
_DEACTIVATE: Final[LiteralString] = f"""
    update users
       set deactivated_at = %(at)s, deactivated_by_org_id = null, deactivated_by = null, locked_at = nullif(locked_at, %(at)s),
           pending_email = null, pending_email_key = null, updated_at = %(at)s
     where id = %(user)s and (deactivated_at is null or deactivated_by is not null or {is_locked()})
 returning id
"""

# Whoever lets a locked account in by hand has answered the lock.
_ACTIVATE: Final[LiteralString] = f"""
    update users
       set deactivated_at = null, deactivated_by_org_id = null, updated_at = %(at)s,
           password_changed_at = case when {lock_waits()} then %(at)s else password_changed_at end
     where id = %(user)s and deactivated_at is not null and anonymized_at is null
 returning id
"""


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
        one["initiates_at"],
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
    """Implements `ports.identity.accounts.AccountSummaryLookup`.

    Each number comes from an index of the user's own rows.
    """

    async def find(self, user: UserId, now: datetime, session: SessionId | None = None) -> AccountSummary | None:
        return first(await ask(self._pool, _summary, _ACCOUNT_SUMMARY_FIND, _asked(user, now, session)))

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
                                         'redirect_uri', services.redirect_uris[1], 'saml', by_saml.is_on,
                                         'initiates_at', services.initiate_login_uri) as application
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
_ACCOUNT_SUMMARY_FIND: Final[LiteralString] = f"{_SUMMARY} {_OF_PERSON}"
_START: Final[LiteralString] = f"{_SUMMARY}, {_PLACES} {_OF_PERSON}"


# One column for the whole profile, in any statement that reads `users`. It is null for people who have set nothing, so that the look-up of
# every caller costs them nothing.
AS_JSON: Final = """
           case when users.profile_updated_at is not null then
               jsonb_build_array(
                   users.name, users.given_name, users.family_name, users.username, users.zoneinfo, users.picture_id,
                   extract(epoch from users.profile_updated_at)
               )
           end
"""


def profile_of(told: Sequence[Any] | None) -> OwnProfile:
    """The profile in a column `AS_JSON`."""
    if told is None:
        return NO_PROFILE
    name, given_name, family_name, username, zoneinfo, picture, updated_at = told
    return OwnProfile(
        name=name,
        given_name=given_name,
        family_name=family_name,
        username=username,
        zoneinfo=zoneinfo,
        picture=None if picture is None else PictureId(UUID(picture)),
        updated_at=datetime.fromtimestamp(updated_at, UTC),
    )


class _Held(Frozen):
    told: list[Any] | None
    language: str | None


class ProfileRows(OnStatements):
    """Implements `ports.identity.accounts.ProfileStore`.

    The columns are on the account. `profile_updated_at` is null while nothing was ever set.
    """

    async def find(self, user: UserId) -> HeldProfile | None:
        return first_made(
            await self._statements.ask(_Held, _PROFILE_FIND, {"user": user}),
            lambda row: HeldProfile(profile_of(row.told), Language.of(row.language)),
        )

    async def save(self, user: UserId, profile: HeldProfile, at: datetime) -> None:
        told = profile.profile
        parameters = {
            "user": user,
            "name": told.name,
            "given_name": told.given_name,
            "family_name": told.family_name,
            "username": told.username,
            "zoneinfo": told.zoneinfo,
            "language": profile.language and profile.language.value,
            "at": at,
        }
        await self._statements.tell(_SAVE, parameters)

    async def use_up(self, username_digest: bytes) -> bool:
        return bool(await self._statements.ask_in_order(bytes, _USE_UP, {"digest": username_digest}))

    async def point(self, user: UserId, picture: PictureId | None, at: datetime) -> None:
        await self._statements.tell(_POINT, {"user": user, "picture": picture, "at": at})

    async def forget(self, user: UserId) -> None:
        for statement in PROFILE:
            await self._statements.tell(statement, {"user": user})


_PROFILE_FIND: Final[LiteralString] = f"""
    select {AS_JSON} as told, language
      from users
     where id = %(user)s and deactivated_at is null
"""

_SAVE: Final = """
    update users
       set name = %(name)s, given_name = %(given_name)s, family_name = %(family_name)s, username = %(username)s, zoneinfo = %(zoneinfo)s,
           language = %(language)s, profile_updated_at = %(at)s, updated_at = %(at)s
     where id = %(user)s
"""

_USE_UP: Final = "insert into used_usernames (digest) values (%(digest)s) on conflict do nothing returning digest"

_POINT: Final = "update users set picture_id = %(picture)s, profile_updated_at = %(at)s, updated_at = %(at)s where id = %(user)s"


class PictureRows(OnStatements):
    """Implements `ports.identity.accounts.PictureStore`."""

    async def find(self, picture: PictureId) -> Picture | None:
        return first(await self._statements.ask(Picture, _GET, {"id": picture}))

    async def replace(self, user: UserId, picture: Picture, id: PictureId, at: datetime) -> None:  # noqa: A002 - the noun's own word
        parameters = {"id": id, "user": user, "type": picture.media_type, "content": picture.content, "at": at}
        await self._statements.tell(_REPLACE, parameters)

    async def remove(self, user: UserId) -> bool:
        return bool(await self._statements.ask(IdRow, "delete from pictures where user_id = %(user)s returning id", {"user": user}))


_GET: Final = "select type as media_type, content from pictures where id = %(id)s"

_REPLACE: Final = """
    insert into pictures (id, user_id, type, content, created_at)
    values (%(id)s, %(user)s, %(type)s, %(content)s, %(at)s)
        on conflict (user_id) do update
       set id = excluded.id, type = excluded.type, content = excluded.content, created_at = excluded.created_at
"""
