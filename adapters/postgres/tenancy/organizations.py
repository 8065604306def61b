"""Organizations in PostgreSQL, with their sign-in rules, tier and mail server."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, Columns, IdRow, storable, storable_text
from adapters.postgres.identity.factors.mfa import ADMINISTERS, has_passkey, has_second_factor, second_factor_due
from adapters.postgres.statements import OnPool, OnStatements, ask, first, first_made, only
from adapters.postgres.tenancy.members import MEMBERSHIP, owners
from adapters.postgres.ties import IS_UNCONFIRMED_OWNER
from core.domain.identifiers import MailServerId, OrganizationId, SessionId, TierId, UserId
from core.domain.identity.sessions import LOGOUT_TOPIC
from core.domain.record.event_types import WEBHOOK_TOPIC
from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.tenancy.mail_servers import MailServer
from core.domain.tenancy.organizations import MOST_LISTED, Metadata, Organization, OrganizationOverview
from core.domain.tenancy.siem import SIEM_TOPIC
from core.domain.tenancy.sign_in_rules import AdminFactor, AllFactor, RulesAsked, SignInRules
from core.domain.tenancy.tiers import Tier
from core.frozen import Frozen
from ports.tenancy.organizations import Added, HeldOrganization, HeldRules, RulesReach, SealedMailServer
from ports.tenancy.receivers import Owner

ORGANIZATION: Final = Columns(
    Organization,
    "organizations",
    named={"tier": "tier_id", "owner": "owner_user_id"},
    texts=("name", "rejection_reason", "suspension_reason"),
)
TIER: Final = Columns(Tier, "tiers", prefix="tier_")


def _held(*, member_count: int, owner_governs: bool, **columns: Any) -> HeldOrganization:
    return HeldOrganization(ORGANIZATION.taken(columns), TIER.row(**columns), member_count, owner_governs)


def _overview(*, own_since: datetime | None, role_name: str | None, **columns: Any) -> OrganizationOverview:
    return OrganizationOverview(
        ORGANIZATION.taken(columns),
        MEMBERSHIP.taken(columns, own_since=own_since),
        tier=TIER.taken(columns),
        role_name=role_name or "",
        **columns,
    )


class OrganizationRows(OnStatements):
    """Implements `ports.tenancy.organizations.OrganizationStore`.

    Every statement reads the view `organizations`, which leaves out organizations that are being deleted.
    """

    async def list(self, user: UserId, session: SessionId | None = None) -> Sequence[OrganizationOverview]:
        parameters = {"user": user, "session": session, "most": MOST_LISTED}
        return await self._statements.ask_for_many(_overview, LIST, parameters, lambda row: row)

    async def find(self, organization: OrganizationId, user: UserId) -> OrganizationOverview | None:
        return first(await self._statements.ask(_overview, GET, {"user": user, "session": None, "organization": organization}))

    async def add(self, organization: Organization) -> Added | None:
        return first(await self._statements.ask(Added, _ADD, ORGANIZATION.values(organization)))

    async def hold(self, organization: OrganizationId) -> HeldOrganization | None:
        await self._statements.tell(_HOLD, {"id": organization})
        return first(await self._statements.ask(_held, _FIND_HELD, {"id": organization}))

    async def save(self, organization: Organization) -> None:
        await self._statements.tell(_SAVE, ORGANIZATION.values(organization))
        # An organization that is active again gets what has waited for it.
        for topic in (WEBHOOK_TOPIC, LOGOUT_TOPIC, SIEM_TOPIC):
            self._statements.ring(topic)

    async def save_metadata(self, organization: OrganizationId, metadata: Metadata, at: datetime) -> bool:
        parameters = {"id": organization, "metadata": Jsonb(storable(metadata)), "at": at}
        return bool(await self._statements.ask(IdRow, _SAVE_METADATA, parameters))

    async def delete(self, organization: OrganizationId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _DELETE, {"id": organization, "at": at}))


# While an organization is being deleted, its slug is free again: the unique index covers only the others.
_ADD: Final[LiteralString] = f"""
    insert into all_organizations ({ORGANIZATION.into()}) values ({ORGANIZATION.inserted()})
        on conflict (slug) where deleted_at is null do nothing
 returning (select count(*) from organizations where owner_user_id = %(owner)s and status = 'pending') as waiting,
           (select count(*) from organizations where owner_user_id = %(owner)s) as owned
