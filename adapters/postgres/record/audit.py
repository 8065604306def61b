"""The audit log in PostgreSQL, for people who read it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import page_of
from adapters.postgres.record.being_forgotten import STAYS, target_of, target_user
from adapters.postgres.statements import ask, first_made
from adapters.postgres.storable import storable_text
from adapters.postgres.ties import has_name, may_see_name, shown_name
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import ApiKeyId, AuditEntryId, ManagementKeyId, OrganizationId, ScimTokenId, SetupLinkId, UserId
from core.domain.record.audit import (
    DELETED_USER,
    FORGOTTEN_ADDRESS,
    FORGOTTEN_USER_AGENT,
    PLATFORM_CHAIN,
    AuditEntry,
    AuditFilter,
    NamedService,
    Person,
)
from core.domain.record.events import ACTING_KEY, ActingKey, ActingKind
from core.domain.requests import MOST_ROWS_COUNTED, Listed, Page
from core.frozen import Frozen


class _Last(Frozen):
    created_at: datetime


# One step in an index.
_LAST: Final = """
    select created_at
      from audit_entries
     where organization_id is null and action = %(action)s and success
     order by created_at desc
     limit 1
"""


class PostgresAuditLog(OnPool):
    """Implements `ports.record.AuditLog`."""

    async def newest(self, organization: OrganizationId, page: Page) -> Listed[AuditEntry]:
        return await self._list(NEWEST, {"organization": organization}, page)

    async def matching(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        parameters = {
            "organization": organization,
            "action": None if wanted.action is None else storable_text(wanted.action),
            "target_type": wanted.target_type,
            "target_id": None if wanted.target_id is None else storable_text(wanted.target_id),
            "actor": wanted.actor,
            "since": wanted.since,
            "until": wanted.until,
            "most": MOST_ROWS_COUNTED,
        }
        return await self._list(matching(wanted, of_platform=organization == PLATFORM_CHAIN), parameters, page)

    async def last(self, action: str) -> datetime | None:
        return first_made(await ask(self._pool, _Last, _LAST, {"action": action}), lambda row: row.created_at)

    async def find(self, organization: OrganizationId, entry: AuditEntryId) -> AuditEntry | None:
        rows = await ask(
            self._pool, partial(_entry, organization), ONE, {"organization": organization, "platform": PLATFORM_CHAIN, "entry": entry}
        )
        return next((entry for _, entry in rows), None)

    async def _list(self, statement: LiteralString, parameters: Mapping[str, Any], page: Page) -> Listed[AuditEntry]:
        organization = OrganizationId(parameters["organization"])
        paged = {**parameters, "limit": page.limit, "offset": page.offset}
        return page_of(await ask(self._pool, partial(_entry, organization), statement, paged))


def _entry(
    organization: OrganizationId,
    /,
    *,
    total: int,
    id: UUID | None,  # noqa: A002 - the column's name
    actor_id: UUID | None,
    actor_email: str | None,
    actor_is_platform_owner: bool | None,
    actor_name: str | None,
    impersonator_id: UUID | None,
    impersonator_email: str | None,
    impersonator_is_platform_owner: bool | None,
    subject_id: UUID | None,
    subject_email: str | None,
    subject_name: str | None,
    service_slug: str | None,
    service_name: str | None,
    forgotten: bool,
    address: str | None,
    user_agent: str | None,
    details: Mapping[str, Any],
    **columns: Any,
) -> tuple[int, AuditEntry | None]:
    """A row of a page. An empty page is one row without an entry."""
    if id is None:
        return total, None
    actor = _person(actor_id, actor_email, is_platform_owner=actor_is_platform_owner, name=actor_name)
    entry = AuditEntry(
        id=AuditEntryId(id),
        organization=organization,
        actor=_acting_key(actor_id, details.get(ACTING_KEY)) or actor,
        impersonator=_person(impersonator_id, impersonator_email, is_platform_owner=impersonator_is_platform_owner),
        subject=_person(subject_id, subject_email, is_platform_owner=False, name=subject_name),
        service=None if service_slug is None or service_name is None else NamedService(service_slug, service_name),
        address=FORGOTTEN_ADDRESS if forgotten else address,
        user_agent=FORGOTTEN_USER_AGENT if forgotten else user_agent,
        details={name: value for name, value in details.items() if name != ACTING_KEY},
        **columns,
    )
    return total, entry


_IDS: Final[Mapping[ActingKind, Callable[[UUID], ApiKeyId | ManagementKeyId | ScimTokenId | SetupLinkId]]] = {
    ActingKind.API_KEY: ApiKeyId,
    ActingKind.MANAGEMENT_KEY: ManagementKeyId,
    ActingKind.SCIM_TOKEN: ScimTokenId,
    ActingKind.SETUP_LINK: SetupLinkId,
}


def _acting_key(identifier: UUID | None, key: Mapping[str, Any] | None) -> ActingKey | None:
    if identifier is None or key is None:
        return None
    kind = ActingKind(key.get("kind", ActingKind.API_KEY))
    return ActingKey(_IDS[kind](identifier), key["name"], key["prefix"], kind)


def _person(identifier: UUID | None, email: str | None, *, is_platform_owner: bool | None, name: str | None = None) -> Person | None:
    if identifier is None:
        return None
    return Person(UserId(identifier), DELETED_USER if email is None else email, bool(is_platform_owner), name)


def matching(wanted: AuditFilter, *, of_platform: bool = False) -> LiteralString:
    """The statement with exactly the requested conditions, because one plan for all conditions would suit none of them."""
    conditions: Sequence[tuple[object, LiteralString]] = (
        (wanted.action, "and action = %(action)s"),
        (wanted.target_type, "and target_type = %(target_type)s"),
        (wanted.target_id, "and target_id = %(target_id)s"),
        (wanted.actor, "and actor_id = %(actor)s"),
        (wanted.success, "and success" if wanted.success else "and not success"),  # written out, it matches the index of failures
        (wanted.since, "and created_at >= %(since)s"),
        (wanted.until, "and created_at < %(until)s"),
    )
    asked: LiteralString = "\n                ".join(condition for value, condition in conditions if value is not None)
    return (_MATCHING_HEAD_OF_PLATFORM if of_platform else _MATCHING_HEAD) + asked + _MATCHING_TAIL


# The digest of the separate personal part of an entry. Use it in a statement that has these columns.
PERSONAL_DIGEST: Final[LiteralString] = "sha256(salt || convert_to(jsonb_build_array(address, user_agent, {details})::text, 'UTF8'))"

# Entries and chains have no names, so the name is that of today.
_MAY_SEE_ACTOR: Final[LiteralString] = may_see_name("entries.organization_id", "entries.actor_id")

# Of the people whom entries are about, an organization sees those who still have to do with it.
_IS_TIED: Final = """(
                       exists (
                           select from memberships
                            where memberships.org_id = entries.organization_id and memberships.user_id = users.id
                           offset 0
                       )
                    or exists (
                           select from service_users
                            where service_users.org_id = entries.organization_id and service_users.user_id = users.id
                           offset 0
                       )
                   )"""

# The limits of 1 change only the plan. The length of a page is a parameter, for which the planner assumes the worst case. Without the
# limits the planner would read whole tables for a join, where each row needs one look into an index.
_ENTRIES: Final[LiteralString] = f"""
    select totals.total, entries.id,
           entries.actor_id, actors.email as actor_email, actors.is_platform_owner as actor_is_platform_owner,
           case when {has_name("actors")} and {_MAY_SEE_ACTOR} then {shown_name("actors")} end as actor_name,
           entries.impersonator_id, impersonators.email as impersonator_email,
           impersonators.is_platform_owner as impersonator_is_platform_owner,
           subjects.id as subject_id, subjects.email as subject_email,
           case when {has_name("subjects")} and {may_see_name("entries.organization_id", "subjects.id")}
                then {shown_name("subjects")} end as subject_name,
           services.slug as service_slug, services.name as service_name,
           entries.action, entries.target_type, entries.target_id, host(personal.address) as address, personal.user_agent,
           entries.personal_digest is not null and personal.entry_id is null as forgotten,
           entries.success, entries.details || coalesce(personal.details, '{{}}') as details, entries.created_at
      from totals
      left join page on true
      left join lateral (select * from audit_entries where audit_entries.id = page.entry_id limit 1) as entries on true
      left join lateral (
                select *
                  from audit_personal
                 where audit_personal.entry_id = page.entry_id
                   -- While people are being forgotten, the rest of their personal parts is not shown.
                   and {STAYS}
                 limit 1
           ) as personal on true
      left join lateral (
                select email, is_platform_owner, name, given_name, family_name from users where users.id = entries.actor_id limit 1
           ) as actors on true
      left join lateral (select email, is_platform_owner from users where users.id = entries.impersonator_id limit 1) as impersonators
             on true
      left join lateral (
                select id, email, name, given_name, family_name
                  from users
                 where users.id = {target_user("entries")}
                   and (entries.organization_id is null or {_IS_TIED})
                 limit 1
           ) as subjects on true
      left join lateral (
                select slug, name
                  from services
                 where services.id = {target_of("entries", "service")}
                   and (entries.organization_id is null or services.org_id = entries.organization_id)
                 limit 1
           ) as services on true
