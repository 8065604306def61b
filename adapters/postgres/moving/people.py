"""The users of an organization that moves: who they are in the file, and who they become here."""

from typing import Final, Literal, LiteralString
from uuid import UUID

import msgspec

from adapters.postgres.identity.accounts import lock_waits
from adapters.postgres.identity.addresses import is_proved, nobody_knows
from adapters.postgres.moving.what_moves import TIME, Row
from core.domain.errors import BadRequest
from core.domain.identity.profiles import OwnProfileChange
from core.domain.languages import Language
from core.domain.platform.moving import UnfitFile
from core.frozen import Frozen

# Columns of an account that arrive with people who are trusted.
OWN_COLUMNS: Final = (
    *("email_verified_at", "password_hash", "password_changed_at", "name", "given_name", "family_name", "language", "zoneinfo"),
    *("profile_updated_at", "picture_id"),
)
# What the file says of everybody, beside `id` and `email`.
COLUMNS: Final = (
    *("id", "email", "created_at", "is_own", "made_by_directory", "origin_service_id", "deactivated_by", "is_locked"),
    "has_passkey_as_second_factor",
    *OWN_COLUMNS,
)

TIMES: Final = ("created_at", "email_verified_at", "password_changed_at", "profile_updated_at")


class ArrivingPerson(Frozen, kw_only=True):
    """A person as the file has them: the columns above, in their types.

    The file has the members, the users of the organization's applications, and those whom its directory knows. It has the email address of
    everybody, and what is the user's own only of users with a confirmed tie whose address is verified. Nothing of the kind leaves of a
    platform owner, nor of a user who is being erased.
    """

    id: UUID
    email: str
    created_at: TIME
    is_own: bool
    made_by_directory: bool
    origin_service_id: UUID | None
    deactivated_by: Literal["organization", "platform"] | None
    is_locked: bool
    has_passkey_as_second_factor: bool
    email_verified_at: TIME | None
    password_hash: str | None
    password_changed_at: TIME | None
    name: str | None
    given_name: str | None
    family_name: str | None
    language: Language | None
    zoneinfo: str | None
    profile_updated_at: TIME | None
    picture_id: UUID | None

    def require_names(self) -> None:
        """Raises `BadRequest` unless the names are as the person's own page would keep them."""
        change = OwnProfileChange(name=self.name, given_name=self.given_name, family_name=self.family_name)
        if change.checked(lambda _zone: True) != change:
            raise BadRequest("name, given_name, family_name: must be as they are kept")


def read(row: Row) -> ArrivingPerson:
    """Raises `UnfitFile`."""
    try:
        return msgspec.json.decode(msgspec.json.encode(row), type=ArrivingPerson)
    except (msgspec.DecodeError, RecursionError) as fault:
        column = str(fault).rpartition("`$.")[2].removesuffix("`") if "`$." in str(fault) else ""
        raise UnfitFile(f"{column or 'it'}: is not of the form that it must have") from None


LEAVING: Final[LiteralString] = f"""
    create temporary table leaving_people on commit drop as
    select users.id,
           {is_proved()} and not users.is_platform_owner
           and (
                   exists (select from memberships where org_id = %(organization)s and user_id = users.id and own_since is not null)
                or exists (select from service_users where org_id = %(organization)s and user_id = users.id and own_since is not null)
           ) as is_own
      from users
     where users.id in (
               select user_id from memberships where org_id = %(organization)s
                union
               select user_id from service_users where org_id = %(organization)s
                union
               select user_id from provisioned_users where org_id = %(organization)s
           )
       and users.anonymized_at is null
       and not exists (select from privacy_requests where privacy_requests.user_id = users.id)
"""

_OWN: Final = ", ".join(f"case when people.is_own then users.{column} end as {column}" for column in OWN_COLUMNS)
# The lock is the person's own, as their passkeys are.
_LOCKED: Final[LiteralString] = f"(people.is_own and {lock_waits()} is true)"

