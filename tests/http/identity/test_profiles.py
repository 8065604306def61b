"""Profiles over HTTP: what a person says of themselves, and what applications see of it."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
import trio

from core.domain.errors import Conflict, NotFound
from core.domain.identifiers import UserId
from core.domain.identity.profiles import USERNAME_CHANGES, OwnProfileChange, StatedProfile
from core.domain.record.events import SYSTEM
from entrypoints.bootstrap import Postern
from tests.http.client import Client, Received
from tests.http.identity.test_accounts import impersonating
from tests.http.people import BASE_URL, People, Person
from tests.pictures import drawn_jpeg, drawn_png, drawn_webp, part, png, segment, webp

ADA = {
    "name": "Ada Lovelace",
    "given_name": "Ada",
    "family_name": "Lovelace",
    "username": "ada.lovelace",
    "zoneinfo": "Europe/Vienna",
    "language": "de",
}
SECRET = b"48.2082 N 16.3738 E"
USER, PICTURE = "/api/user", "/api/user/picture"


async def change(client: Client, token: str, **fields: Any) -> Received:
    return await client.request("PATCH", USER, body=fields, token=token)


async def put(client: Client, token: str, content: bytes, media_type: str | None = "image/png") -> Received:
    headers = [("content-type", media_type)] if media_type else []
    return await client.exchange("PUT", PICTURE, [("authorization", f"Bearer {token}"), *headers], [content])


def entries(people: People, person: Person) -> list[dict[str, Any]]:
    return people.rows("select action, details from audit_log where target_id = %s order by id", str(person.user))


async def test_a_person_writes_their_profile(client: Client, people: People) -> None:
    ada = people.add()
    token = await people.token(ada)
    written = (await change(client, token, **ADA)).ok()
    assert {field: written[field] for field in ADA} == ADA
    assert written["updated_at"] is not None
    assert (await client.get(USER, token=token)).json() == written
    # The keys that changed, and no value.
    (entry,) = entries(people, ada)
    assert entry == {"action": "user.profile.updated", "details": {"changed": [*ADA]}}
    assert not any(value in str(people.rows("select * from events")) for value in ("Lovelace", "Vienna"))
    assert (await change(client, token, **ADA)).json() == written, "nothing changes, so nothing is written"
    assert len(entries(people, ada)) == 1
    emptied = (await change(client, token, **dict.fromkeys(ADA))).ok()
    assert {emptied[field] for field in ADA} == {None}
    assert emptied["updated_at"] > written["updated_at"]


async def test_a_field_that_is_left_out_stays(client: Client, people: People) -> None:
    token = await people.token(people.add())
    await change(client, token, **ADA)
    after = (await change(client, token, name="A. Lovelace")).ok()
    assert {field: after[field] for field in ADA} == {**ADA, "name": "A. Lovelace"}
    assert (await change(client, token)).json() == after


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 201),
        ("given_name", "a\nb"),
        ("family_name", "a\u202eb"),
        ("family_name", 7),
        ("username", "ab"),
        ("username", "Ada"),
        ("username", "admin"),
        ("zoneinfo", "Mars/Base"),
        ("language", "tlh"),
    ],
)
async def test_a_value_that_does_not_fit_changes_nothing(client: Client, people: People, field: str, value: object) -> None:
    ada = people.add()
    token = await people.token(ada)
    before = (await client.get(USER, token=token)).json()
    answer = (
        await change(client, token, **{"zoneinfo": "UTC", field: value})
        if field != "zoneinfo"
        else await change(client, token, zoneinfo=value)
    )
    if field == "picture_id":
        return  # an unknown field is ignored, as everywhere
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert field in answer.json()["error"]
    assert (await client.get(USER, token=token)).json() == before


async def test_profile_and_address_change_together_or_not_at_all(client: Client, people: People) -> None:
    ada, eve = people.add("ada@example.org"), people.add("eve@example.org")
    token = await people.token(ada)
    await change(client, await people.token(eve), username="taken")
    for body, status in (({"email": "eve@example.org", "name": "Ada"}, 400), ({"email": "new@example.org", "username": "taken"}, 409)):
        assert (await change(client, token, **body)).status == status
    assert people.rows("select name, pending_email from users where id = %s", ada.user) == [{"name": None, "pending_email": None}]
    both = (await change(client, token, email="new@example.org", name="Ada")).ok()
    assert (both["name"], both["email"], both["pending_email"]) == ("Ada", "ada@example.org", "new@example.org")


class TestUserNames:
    async def test_a_name_is_never_issued_twice(self, client: Client, people: People) -> None:
        ada, eve = people.add(), people.add()
        ours, theirs = await people.token(ada), await people.token(eve)
        assert (await change(client, ours, username="countess")).status == 200
        assert (await change(client, theirs, username="countess", name="Eve")).error_code == "CONFLICT"
        assert (await client.get(USER, token=theirs)).json()["name"] is None
        assert (await change(client, ours, username="ada")).status == 200
        for token in (theirs, ours):
            assert (await change(client, token, username="countess")).status == 409
        assert (await change(client, ours, username=None)).status == 200
        people.change("delete from users where id = %s", ada.user)
        assert (await change(client, theirs, username="ada")).status == 409
        (stored,) = people.rows("select string_agg(encode(digest, 'escape'), '') as kept, count(*) from used_usernames")
        assert stored["count"] == 2
        assert "ada" not in stored["kept"]

    async def test_the_same_name_once_more_is_no_change(self, client: Client, people: People) -> None:
        token = await people.token(people.add())
        for _ in range(USERNAME_CHANGES.burst + 2):
            assert (await change(client, token, username="ada")).status == 200

    async def test_names_are_not_tried_out(self, client: Client, people: People) -> None:
        token = await people.token(people.add())
        for number in range(USERNAME_CHANGES.burst):
            assert (await change(client, token, username=f"ada{number}")).status == 200
        assert (await change(client, token, username="another")).status == 429

    async def test_of_many_who_want_one_name_one_gets_it(self, postern: Postern, people: People) -> None:
        racers = [UserId(people.add().user) for _ in range(12)]
        won: list[UserId] = []

        async def run(user: UserId) -> None:
            for _ in range(4):
                with suppress(Conflict):
                    await postern.identity.profiles.change(user, OwnProfileChange(username="wanted"), SYSTEM, username=None)
                    won.append(user)

        async with trio.open_nursery() as nursery:
            for user in racers:
                nursery.start_soon(run, user)
        (holder,) = people.rows("select id from users where username = 'wanted'")
        assert set(won) == {holder["id"]}
        assert people.rows("select count(*) from used_usernames") == [{"count": 1}]

    async def test_a_request_that_knows_an_older_name_gets_no_name_for_nothing(self, postern: Postern, people: People) -> None:
        """The request's look-up saw `countess`; another request has moved on since. The name is used up, so it does not come back."""
        ada = UserId(people.add().user)
        for name in ("countess", "ada"):
            await postern.identity.profiles.change(ada, OwnProfileChange(username=name), SYSTEM, username=None)
        with pytest.raises(Conflict):
            await postern.identity.profiles.change(ada, OwnProfileChange(username="countess"), SYSTEM, username="countess")