"""

# Each place in the chain is a number. So a page is found by its number, however far back, and the number of the last link is the total.
NEWEST: Final[LiteralString] = (
    """
    with waiting as materialized (
             select count(*) as entries from audit_pending where chain_id = %(organization)s
         ),
         ends as materialized (
             select coalesce(max(sequence), 0) as sequence from audit_links where chain_id = %(organization)s
         ),
         totals as (
             select waiting.entries + ends.sequence as total from waiting, ends
         ),
         not_linked as materialized (
             select entry_id
               from audit_pending
              where chain_id = %(organization)s
              order by entry_id desc
             offset %(offset)s
              limit %(limit)s
         ),
         page as (
             select entry_id, null as sequence from not_linked
              union all
             (select entry_id, sequence
                from audit_links
               where chain_id = %(organization)s
                 and sequence <= (select ends.sequence - greatest(%(offset)s - waiting.entries, 0) from ends, waiting)
               order by sequence desc
               limit %(limit)s - (select count(*) from not_linked))
         )
"""
    + _ENTRIES
    + " order by page.sequence desc nulls first, page.entry_id desc"
)

# Entries of the platform's log belong to no organization.
ONE: Final[LiteralString] = (
    """
    with page as materialized (
             select id as entry_id
               from audit_entries
              where id = %(entry)s
                and coalesce(organization_id, %(platform)s) = %(organization)s
         ),
         totals as (
             select count(*) as total from page
         )
"""
    + _ENTRIES
)

_MATCHING_HEAD: Final[LiteralString] = """
    with matching as materialized (
             select id as entry_id, created_at
               from audit_entries
              where organization_id = %(organization)s
                """
# Entries of the platform's log belong to no organization.
_MATCHING_HEAD_OF_PLATFORM: Final[LiteralString] = """
    with matching as materialized (
             select id as entry_id, created_at
               from audit_entries
              where organization_id is null
                """

_MATCHING_TAIL: Final[LiteralString] = (
    """
              order by created_at desc, id desc
              limit %(most)s
         ),
         totals as (
             select count(*) as total from matching
         ),
         page as (
             select entry_id from matching order by created_at desc, entry_id desc offset %(offset)s limit %(limit)s
         )
"""
    + _ENTRIES
    + " order by entries.created_at desc, entries.id desc"
)