"""

# The lock is a separate statement. So the next statement sees what others committed while this one waited, including a change of tier.
# The lock is the weakest one that works: other transactions can meanwhile add sessions and events that refer to the organization.
_HOLD: Final = "select from organizations where id = %(id)s for no key update"

_FIND_HELD: Final[LiteralString] = f"""
    select {ORGANIZATION.names},
           {TIER.names}, organizations.member_count,
           exists (select from users where users.id = organizations.owner_user_id and users.is_platform_owner) as owner_governs
      from organizations
      join tiers on tiers.id = organizations.tier_id
     where organizations.id = %(id)s
"""

# Counting an organization's services is cheap, because the number of services is limited.
_OVERVIEW: Final[LiteralString] = f"""
           {ORGANIZATION.names},
           {TIER.names}, organizations.member_count,
           {MEMBERSHIP.names}, memberships.own_since,
           (select count(*) from services where services.org_id = organizations.id) as service_count,
           {second_factor_due("memberships.user_id", "asking")} as second_factor_due,
           (select roles.name from roles where roles.id = memberships.role_id) as role_name,
           {IS_UNCONFIRMED_OWNER} as is_unconfirmed_owner
      from memberships
      join organizations on organizations.id = memberships.org_id
      join tiers on tiers.id = organizations.tier_id
      left join sessions as asking on asking.id = %(session)s::uuid
     where memberships.user_id = %(user)s
"""

# The list takes the organizations that the person owns first, then the oldest memberships. So the person still sees these organizations
# when somebody makes the person a member of many others.
LIST: Final[LiteralString] = f"""
    select *
      from (
               select {_OVERVIEW}
                order by memberships.role = 'owner' desc, memberships.created_at, memberships.id
                limit %(most)s
           ) as shown
     order by lower(shown.name), shown.slug
"""

GET: Final[LiteralString] = f"""
    select organizations.metadata, {_OVERVIEW}
       and memberships.org_id = %(organization)s
"""

_SAVE: Final[LiteralString] = f"update organizations set {ORGANIZATION.changes('id', 'slug', 'created_at')} where id = %(id)s"

_SAVE_METADATA: Final = """
    update organizations set metadata = %(metadata)s, updated_at = %(at)s where id = %(id)s and metadata <> %(metadata)s returning id
"""

_DELETE: Final = """
    update all_organizations set deleted_at = %(at)s where id = %(id)s and deleted_at is null returning id