ROWS: Final[LiteralString] = f"""
    select row_to_json(row)::text
      from (
               select users.id, users.email, users.created_at, people.is_own,
                      users.origin_org_id is not distinct from %(organization)s::uuid
                      and not exists (select from held_accounts where held_accounts.user_id = users.id) as made_by_directory,
                      case when users.origin_service_id in (
                               select id from all_services where org_id = %(organization)s::uuid and deleted_at is null
                           )
                           then users.origin_service_id
                      end as origin_service_id,
                      case when users.deactivated_at is null or {_LOCKED} and users.deactivated_at = users.locked_at then null
                           when users.deactivated_by_org_id = %(organization)s::uuid then 'organization'
                           else 'platform'
                      end as deactivated_by,
                      {_LOCKED} as is_locked,
                      people.is_own and exists (
                          select from passkeys where passkeys.user_id = users.id and passkeys.second_factor_since is not null
                      ) as has_passkey_as_second_factor,
                      {_OWN}
                 from leaving_people as people
                 join users on users.id = people.id
           ) as row
     order by row.id
"""

ARRIVING: Final[LiteralString] = """
    create temporary table arriving_users on commit drop as
    select 0::bigint as place, id, email, email_key, created_at, false as is_own, false as made_by_directory, origin_service_id,
           ''::text as deactivated_by, false as is_locked, false as has_passkey_as_second_factor,
           email_verified_at, password_hash, password_changed_at, name, given_name, family_name, language, zoneinfo,
           profile_updated_at, picture_id
      from users
      with no data
"""

# An account is recognised by its address alone. An id that somebody has or had here means somebody else, so that person gets another.
WHO_IS_WHO: Final[LiteralString] = """
    create temporary table arriving_people on commit drop as
    select row.id as old,
           coalesce(known.id, case when taken.id is null then row.id else gen_random_uuid() end) as new,
           known.id is not null as is_known,
           known.id is null and row.is_own and %(trusted)s::boolean as is_trusted
      from arriving_users as row
      left join users as known on known.email_key = row.email_key
      left join lateral (
               select id from users where users.id = row.id
                union all
               select user_id from privacy_requests where privacy_requests.user_id = row.id
                limit 1
           ) as taken on true
"""

# In the order of their ids, as everywhere. Those whom nobody has proved are changed afterwards, so their lock is the stronger one. The file
# was read meanwhile, so the count is of accounts that are gone, or have another address.
HOLD: Final[LiteralString] = """
    select (select count(*) from arriving_people where is_known) - count(*) as count
      from (
               select users.id
                 from arriving_people as people
                 join arriving_users as row on row.id = people.old
                 join users on users.id = people.new and users.email_key = row.email_key
                where people.is_known
                order by users.id
                  for key share of users
           ) as held
"""
UNPROVED: Final[LiteralString] = f"""
    select id
      from users
     where id in (select new from arriving_people where is_known) and {nobody_knows()} and deactivated_at is null
     order by id
"""

# Somebody with a second factor that cannot come along would be left with the password alone. A passkey that an account here has stays
# with that account.
UNDERMINED: Final[LiteralString] = """
    row.has_passkey_as_second_factor
    and not exists (select from arriving_mfa_secrets as factor where factor.user_id = row.id)
    and not (
        %(same_relying_party)s::boolean
        and exists (
            select
              from arriving_passkeys as factor
             where factor.user_id = row.id and factor.second_factor_since is not null
               and not exists (select from passkeys where passkeys.credential_id = factor.credential_id or passkeys.id = factor.id)
        )
    )
"""

