"""The notice above the sign-in: a text of the organization's own, and from when until when it stands there."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.domain.branding import Font, Look
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.signing_in import unlimited
from tests.http.tenancy.texts.written_texts import write_texts

NOTICE = "We are away on Friday."


class Noticing(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "admin")

    async def ask(self, method: str, body: Any = None, *, by: Person | None = None, of: str = "acme") -> Received:
        return await self.request(method, f"/api/organizations/{of}/notice", body, by=by)

    async def stands(self, of: str = "acme") -> bool:
        answer = await self.client.get(f"/ui/register?org_slug={of}")
        return NOTICE in answer.body.decode()


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Noticing:
    made = Noticing(postern, people, unlimited(postern), log)
    write_texts(people, "acme", {"en": {"own.notice": NOTICE}})
    return made


def at(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


async def test_a_notice_stands_from_its_begin_to_its_end(scene: Noticing) -> None:
    assert (await scene.ask("GET")).ok() == {"begins_at": None, "ends_at": None}
    assert (await scene.stands(), await scene.stands("globex")) == (True, False)
    for times, stands in (((1, 2), False), ((-1, 1), True), ((-2, -1), False), ((None, 1), True), ((-1, None), True), ((1, None), False)):
        body = {name: None if hours is None else at(hours) for name, hours in zip(("begins_at", "ends_at"), times, strict=True)}
        answer = (await scene.ask("PUT", body)).ok()
        assert [None if one is None else datetime.fromisoformat(one) for one in answer.values()] == [
            None if one is None else datetime.fromisoformat(one) for one in body.values()
        ]
        assert await scene.stands() is stands, times
    assert (await scene.ask("PUT", {})).ok() == {"begins_at": None, "ends_at": None} == (await scene.ask("GET")).ok()
    assert scene.people.rows("select look from organizations where slug = 'acme'") == [{"look": None}]


async def test_the_rest_of_the_look_stays(scene: Noticing) -> None:
    scene.people.change("""update all_organizations set look = '{"corner": 4}' where slug = 'acme'""")
    await scene.ask("PUT", {"begins_at": at(-1)})
    (row,) = scene.people.rows(
        "select look::jsonb ->> 'corner' as corner, look::jsonb ? 'notice_from' as begun from organizations where slug = 'acme'"
    )
    assert row == {"corner": "4", "begun": True}


async def test_equal_looks_are_equal_texts_so_they_can_move(scene: Noticing) -> None:
    look = Look(corner=4, font=Font.SERIF, second_color="#123456")
    scene.people.change(f"update all_organizations set look = '{look.as_text()}' where slug = 'acme'")
    await scene.ask("PUT", {"begins_at": "2030-01-01T12:00:00Z"})
    (row,) = scene.people.rows("select look from organizations where slug = 'acme'")
    assert row["look"] == replace(look, notice_from="2030-01-01T12:00:00+00:00").as_text()


async def test_what_changed_is_told_once(scene: Noticing) -> None:
    body = {"ends_at": "2030-01-01T12:00:00+01:00"}
    for _ in range(2):
        assert (await scene.ask("PUT", body)).ok() == {"begins_at": None, "ends_at": "2030-01-01T11:00:00Z"}
    (told,) = scene.audited("notice.updated")
    assert told["details"] == {
        "before": {"begins_at": None, "ends_at": None},
        "after": {"begins_at": None, "ends_at": "2030-01-01T11:00:00+00:00"},
    }


@pytest.mark.parametrize(
    "body",
    [
        {"begins_at": at(2), "ends_at": at(1)},
        {"begins_at": "2030-01-01T12:00:00"},
        {"ends_at": "soon"},
        {"begins_at": "0001-01-01T00:00:00+14:00"},
        {"ends_at": "9999-12-31T23:59:59-14:00"},
    ],
)
async def test_times_that_cannot_be_are_refused(scene: Noticing, body: dict[str, str]) -> None:
    assert (await scene.ask("PUT", body)).status == 400


async def test_members_read_and_those_who_manage_the_settings_change(scene: Noticing) -> None:
    member, stranger = scene.resident(scene.acme, "member"), scene.resident(scene.globex, "owner")
    assert ((await scene.ask("GET", by=member)).status, (await scene.ask("PUT", {}, by=member)).status) == (200, 403)
    assert {(await scene.ask(method, {} if method == "PUT" else None, by=stranger)).status for method in ("GET", "PUT")} == {403}


async def test_the_notice_of_the_installation_stands_where_the_organization_has_none(scene: Noticing) -> None:
    write_texts(scene.people, None, {"en": {"own.notice": "House notice"}})
    await scene.postern.foundation.installation_words.read()
    pages = [(await scene.client.get(f"/ui/register?org_slug={of}")).body.decode() for of in ("acme", "globex")]
    assert [("House notice" in page, NOTICE in page) for page in pages] == [(False, True), (True, False)]


async def test_the_notice_of_the_installation_stands_where_that_of_the_organization_is_over(scene: Noticing) -> None:
    write_texts(scene.people, None, {"en": {"own.notice": "House notice"}})
    await scene.postern.foundation.installation_words.read()
    for times, shown in (((-1, 1), NOTICE), ((-2, -1), "House notice"), ((1, 2), "House notice")):
        await scene.ask("PUT", {"begins_at": at(times[0]), "ends_at": at(times[1])})
        page = (await scene.client.get("/ui/register?org_slug=acme")).body.decode()
        assert [one for one in (NOTICE, "House notice") if one in page] == [shown]
