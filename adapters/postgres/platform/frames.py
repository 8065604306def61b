"""What frames of pages say, in PostgreSQL: one statement for each page of the console, beside those of the page."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.identity.account_summaries import ADMINISTERED_AS_JSON
from adapters.postgres.platform.todos import COUNTED, counted, counting
from adapters.postgres.statements import ask, only
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import MOST_STARTED, AdministeredOrganization
from core.domain.platform.todos import MOST_COUNTED, AnyTodo, FrameFacts, PlatformTodo, Todo


def _places(found: Sequence[Mapping[str, Any]]) -> Sequence[AdministeredOrganization]:
    return [AdministeredOrganization(one["slug"], one["name"], one["waits"]) for one in found]


def _todos(kinds: type[Todo] | type[PlatformTodo], found: Mapping[str, int]) -> Mapping[AnyTodo, int]:
    """In the order of their declaration."""
    return {kind: found[kind] for kind in kinds if found.get(kind)}


def _in_organization(*, places: Sequence[Mapping[str, Any]], todos: Mapping[str, int]) -> FrameFacts:
    return FrameFacts(_places(places), _todos(Todo, todos))


def _in_installation(*, places: Sequence[Mapping[str, Any]], todos: Mapping[str, int]) -> FrameFacts:
    return FrameFacts(_places(places), _todos(PlatformTodo, todos))


def _without_todos(*, places: Sequence[Mapping[str, Any]]) -> FrameFacts:
    return FrameFacts(_places(places))


class PostgresFrames(OnPool):
    """Implements `ports.platform.FrameLookup`."""

    async def get_in_organization(self, person: UserId | None, organization: OrganizationId, now: datetime) -> FrameFacts:
        parameters = {**_of(person), **counting(organization, now)}
        return only(await ask(self._pool, _in_organization, _IN_ORGANIZATION, parameters))

    async def get_in_installation(self, person: UserId | None) -> FrameFacts:
        return only(await ask(self._pool, _in_installation, _IN_INSTALLATION, {**_of(person), "most": MOST_COUNTED}))

    async def get_places(self, person: UserId | None) -> FrameFacts:
        return only(await ask(self._pool, _without_todos, _PLACES, _of(person)))


def _of(person: UserId | None) -> Mapping[str, Any]:
    return {"user": person, "most_places": MOST_STARTED}


_PLACES: Final[LiteralString] = f"select {ADMINISTERED_AS_JSON} as places"
_TODOS: Final = "coalesce((select jsonb_object_agg(todo, found) from ({counted}) as counted), '{{}}') as todos"
_IN_ORGANIZATION: Final[LiteralString] = f"{_PLACES}, {_TODOS.format(counted=COUNTED)}"
# An index has each of these by itself: the organizations by their status, the APIs that ask, those whose texts wait, and the dead jobs.
_IN_INSTALLATION: Final[LiteralString] = f"""{_PLACES}, {
    _TODOS.format(
        counted=" union all ".join(
            (
                counted("organizations", "select from all_organizations where status = 'pending' and deleted_at is null"),
                counted(
                    "approvals",
                    '''
                    select
                      from resource_servers
                      join organizations on organizations.id = resource_servers.org_id and organizations.status = 'active'
                     where resource_servers.approval_asked_at is not null and resource_servers.verified_at is null
                       and resource_servers.approved_at is null
                    ''',
                ),
                counted(
                    "texts",
                    '''
                    select
                      from organizations
                     where coalesce(texts_digest <> approved_texts, texts_digest is not null) and status = 'active'
                       and (select coalesce((select mails or pages from text_approval_rules), true))
                    ''',
                ),
                counted("jobs", "select from jobs where state = 'dead'"),
            )
        )
    )
}"""