ADD: Final[LiteralString] = f"""
    insert into users (id, email, email_key, created_at, updated_at, email_verified_at, password_hash, password_changed_at, name,
                       given_name, family_name, language, zoneinfo, profile_updated_at, picture_id)
    select people.new, row.email, row.email_key, case when is_trusted then row.created_at else now() end, now(),
           case when is_trusted then row.email_verified_at end,
           case when is_trusted and not ({UNDERMINED}) then row.password_hash end,
           case when is_trusted then row.password_changed_at end, case when is_trusted then row.name end,
           case when is_trusted then row.given_name end, case when is_trusted then row.family_name end,
           case when is_trusted then row.language end, case when is_trusted then row.zoneinfo end,
           case when is_trusted then row.profile_updated_at end,
           case when is_trusted and exists (
                    select from arriving_pictures as picture where picture.id = row.picture_id and picture.user_id = row.id
                )
                then row.picture_id
           end
      from arriving_users as row
      join arriving_people as people on people.old = row.id
     where not people.is_known
     order by people.new
"""

# After the organization and its services are there. Of people who are not trusted, a deactivation ends when they prove their address:
# otherwise a file could keep anybody out who has no account here yet. A lock goes on from its moment, so that the person is asked about
# what was added shortly before it. Of people who are not trusted, nothing of that has come along.
_LOCKS: Final = "(row.is_locked and people.is_trusted)"
_LOCKED_AT: Final = "coalesce(users.password_changed_at, now())"
BIND: Final[LiteralString] = f"""
    update users
       set origin_org_id = case when row.made_by_directory then %(organization)s::uuid end,
           origin_service_id = (select id from arriving_all_services as service where service.id = row.origin_service_id),
           deactivated_by_org_id = case
               when row.deactivated_by = 'organization' or row.deactivated_by is not null and not people.is_trusted
                   then %(organization)s::uuid
           end,
           deactivated_at = case when row.deactivated_by is not null then now() when {_LOCKS} then {_LOCKED_AT} end,
           locked_at = case when {_LOCKS} then {_LOCKED_AT} end,
           password_changed_at = case when {_LOCKS} then {_LOCKED_AT} else users.password_changed_at end,
           password_hash = case when not {_LOCKS} then users.password_hash end
      from arriving_users as row
      join arriving_people as people on people.old = row.id and not people.is_known
     where users.id = people.new
       and (row.made_by_directory or row.origin_service_id is not null or row.deactivated_by is not null or row.is_locked)
"""

COUNT: Final[LiteralString] = """
    select count(*) filter (where not is_known) as new, count(*) filter (where is_known) as known,
           count(*) filter (where new <> old) as renamed
      from arriving_people
"""
TO_CHOOSE: Final[LiteralString] = """
    select count(*) as count
      from arriving_people as people
      join users on users.id = people.new
     where people.is_trusted and users.password_hash is null
"""
# The report: everybody by their ids, in parts.
WHO: Final[LiteralString] = """
    select old, new, is_known from arriving_people where old > %(after)s::uuid and (new <> old or not %(changed)s::boolean)
     order by old limit %(most)s
"""

# Whoever becomes the owner here by a tie that they did not make may decline the ownership, and there is nobody to give it back to.
UNCONFIRMED: Final[LiteralString] = """
    insert into ownerships (org_id, membership_id, former_role, since)
    select org_id, id, 'member', now()
      from memberships
     where org_id = %(organization)s::uuid and role = 'owner' and own_since is null
"""
# Those who have had an account here, and in whose name things happen from now on.
NAMED: Final[LiteralString] = """
    select users.email,
           exists (
               select from memberships where org_id = %(organization)s::uuid and user_id = users.id and role = 'owner'
           ) as owns,
           (
               select count(*) from management_keys where org_id = %(organization)s::uuid and created_by = users.id and expires_at > now()
           ) as keys
      from arriving_people as people
      join users on users.id = people.new
     where people.is_known
       and (
               exists (select from memberships where org_id = %(organization)s::uuid and user_id = users.id and role = 'owner')
            or exists (
                   select
                     from management_keys
                    where org_id = %(organization)s::uuid and created_by = users.id and expires_at > now()
               )
           )
     order by owns desc, users.id
"""
