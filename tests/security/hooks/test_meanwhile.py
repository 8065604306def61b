"""What others do while a question is out: an owner deletes or replaces the hook, the person signs out everywhere."""

from typing import Final, cast
from uuid import UUID

import psycopg
import pytest
import trio

from adapters.outbound.hook_places import FairHookPlaces
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.guards.hook_verdicts import HookSaid, HookWord
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import Arriving
from tests.http.federation.providing import Providing, asking, authn_request
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.receiver import Call
from tests.security.hooks.hooked import GO_ON, Hooked, Hooks, no, saying, until
from tests.security.hooks.test_doors import INTO, member

# As every statement does that ends or marks several sessions: `revoking` in adapters/postgres/identity/sessions/parts.py.
IN_ORDER: Final = "select from sessions where id = any (%s) order by id for no key update"


async def test_a_sign_in_goes_on_whose_hook_is_deleted_as_it_answers(arriving: Arriving, hooks: Hooks, database_url: str) -> None:
    grace, statuses = member(arriving), list[int]()
    async with hooks.of(arriving.acme) as hooked:
        with psycopg.connect(database_url) as owner:

            async def deletes(stream: trio.abc.Stream, call: Call) -> bool:
                owner.execute("delete from hooks where id = %s", (hooked.hook.id,))
                return await saying(GO_ON)(stream, call)

            async def select() -> None:
                statuses.append((await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status)

            hooked.receiver.answer = deletes
            async with trio.open_nursery() as nursery:
                nursery.start_soon(select)
                # The exchange waits for the owner's transaction, which ends only now.
                await arriving.people.somebody_waits()
                owner.commit()
    assert statuses == [200]


@pytest.mark.usefixtures("unhurried")
async def test_nobody_comes_in_by_the_answer_of_a_hook_that_is_replaced_by_now(
    postern: Postern, people: People, log: CapturedLog, hooks: Hooks
) -> None:
    provider = Providing(postern, people, unlimited(postern), log)
    await provider.ready()
    grace = provider.tenants.join(people.proved("grace@acme.example"), provider.acme)
    tabs, said, later = provider.signed_in(grace, age=120), trio.Event(), list[int]()

    async def waits(stream: trio.abc.Stream, call: Call) -> bool:
        await said.wait()
        return await saying(GO_ON)(stream, call)

    async def visit() -> None:
        await tabs.request("GET", asking(authn_request(ID="_first")))

    async def visit_later() -> None:
        later.append((await tabs.request("GET", asking(authn_request(ID="_later")))).status)

    async with hooks.of(provider.acme, waits, seconds=5) as hooked, trio.open_nursery() as nursery:
        nursery.start_soon(visit)
        await hooked.receiver.until(1)
        await hooked.change()
        await hooked.count()
        hooked.say(no())
        nursery.start_soon(visit_later)
        places = cast("FairHookPlaces", postern.identity.hook_asking.places)
        # The later request waits beside the first, or has its answer already.
        await until(lambda: bool(later) or places._of_person[OrganizationId(provider.acme.id), UserId(grace.user)] == 2)
        said.set()
    assert later == [403]


async def test_verdicts_are_kept_beside_a_sign_out_everywhere(arriving: Arriving, hooks: Hooks, database_url: str) -> None:
    """Both hold several sessions of the person, so they have to take them in one order."""
    people = arriving.people
    grace = arriving.tenants.join(await people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    first, middle, last = await _of_one_device(arriving, grace)
    async with hooks.of(arriving.acme) as hooked:

        def signs_out() -> None:
            with psycopg.connect(database_url) as connection:
                connection.execute(IN_ORDER, ([first, middle, last],))

        with psycopg.connect(database_url) as holder:
            holder.execute(IN_ORDER, ([middle],))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_keep, arriving.postern, hooked, first)
                await people.all_wait(1)
                nursery.start_soon(trio.to_thread.run_sync, signs_out)
                await people.all_wait(2)
                # What another transaction has kept meanwhile stays.
                holder.execute("update sessions set hook_verdicts = %s where id = %s", ('{"another": {"at": 1, "no": true}}', middle))
                holder.commit()
        key = f"{hooked.hook.counts_as}/{arriving.acme.id}"
    rows = people.rows("select hook_verdicts from sessions where user_id = %s and device_id is not null order by id", grace.user)
    assert [set(row["hook_verdicts"]) for row in rows[-3:]] == [{key}, {key, "another"}, {key}]


async def _of_one_device(arriving: Arriving, person: Person) -> list[UUID]:
    """Three sessions in the organization, of which the newest stands first in the table."""
    people = arriving.people
    assert (await Browser(arriving.unlimited).login(person, **INTO)).status == 200
    made = [people.session_of(person).session for _ in range(3)]
    for session in reversed(made):
        people.change(
            "update sessions set organization_id = %s, device_id = (select id from devices where user_id = %s) where id = %s",
            arriving.acme.id,
            person.user,
            session,
        )
    return made


async def _keep(postern: Postern, hooked: Hooked, session: UUID) -> None:
    hook = hooked.hook
    assert hook.counts_as is not None
    assert hook.organization is not None
    said = HookSaid(
        hook=hook.id,
        counts_as=hook.counts_as,
        organization=OrganizationId(hook.organization),
        at=postern.foundation.clock.now(),
        word=HookWord.NO,
    )
    async with postern.foundation.unit_of_work() as uow:
        await uow.hooks.keep_verdicts(SessionId(session), (said,))
        await uow.commit()
