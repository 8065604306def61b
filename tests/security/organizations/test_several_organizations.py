"""Several organizations: requests about one organization read and change it as if no other existed. The callers belong to three
organizations, to each in another way.

A statement that forgets its organization fails here, since it finds three of everything.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Iterable
from typing import Final

import pytest
import trio

from adapters.postgres.upkeep.purging import PostgresDeletedOrganizations, PostgresDeletedServices
from core.domain.secrets import Password
from core.domain.services import services as services_domain
from core.domain.tenancy import organizations as organizations_domain
from core.usecases.jobs import Purge
from entrypoints.bootstrap import Postern
from tests.http import conftest as http
from tests.http.client import Received
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import Tenants
from tests.security.organizations.walk import (
    CHANGES,
    EXPORTS,
    NAMED_ALIKE,
    OUTSIDE,
    OrganizationWalker,
    Step,
    about_one_organization,
    reads,
    with_ids_of_others,
)
from tests.security.organizations.world import FIRST, LAST, NOBODYS, WHOSE, Row, World

database_url, postern, people = http.database_url, http.postern, http.people

# Times at which an answer was made, and ids of documents: these differ from answer to answer.
_MOMENTS: Final = re.compile(
    rb'(?:validUntil|ID)="[^"]*"|"(?:timestamp|last_used_at|metadata_fetched_at|lag_seconds)":(?:"[^"]*"|null|\d+)'
)
# Rows that outlive an organization: its audit log; for a few minutes, the states of sign-ins at a provider; and the organization that was
# chosen in a browser, which then counts for nothing.
_AUDIT: Final = frozenset(("audit_entries", "audit_personal", "audit_links", "audit_pending"))
_OUTLIVES: Final = _AUDIT | {"oauth_states", "browser_sessions"}
# Rows without an organization that any change may add.
_ALWAYS: Final = frozenset(("jobs",))


@pytest.fixture
def world(postern: Postern, people: People) -> World:
    return World(postern, people)


@pytest.fixture
async def walker(world: World, postern: Postern, people: People) -> OrganizationWalker:
    digest = await postern.identity.passwords.hash(Password(PASSWORD))
    people.change("update users set password_hash = %s where id = %s", digest, world.bob.user)
    return OrganizationWalker(world, people, Tenants(postern, people), unlimited(postern))


def test_whatever_is_about_one_organization_is_asked() -> None:
    tried = {f"{step.method} {step.path}" for step in (*reads(), *CHANGES)}
    assert about_one_organization() - OUTSIDE == tried & about_one_organization()


async def test_every_organization_has_rows_of_every_kind(world: World, people: People) -> None:
    tables = {row["tablename"] for row in people.rows("select tablename from pg_tables where schemaname = 'public'")}
    # A new table must be listed as an organization's or as nobody's.
    assert tables == {*WHOSE, *NOBODYS}
    found = {(table, whose) for table, whose, _ in world.rows()}
    houses = world.houses.values()
    assert [(table, scene.slug) for table in WHOSE for scene in houses if (table, str(scene.tenant.id)) not in found] == []


async def answers(walker: OrganizationWalker, steps: Iterable[Step]) -> dict[Step, tuple[int, bytes]]:
    """The answers, without times and ids that differ each time."""
    asked: dict[Step, Received] = {step: await walker.ask(step) for step in steps}
    return {step: (answer.status, _MOMENTS.sub(b"", answer.body)) for step, answer in asked.items()}


@pytest.mark.parametrize("steps", [reads, lambda: EXPORTS], ids=["lists", "exports"])
async def test_what_is_read_is_as_if_there_were_no_other(
    world: World, walker: OrganizationWalker, steps: Callable[[], Iterable[Step]]
) -> None:
    walked = list(steps())
    among_others = await answers(walker, walked)
    assert [f"{step}: {answer}" for step, answer in among_others.items() if not _is_expected(step, answer[0])] == []
    world.without_others()
    alone = await answers(walker, walked)
    assert [f"{step}: {among_others[step]}, but alone {alone[step]}" for step in walked if among_others[step] != alone[step]] == []


async def test_what_is_read_of_a_service_is_as_if_there_were_no_other(world: World, walker: OrganizationWalker) -> None:
    walked = [step for step in reads() if step.is_of_shop]
    among_others = await answers(walker, walked)
    world.without_other_service()
    alone = await answers(walker, walked)
    assert [f"{step}: {among_others[step]}, but alone {alone[step]}" for step in walked if among_others[step] != alone[step]] == []


def _is_expected(step: Step, status: int) -> bool:
    """Callers with fewer rights are refused some requests."""
    return status == (step.refused or 200) or (status == 403 and step.by in {"quinn", "bob", "cleo"})


async def test_a_change_of_one_leaves_the_others_as_they_were(world: World, walker: OrganizationWalker, people: People) -> None:
    faults: list[str] = []
    before = world.rows()
    for step in CHANGES:
        if step.first:
            people.change(step.first)
            before = world.rows()
        answer = await walker.ask(step)
        after = world.rows()
        faults += _faults_of(world, step, answer, before ^ after)
        before = after
    assert faults == []


def _faults_of(world: World, step: Step, answer: Received, changed: Iterable[Row]) -> list[str]:
    if answer.status != (step.refused or answer.status) or (answer.status >= 300 and not step.refused):
        return [f"{step}: {answer.status} {answer.body!r}"]
    if tells := [text for text in _texts(answer.body) if any(other in text for other in (FIRST, LAST, *world.ids_of_others()))]:
        return [f"{step}: {tells}"]
    apart = {str(world.asked.app.id)} if step.is_of_shop else set()
    return [f"{step}: {fault}" for fault in (*among_others(world, changed, apart), *_touched(step, changed))]


def among_others(world: World, changed: Iterable[Row], apart: Collection[str] = ()) -> list[str]:
    """The rows that belong to another organization, or mention one of its ids or `apart`."""
    others = {*apart, *world.ids_of_others()}
    return [f"{table}: {text}" for table, whose, text in changed if whose in others or any(identifier in text for identifier in others)]


def _touched(step: Step, changed: Iterable[Row]) -> list[str]:
    """Changed rows of people and of the platform that the step must not change."""
    return [f"{table}: {text}" for table, _, text in changed if table in NOBODYS and table not in _ALWAYS and table not in step.touches]


async def test_names_and_limits_are_the_organizations_own(world: World, walker: OrganizationWalker) -> None:
    world.let_others_fill_up()
    answers = {str(step): await walker.ask(step) for step in NAMED_ALIKE}
    assert {step: answer.body for step, answer in answers.items() if answer.status >= 300} == {}


async def test_ids_of_others_name_nothing(world: World, walker: OrganizationWalker) -> None:
    faults: list[str] = []
    before = world.rows()
    for step in with_ids_of_others():
        answer = await walker.ask(step)
        if answer.status != (step.refused or 200) or (not step.refused and answer.json()["entries"]):
            faults.append(f"{step}: {answer.status} {answer.body!r}")
    changed = {table for table, _, _ in before ^ world.rows()}
    assert faults == []
    # Refused requests of a directory are kept for its administrators.
    assert changed <= {"scim_exchanges"}


def _texts(body: bytes) -> list[str]:
    """The text of an answer, and the claims of the tokens in it."""
    claims = [part.split(b".")[1] for part in re.findall(rb"eyJ[\w-]+\.[\w-]+\.[\w-]+", body)]
    return [body.decode(), *(urlsafe_b64decode(one + b"==").decode() for one in claims)]


async def test_what_remains_of_one_goes_alone(world: World, postern: Postern, people: People) -> None:
    scene, pool = world.asked, postern.foundation.pool
    for table, remains, job, owner in (
        ("all_services", PostgresDeletedServices(pool), services_domain.purge_job, scene.app.id),
        ("all_services", PostgresDeletedServices(pool), services_domain.purge_job, scene.shop.id),
        ("all_organizations", PostgresDeletedOrganizations(pool), organizations_domain.purge_job, scene.tenant.id),
    ):
        people.change(f"update {table} set deleted_at = now() where id = %s", owner)
        before = world.rows()
        assert await Purge(postern.foundation.unit_of_work, remains, job).run(owner, trio.lowlevel.checkpoint)
        assert among_others(world, before ^ world.rows()) == []
        assert people.rows(f"select from {table} where id = %s", owner) == []
    assert {table for table, whose, _ in world.rows() if whose == str(scene.tenant.id)} <= _OUTLIVES