async def test_what_a_provider_tells_of_an_account_that_has_ended_is_written_nowhere(postern: Postern, people: People) -> None:
    async with postern.foundation.unit_of_work() as uow:
        await postern.identity.profiles.fill(uow, UserId(UUID(int=7)), StatedProfile(name="Ada"), SYSTEM, "websuite")
        await uow.commit()
    assert people.rows("select from users") == []
    assert people.rows("select from audit_log") == []


async def test_an_impersonator_reads_a_profile_and_writes_none(client: Client, people: People, postern: Postern) -> None:
    ada = people.add()
    token = await people.token(ada)
    await change(client, token, **ADA)
    impersonator = await impersonating(people, ada, postern)
    assert (await client.get(USER, token=impersonator)).ok()["name"] == "Ada Lovelace"
    for answer in (
        await change(client, impersonator, name="Eve"),
        await put(client, impersonator, drawn_png()),
        await client.request("DELETE", PICTURE, token=impersonator),
    ):
        assert (answer.status, answer.error_code) == (403, "FORBIDDEN")


class TestPictures:
    @pytest.mark.parametrize(
        ("media_type", "sent", "kept"),
        [
            ("image/jpeg", drawn_jpeg(segment(0xE1, b"Exif\0\0" + SECRET)), drawn_jpeg()),
            ("image/png", drawn_png(2, 2, png()[:0]), drawn_png()),
            ("image/webp", drawn_webp(part(b"EXIF", SECRET)), None),
        ],
    )
    async def test_a_picture_is_shown_to_everybody_who_has_its_address(
        self, client: Client, people: People, media_type: str, sent: bytes, kept: bytes | None
    ) -> None:
        ada = people.add()
        token = await people.token(ada)
        url = (await put(client, token, sent, media_type)).ok()["picture_url"]
        assert url.startswith(f"{BASE_URL}/pictures/")
        assert (await client.get(USER, token=token)).json()["picture_url"] == url
        shown = await client.get(url.removeprefix(BASE_URL))
        assert (shown.status, shown.header("content-type"), shown.header("x-content-type-options")) == (200, media_type, "nosniff")
        assert shown.header("cache-control") == "public, max-age=31536000, immutable"
        assert shown.header("content-security-policy") == "default-src 'none'; frame-ancestors 'none'"
        assert SECRET not in shown.body
        assert kept is None or shown.body == kept
        assert [one["action"] for one in entries(people, ada)] == ["user.picture.set"]

    async def test_a_new_picture_has_a_new_address_and_the_old_one_ends(self, client: Client, people: People) -> None:
        ada = people.add()
        token = await people.token(ada)
        first, second = [(await put(client, token, drawn_png())).ok()["picture_url"].removeprefix(BASE_URL) for _ in range(2)]
        assert first != second
        assert [(await client.get(one)).status for one in (first, second)] == [404, 200]
        for _ in range(2):
            assert (await client.request("DELETE", PICTURE, token=token)).status == 204
        assert (await client.get(second)).status == 404
        assert (await client.get(USER, token=token)).json()["picture_url"] is None
        assert [one["action"] for one in entries(people, ada)] == ["user.picture.set", "user.picture.set", "user.picture.removed"]

    @pytest.mark.parametrize(
        ("media_type", "content", "status"),
        [
            ("image/gif", b"GIF89a", 415),
            ("image/svg+xml", b"<svg/>", 415),
            ("application/json", b"{}", 415),
            (None, drawn_png(), 415),
            ("image/png", drawn_png() + b"\0" * (256 << 10), 413),
            ("image/png", b"", 400),
            ("image/png", b"<svg/>", 400),
            ("image/png", drawn_jpeg(), 400),
            ("image/png", png(), 400),
            ("image/png", drawn_png(2049, 1), 400),
            ("image/jpeg", drawn_jpeg(height=0), 400),
            ("image/webp", webp("VP8X", 2049), 400),
        ],
    )
    async def test_what_is_no_picture_changes_nothing(
        self, client: Client, people: People, media_type: str | None, content: bytes, status: int
    ) -> None:
        answer = await put(client, await people.token(people.add()), content, media_type)
        assert answer.status == status
        assert people.rows("select from pictures") == []

    async def test_an_account_that_has_ended_gets_no_picture(self, postern: Postern, people: People) -> None:
        with pytest.raises(NotFound, match="There is no such account"):
            await postern.identity.pictures.put(UserId(UUID(int=7)), drawn_png(), SYSTEM)
        assert people.rows("select from pictures") == []
        assert people.rows("select from audit_log") == []

    @pytest.mark.parametrize("picture", [str(UUID(int=7)), "7", "../logos", "%00"])
    async def test_an_unknown_picture(self, client: Client, picture: str) -> None:
        assert (await client.get(f"/pictures/{picture}")).status in {400, 404}