"""


RULES: Final = Columns(
    SignInRules,
    "organizations",
    # Null in the table is `optional`, and a role is kept by its id.
    apart=("admin_factor", "all_factor", "all_factor_role"),
    texts=("invitation_domains", "registration_domains"),
)


def _rules(*, admin_factor: str | None, all_factor: str | None, **columns: Any) -> SignInRules:
    return RULES.row(admin_factor=AdminFactor(admin_factor or "optional"), all_factor=AllFactor(all_factor or "optional"), **columns)


def _held_rules(*, has_second_factor: bool, has_passkey: bool, **columns: Any) -> HeldRules:
    return HeldRules(_rules(**columns), has_second_factor, has_passkey)


class SignInRulesRows(OnStatements):
    """Implements `ports.tenancy.organizations.SignInRulesStore`.

    The rules are columns of the organization, so that a statement that reads an organization needs no join for them.
    """

    async def find(self, organization: OrganizationId) -> SignInRules | None:
        return first(await self._statements.ask(_rules, _GET, {"id": organization}))

    async def reach(self, organization: OrganizationId, asked: RulesAsked) -> RulesReach:
        parameters = {
            "id": organization,
            "factor": asked.factor,
            "domains": None if asked.domains is None else [storable_text(domain) for domain in asked.domains],
            "admin_factor": asked.admin_factor,
            "all_factor": asked.all_factor,
            **_role(asked.all_factor_role),
            "most": MOST_ROWS_COUNTED,
        }
        return only(await self._statements.ask(RulesReach, _REACH, parameters))

    async def knows_role(self, organization: OrganizationId, role: str) -> bool:
        return only(await self._statements.ask(AnswerRow, _KNOWS_ROLE, {"id": organization, **_role(role)})).yes

    async def get(self, organization: OrganizationId, user: UserId) -> HeldRules:
        return only(await self._statements.ask(_held_rules, _SIGN_IN_RULE_FIND_HELD, {"id": organization, "user": user}))

    async def save(self, organization: OrganizationId, rules: SignInRules) -> None:
        parameters = RULES.values(rules) | {
            "id": organization,
            "admin_factor": None if rules.admin_factor is AdminFactor.OPTIONAL else rules.admin_factor.value,
            "all_factor": None if rules.all_factor is AllFactor.OPTIONAL else rules.all_factor.value,
            **_role(rules.all_factor_role),
        }
        await self._statements.tell(_SIGN_IN_RULE_SAVE, parameters)


def _role(role: str | None) -> Mapping[str, str | None]:
    service, _, slug = ("" if role is None else storable_text(role)).partition("/")
    return {"role_service": service or None, "role": slug or None}


# The id of the role of these slugs, in an organization's applications.
_ROLE: Final = """(
               select service_roles.id
                 from services
                 join service_roles on service_roles.service_id = services.id
                where services.org_id = %(id)s and services.slug = %(role_service)s and service_roles.slug = %(role)s
           )"""

_KNOWS_ROLE: Final[LiteralString] = f"select {_ROLE} is not null as yes"

_COLUMNS: Final[LiteralString] = f"""
           {RULES.names}, admin_factor, all_factor, (
               select services.slug || '/' || service_roles.slug
                 from service_roles
                 join services on services.id = service_roles.service_id
                where service_roles.id = organizations.all_factor_role_id and services.org_id = organizations.id
           ) as all_factor_role"""

_SIGN_IN_RULE_FIND_HELD: Final[LiteralString] = f"""
    select {_COLUMNS},
           {has_second_factor("%(user)s")} as has_second_factor, {has_passkey("%(user)s")} as has_passkey
      from organizations
     where id = %(id)s
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} from organizations where id = %(id)s"

_SIGN_IN_RULE_SAVE: Final[LiteralString] = f"""
    update organizations
       set {RULES.changes()}, admin_factor = %(admin_factor)s, all_factor = %(all_factor)s, all_factor_role_id = {_ROLE}
     where id = %(id)s
"""

# The limits are within, so that the statement reads no more rows than it may count.
_REACH: Final[LiteralString] = f"""
    select (select count(*)
              from (select user_id from memberships where org_id = %(id)s and %(factor)s limit %(most)s) as members
             where not {has_second_factor("members.user_id")})::int as without_second_factor,
           (select count(*)
              from (
                       select email_key
                         from invitations
                        where org_id = %(id)s and %(domains)s::text[] is not null and status = 'pending' and expires_at > now()
                        limit %(most)s
                   ) as pending
             where substring(pending.email_key from '[^@]*$') <> all (%(domains)s::text[]))::int as uninvitable,
           (select count(*)
              from (
                       select user_id
                         from memberships
                        where org_id = %(id)s and %(admin_factor)s::text is not null and {ADMINISTERS}
                        limit %(most)s
                   ) as administrators
             where not {has_second_factor("administrators.user_id")}
                or %(admin_factor)s::text = 'passkey' and not {has_passkey("administrators.user_id")}
           )::int as administrators_without,
           (select count(*)
              from (
                       select user_id from memberships where org_id = %(id)s and %(all_factor)s::text is not null limit %(most)s
                   ) as members
             where owes_passkey(%(all_factor)s::text, {_ROLE}, %(id)s, members.user_id, members.user_id)
           )::int as members_without
"""


