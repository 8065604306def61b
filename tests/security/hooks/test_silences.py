"""Nobody whom a hook refuses comes in by making it silent, and no stranger shuts others out: every kind of silence, whoever causes it,
where the owner lets a silence go on and where a silence refuses, pressed ten times.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pytest
import trio

from tests.http.federation.arriving import Arriving
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, Browser
from tests.receiver import Answer, Call, answering, hanging_up
from tests.security.hooks.hooked import GO_ON, Hooks, no, saying, until
from tests.security.hooks.test_doors import INTO
from tests.security.hooks.test_receivers import hanging

PRESSED: Final = 10
KINDS: Final[Mapping[str, Answer]] = {
    "fails": answering(500),
    "hangs up": hanging_up,
    "says what nobody understands": answering(200, b"go on", "content-type: text/plain"),
    "hangs": hanging,
}
SILENCES: Final = ("go_on", "refuse")


@dataclass
class Judging:
    """Says no to those whom it refuses, and fails in one way about some people, or about everybody."""

    fails: Answer
    refuses: set[str] = field(default_factory=set)
    fails_about: set[str] = field(default_factory=set)
    is_out: bool = False

    async def __call__(self, stream: trio.abc.Stream, call: Call) -> bool:
        person = json.loads(call.body)["user"]["sub"]
        if self.is_out or person in self.fails_about:
            return await self.fails(stream, call)
        return await saying(no("account") if person in self.refuses else GO_ON)(stream, call)


@dataclass
class Refusal:
    arriving: Arriving
    receiving: Judging
    refused: Person
    member: Person
    other_member: Person
    known: Person
    stranger: Person

    async def select(self, person: Person) -> int:
        return (await self.arriving.request("POST", "/api/organizations/acme/select", by=person)).status

    async def login(self, person: Person) -> int:
        answer = await Browser(self.arriving.unlimited).login(person, **INTO)
        if answer.status == 200:
            self.arriving.log.remember(answer.json()["access_token"], answer.json()["refresh_token"])
        return answer.status

    async def console(self, person: Person) -> int:
        return (await self.arriving.signed_in(person).tab().open("/ui/o/acme/people")).status

    async def press(self, person: Person, door: Callable[[Person], Awaitable[int]]) -> list[int]:
        return [await door(person) for _ in range(PRESSED)]

    async def never_in(self) -> None:
        """The refused person, in their own browser, in another one, and by their password."""
        arriving, person = self.arriving, self.refused
        assert 200 not in await self.press(person, self.select)
        assert 200 not in await self.press(person, self.login)
        for _ in range(PRESSED):
            other = arriving.people.session_of(person)
            assert await self.select(other) != 200
            assert (await arriving.request("GET", "/api/organizations/acme", by=other)).status == 403
        assert (await arriving.request("GET", "/api/organizations/acme", by=person)).status == 403
        assert await self.console(arriving.people.session_of(person)) != 200


async def staged(arriving: Arriving, kind: str) -> Refusal:
    people, tenants = arriving.people, arriving.tenants

    async def member(name: str) -> Person:
        person = await people.with_password(PASSWORD, f"{name}@acme.example")
        return people.session_of(tenants.join(person, arriving.acme, "admin"))

    known = await people.with_password(PASSWORD, "known@elsewhere.example")
    tenants.uses(known, arriving.app)
    people.change("update service_users set own_since = now() - interval '2 days' where user_id = %s", known.user)
    scene = Refusal(
        arriving=arriving,
        receiving=Judging(KINDS[kind]),
        refused=await member("grace"),
        member=await member("member"),
        other_member=await member("other"),
        known=known,
        stranger=await people.with_password(PASSWORD, "stranger@elsewhere.example"),
    )
    scene.receiving.refuses.add(str(scene.refused.user))
    return scene


async def _by_refused(scene: Refusal) -> None:
    scene.receiving.fails_about.add(str(scene.refused.user))


async def _by_stranger(scene: Refusal) -> None:
    scene.receiving.fails_about.add(str(scene.stranger.user))
    await scene.press(scene.stranger, scene.login)


async def _by_member(scene: Refusal) -> None:
    scene.receiving.fails_about.add(str(scene.member.user))
    await scene.press(scene.member, scene.select)


async def _by_outage(scene: Refusal) -> None:
    scene.receiving.is_out = True
    # Enough people for a rest.
    for person in (scene.member, scene.other_member):
        for _ in range(3):
            await scene.select(person)


CAUSES: Final[Mapping[str, Callable[[Refusal], Awaitable[None]]]] = {
    "the refused person": _by_refused,
    "a stranger": _by_stranger,
    "a member": _by_member,
    "an outage": _by_outage,
}


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("kind", KINDS)
async def test_whoever_is_refused_never_gets_in(arriving: Arriving, hooks: Hooks, kind: str, cause: str, silence: str) -> None:
    scene = await staged(arriving, kind)
    async with hooks.of(arriving.acme, scene.receiving, silence=silence):
        # Refused once, at each door: from now on the hook has said it.
        assert await scene.select(scene.refused) == 403
        assert await scene.login(scene.refused) == 403
        await CAUSES[cause](scene)
        await scene.never_in()
        is_out = cause == "an outage"
        # Nobody else is shut out, or let in, by what one person does to the hook.
        assert await scene.select(scene.other_member) == (403 if is_out and silence == "refuse" else 200)
        assert await scene.login(scene.known) == (403 if is_out and silence == "refuse" else 200)


@pytest.mark.parametrize("silence", SILENCES)
async def test_three_strangers_who_make_a_hook_rest_keep_no_member_out(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    scene = await staged(arriving, "fails")
    strangers = [await arriving.people.with_password(PASSWORD) for _ in range(3)]
    scene.receiving.fails_about.update(str(one.user) for one in strangers)
    async with hooks.of(arriving.acme, scene.receiving, silence=silence) as hooked:
        for _ in range(2):
            for one in strangers:
                await scene.login(one)
        assert await scene.login(strangers[0]) == (200 if silence == "go_on" else 403)
        assert (await hooked.exchanges())[0].why == "resting"
        asked = len(hooked.heard)
        assert await scene.select(scene.member) == 200
        assert await scene.login(scene.known) == 200
        assert len(hooked.heard) == asked + 2
        assert await scene.select(scene.refused) == 403


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("crowd", [20, 80])
async def test_a_crowd_of_one_session_is_one_question(arriving: Arriving, hooks: Hooks, crowd: int, silence: str) -> None:
    scene = await staged(arriving, "fails")
    said = trio.Event()

    async def waits(stream: trio.abc.Stream, call: Call) -> bool:
        await said.wait()
        return await scene.receiving(stream, call)

    async with hooks.of(arriving.acme, waits, silence=silence, seconds=5) as hooked:
        got: list[int] = []

        async def one() -> None:
            got.append(await scene.select(scene.refused))

        async with trio.open_nursery() as nursery:
            for _ in range(crowd):
                nursery.start_soon(one)
            await until(lambda: len(got) == crowd - 8)
            # The others got their answer at once.
            assert set(got) == {429}
            said.set()
        assert len(hooked.heard) == 1
        assert sorted(got) == [403] * 8 + [429] * (crowd - 8)
        assert await scene.console(arriving.people.session_of(scene.refused)) == 403


@pytest.mark.parametrize("silence", SILENCES)
async def test_twenty_sessions_of_one_person_at_once_let_nobody_in(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    """Against a receiver that answers one question at a time, and the first of them too late."""
    scene, one_at_a_time, late = await staged(arriving, "fails"), trio.Lock(), list[float]()

    async def slowly(stream: trio.abc.Stream, call: Call) -> bool:
        async with one_at_a_time:
            await trio.sleep(late.pop() if late else 0.1)
            return await scene.receiving(stream, call)

    sessions = [arriving.people.session_of(scene.refused) for _ in range(20)]
    async with hooks.of(arriving.acme, slowly, silence=silence) as hooked:
        assert await scene.select(scene.refused) == 403
        late.append(1.5)
        got: list[int] = []

        async def one(session: Person) -> None:
            got.append(await scene.select(session))

        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(one, session)
        # How many are asked about at once, and so how many are 429, depends on the machine.
        assert set(got) <= {403, 429}
        assert "timeout" in {exchange.why for exchange in await hooked.exchanges()}
        # Others are asked about afterwards, once the receiver is through with what it has heard.
        async with one_at_a_time:
            pass
        assert await scene.select(scene.member) == 200
        await scene.never_in()


async def test_five_failures_about_a_person_are_answered_429_and_ask_nobody(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    scene.receiving.fails_about.add(str(scene.member.user))
    async with hooks.of(arriving.acme, scene.receiving, silence="go_on") as hooked:
        got = await scene.press(scene.member, scene.select)
        assert got == [200] * 5 + [429] * 5
        assert len(hooked.heard) == 5
        refused = await arriving.request("POST", "/api/organizations/acme/select", by=scene.member)
        assert 0 < int(refused.header("retry-after") or "0") <= 60


@pytest.mark.parametrize("silence", SILENCES)
async def test_an_unmet_demand_stands_over_a_silence(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    scene = await staged(arriving, "fails")
    async with hooks.of(arriving.acme, {"decision": "passkey"}, silence=silence) as hooked:
        assert await scene.select(scene.member) == 403
        assert await scene.login(scene.other_member) == 403
        hooked.receiver.answer = answering(500)
        # In this session, in another one, and by the password, which has no session to keep the demand.
        assert await scene.select(scene.member) == 403
        assert await scene.select(arriving.people.session_of(scene.member)) == 403
        assert await scene.login(scene.other_member) == 403
        # Whoever shows it meets a silence alone.
        shown = arriving.people.session_of(scene.member)
        arriving.people.give_passkey(scene.member)
        arriving.people.change("update sessions set authenticated_by = '{hwk,mfa}' where id = %s", shown.session)
        token = await arriving.people.token(shown, amr=["hwk", "mfa"])
        answer = await arriving.client.request("POST", "/api/organizations/acme/select", headers=[("authorization", f"Bearer {token}")])
        assert answer.status == (200 if silence == "go_on" else 403)


async def test_a_silence_that_goes_on_opens_for_five_minutes_and_stands_as_itself(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    scene.receiving.is_out = True
    async with hooks.of(arriving.acme, scene.receiving, silence="go_on"):
        assert await scene.select(scene.member) == 200
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.member)).status == 200
        assert [kept["said"] for kept in kept_by(arriving, scene.member.session).values()] == ["silence"]
        age(arriving, "6 minutes")
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.member)).status == 403
        # It overwrites no yes of before.
        scene.receiving.is_out = False
        assert await scene.select(scene.member) == 200
        scene.receiving.is_out = True
        assert await scene.select(scene.member) == 200
        age(arriving, "6 minutes")
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.member)).status == 200


def kept_by(arriving: Arriving, session: UUID) -> dict[str, Any]:
    (row,) = arriving.people.rows("select hook_verdicts from sessions where id = %s", session)
    return dict(row["hook_verdicts"] or {})


def age(arriving: Arriving, by: str) -> None:
    aged = (
        "set hook_verdicts = (select jsonb_object_agg(key, value || jsonb_build_object('at', (value ->> 'at')::float8"
        " - extract(epoch from %s::interval))) from jsonb_each(hook_verdicts)) where hook_verdicts is not null"
    )
    arriving.people.change(f"update sessions {aged}", by)
    arriving.people.change(f"update login_events {aged}", by)


async def test_what_a_silence_lets_in_ends_after_twelve_hours(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    scene.receiving.is_out = True
    async with hooks.of(arriving.acme, scene.receiving, silence="go_on") as hooked:
        assert await scene.login(scene.known) == 200
        assert await scene.select(scene.member) == 200
        ends = "select ends_at <= now() + interval '12 hours' as soon from sessions where organization_id = %s and created_at > now() -"
        opened = arriving.people.rows(f"{ends} interval '1 minute'", arriving.acme.id)
        assert [row["soon"] for row in opened] == [True, True]
        hooked.say(GO_ON)
        assert await scene.login(scene.known) == 200
        newest = arriving.people.rows(
            "select ends_at > now() + interval '1 day' as late from sessions where organization_id = %s order by id desc limit 1",
            arriving.acme.id,
        )
        assert newest == [{"late": True}]


async def test_a_yes_in_another_session_after_the_no_takes_it_back_there(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    async with hooks.of(arriving.acme, scene.receiving, silence="go_on"):
        assert await scene.select(scene.refused) == 403
        scene.receiving.refuses.clear()
        other = arriving.people.session_of(scene.refused)
        assert await scene.select(other) == 200
        scene.receiving.is_out = True
        third = arriving.people.session_of(scene.refused)
        assert await scene.select(third) == 200
        # What the first session keeps itself stands until the hook says something else of it.
        assert await scene.select(scene.refused) == 403
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.refused)).status == 403
        # The yes was about the console.
        assert await scene.login(scene.refused) == 403


async def test_a_refusal_is_twelve_hours_old_at_most_in_another_browser(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    async with hooks.of(arriving.acme, scene.receiving, silence="go_on"):
        assert await scene.select(scene.refused) == 403
        scene.receiving.is_out = True
        other = arriving.people.session_of(scene.refused)
        assert await scene.select(other) == 403
        age(arriving, "13 hours")
        assert await scene.select(other) == 200
        assert await scene.select(scene.refused) == 403


async def test_owners_meet_no_refusal_under_a_silence(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    boss = await arriving.people.with_password(PASSWORD, "boss@acme.example")
    boss = arriving.people.session_of(arriving.tenants.join(boss, arriving.acme, "owner"))
    scene.receiving.refuses.add(str(boss.user))
    async with hooks.of(arriving.acme, scene.receiving, silence="refuse"):
        assert await scene.select(boss) == 200
        scene.receiving.is_out = True
        assert await scene.select(arriving.people.session_of(boss)) == 200
        assert await scene.login(boss) == 200


@pytest.mark.parametrize("silence", SILENCES)
async def test_an_owner_shows_what_was_asked_for_under_a_silence_too(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    """Or whoever knows the password of an owner alone would make the hook silent."""
    boss = await arriving.people.with_password(PASSWORD, "boss@acme.example")
    boss = arriving.people.session_of(arriving.tenants.join(boss, arriving.acme, "owner"))
    arriving.people.give_passkey(boss)
    scene = await staged(arriving, "fails")
    async with hooks.of(arriving.acme, {"decision": "passkey"}, silence=silence) as hooked:
        assert await scene.select(boss) == 403
        assert await scene.login(boss) == 403
        hooked.receiver.answer = answering(500)
        assert await scene.select(boss) == 403
        assert await scene.select(arriving.people.session_of(boss)) == 403
        # Whoever has lost it gets in, as under a demand.
        arriving.people.change("delete from passkeys where user_id = %s", boss.user)
        assert await scene.select(boss) == 200


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("silence", SILENCES)
async def test_an_owners_own_crowd_spares_no_factor(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    """Where nobody is asked, an owner shows what they have: or whoever knows the password alone would send nine requests at once."""
    boss = await arriving.people.with_password(PASSWORD, "boss@acme.example")
    boss = arriving.people.session_of(arriving.tenants.join(boss, arriving.acme, "owner"))
    arriving.people.give_passkey(boss)
    scene, said, got = await staged(arriving, "fails"), trio.Event(), list[int]()

    async def waits(stream: trio.abc.Stream, call: Call) -> bool:
        await said.wait()
        return await saying({"decision": "passkey"})(stream, call)

    async def one() -> None:
        got.append(await scene.login(boss))

    async with hooks.of(arriving.acme, waits, silence=silence, seconds=5):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
            await until(lambda: len(got) == 2)
            said.set()
        assert got == [403] * 10
        assert await scene.select(boss) == 403


@pytest.mark.parametrize("silence", SILENCES)
async def test_no_failure_of_a_hook_turns_an_owner_away(arriving: Arriving, hooks: Hooks, silence: str) -> None:
    """Owners come in whatever the hook does: nobody else can mend it."""
    scene = await staged(arriving, "fails")
    boss = await arriving.people.with_password(PASSWORD, "boss@acme.example")
    boss = arriving.people.session_of(arriving.tenants.join(boss, arriving.acme, "owner"))
    scene.receiving.fails_about.add(str(boss.user))
    async with hooks.of(arriving.acme, scene.receiving, silence=silence):
        assert await scene.press(boss, scene.select) == [200] * 10


async def test_a_refusal_outlives_the_session_that_kept_it(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    async with hooks.of(arriving.acme, scene.receiving, silence="go_on"):
        assert await scene.select(scene.refused) == 403
        arriving.people.change("delete from sessions where user_id = %s", scene.refused.user)
        scene.receiving.is_out = True
        assert await scene.select(arriving.people.session_of(scene.refused)) == 403
        assert await scene.login(scene.refused) == 403


async def test_what_one_organization_refuses_says_nothing_at_another(arriving: Arriving, hooks: Hooks) -> None:
    """Of the installation's hook, too: its no closes the organization alone that the sign-in led to."""
    scene = await staged(arriving, "fails")
    globex, grace = arriving.tenants.add("globex"), scene.refused
    arriving.tenants.join(grace, globex)
    theirs = Judging(KINDS["fails"], is_out=True)

    async def at_globex(session: Person) -> int:
        return (await arriving.request("POST", "/api/organizations/globex/select", by=session)).status

    async with (
        hooks.of(None, scene.receiving, silence="go_on"),
        hooks.of(globex, theirs, silence="go_on"),
    ):
        assert await scene.select(grace) == 403
        assert await scene.login(grace) == 403
        scene.receiving.is_out = True
        assert await at_globex(arriving.people.session_of(grace)) == 200
        assert await scene.select(arriving.people.session_of(grace)) == 403
        # Failures about the person at one are none at the other.
        await scene.press(scene.member, scene.select)
        assert await at_globex(arriving.people.session_of(grace)) == 200


async def test_a_yes_of_a_release_before_opens_everything_for_twelve_hours(arriving: Arriving, hooks: Hooks) -> None:
    scene = await staged(arriving, "fails")
    async with hooks.of(arriving.acme, scene.receiving) as hooked:
        arriving.people.change(
            "update sessions set hook_verdicts = jsonb_build_object(%s::text, jsonb_build_object('hook', %s::text, 'at',"
            " extract(epoch from now()), 'no', false)) where id = %s",
            f"{hooked.hook.counts_as}/{arriving.acme.id}",
            hooked.hook.id,
            scene.member.session,
        )
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.member)).status == 200
        # A no that comes later closes all of it.
        scene.receiving.refuses.add(str(scene.member.user))
        assert await scene.select(scene.member) == 403
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.member)).status == 403
        arriving.people.change(
            "update sessions set hook_verdicts = jsonb_build_object(%s::text, jsonb_build_object('hook', %s::text, 'at',"
            " extract(epoch from now() - interval '13 hours'), 'no', false)) where id = %s",
            f"{hooked.hook.counts_as}/{arriving.acme.id}",
            hooked.hook.id,
            scene.other_member.session,
        )
        assert (await arriving.request("GET", "/api/organizations/acme", by=scene.other_member)).status == 403