class PostgresTiers(OnPool):
    """Implements `ports.tenancy.organizations.Tiers`."""

    async def list(self) -> Sequence[Tier]:
        return await ask(self._pool, Tier, _LIST)

    async def find(self, tier: TierId) -> Tier | None:
        return first(await ask(self._pool, Tier, _FIND, {"id": tier}))


_LIST: Final = """
    select id, name, display_name, default_max_services, default_max_users, price_cents from tiers order by price_cents, id
"""

_FIND: Final = """
    select id, name, display_name, default_max_services, default_max_users, price_cents from tiers where id = %(id)s
"""


MAIL_SERVER: Final = Columns(MailServer, "mail_servers", named={"organization": "org_id"}, texts=("username", "from_email", "from_name"))


def _sealed(*, sealed_password: bytes, **columns: Any) -> SealedMailServer:
    return SealedMailServer(MAIL_SERVER.row(**columns), sealed_password)


class _Failing(Frozen):
    failing_since: datetime


class MailServerRows(OnStatements):
    """Implements `ports.tenancy.organizations.MailServerStore`."""

    async def find(self, organization: OrganizationId) -> SealedMailServer | None:
        return first(await self._statements.ask(_sealed, _MAIL_SERVER_FIND, {"organization": organization}))

    async def failed(self, server: MailServerId, at: datetime, rests_until: datetime) -> datetime | None:
        return first_made(
            await self._statements.ask(_Failing, _FAILED, {"id": server, "at": at, "rests_until": rests_until}),
            lambda row: row.failing_since,
        )

    async def save(self, server: MailServer, sealed_password: bytes) -> None:
        await self._statements.tell(_MAIL_SERVER_SAVE, {**MAIL_SERVER.values(server), "sealed_password": sealed_password})

    async def remove(self, organization: OrganizationId) -> MailServer | None:
        return first(await self._statements.ask(MAIL_SERVER.row, _REMOVE, {"organization": organization}))

    async def fall_back(self, server: MailServerId, failing_since: datetime, at: datetime) -> MailServer | None:
        return first(await self._statements.ask(MAIL_SERVER.row, _FALL_BACK, {"id": server, "since": failing_since, "at": at}))

    async def recover(self, server: MailServerId) -> bool:
        return bool(first(await self._statements.ask_in_order(bool, _RECOVER, {"id": server})))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_MAIL_SERVER_SAVE: Final[LiteralString] = f"""
    insert into mail_servers ({MAIL_SERVER.into("sealed_password")})
    values ({MAIL_SERVER.inserted("sealed_password")})
        on conflict (org_id) do update
       set {MAIL_SERVER.replaced("organization")}, sealed_password = excluded.sealed_password
"""

_REMOVE: Final[LiteralString] = f"delete from mail_servers where org_id = %(organization)s returning {MAIL_SERVER.names}"

_MAIL_SERVER_FIND: Final[LiteralString] = f"select {MAIL_SERVER.names}, sealed_password from mail_servers where org_id = %(organization)s"

_FAILED: Final = """
    update mail_servers
       set failing_since = coalesce(failing_since, %(at)s), rests_until = %(rests_until)s
     where id = %(id)s
 returning failing_since
"""

_FALL_BACK: Final[LiteralString] = f"""
    update mail_servers
       set fallen_back_at = %(at)s
     where id = %(id)s and fallen_back_at is null and failing_since <= %(since)s
 returning {MAIL_SERVER.names}
"""

# `before` reads whether the server had fallen back, because `returning` gives only the values after the update.
_RECOVER: Final = """
    with before as (select id, fallen_back_at is not null as had_fallen_back from mail_servers where id = %(id)s for no key update)
    update mail_servers
       set failing_since = null, rests_until = null, fallen_back_at = null
      from before
     where mail_servers.id = before.id and failing_since is not null
 returning before.had_fallen_back
"""
