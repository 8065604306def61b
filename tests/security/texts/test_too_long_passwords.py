"""A password that is longer than any is answered like a wrong one, at every door, and costs no more than a wrong one."""

import re
from time import process_time
from typing import Any, Final

import msgspec
import pytest

from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PAGES
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Client, Received
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.pages.test_sign_in_pages import to_password
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

# 60 KB: each letter comes apart into two marks, and to bring them into order takes time that grows with the square of their number.
MARKS: Final = "a" + "\u0344" * 15_000 + "\u0f73" * 10_000
TOO_LONG: Final = {"one more": "x" * (LONGEST_PASSWORD + 1), "begins with it": PASSWORD + "x" * LONGEST_PASSWORD, "6 KB": "x" * 6_000}
# Each door by which somebody shows a password, and each that takes a new one. A new field for a password belongs in one of them.
DOORS: Final = {
    "POST /api/auth/login password",
    "POST /api/auth/reauthenticate password",
    "POST /api/user/change-password current_password",
    "POST /ui/sign-in/password password",
    "POST /ui/prove password",
    "POST /ui/password current",
    "POST /ui/verify-email password",
    "POST /ui/verify-email/not-me password",
}
"""The last of them reads none. `tests/http/pages/test_address_proof_pages.py` sends one to the one before."""
NEW: Final = {
    "POST /api/auth/register password",
    "POST /api/auth/reset-password new_password",
    "POST /api/user/change-password new_password",
    "POST /api/user/set-password new_password",
    "POST /ui/invitations/accept/password password",
    "POST /ui/password new_password",
    "POST /ui/password repeated",
    "POST /ui/register password",
    "POST /ui/reset-password new_password",
    "POST /ui/reset-password repeated",
    "POST /ui/set-password new_password",
    "POST /ui/set-password repeated",
    "POST /ui/verify-email/new-password new_password",
    "POST /ui/verify-email/new-password repeated",
}


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def home(postern: Postern, people: People, client: Client, log: CapturedLog) -> AccountPagesScene:
    return AccountPagesScene(postern, people, client, log)


@pytest.fixture
async def ada(people: People, postern: Postern) -> Person:
    """Ada, with a password and a session."""
    person = people.add("ada@example.org")
    encoded = await postern.identity.passwords.hash(Password(PASSWORD))
    people.change("update users set email_verified_at = now(), password_hash = %s", encoded)
    return person


def told(answer: Received) -> tuple[int, Any]:
    body = answer.json()
    return answer.status, {name: value for name, value in body.items() if name != "timestamp"}


def test_every_password_of_a_request_is_known_here() -> None:
    def has_password(kind: Any) -> bool:
        kinds = getattr(kind, "types", (kind,))
        return any(getattr(one, "cls", None) is Password for one in kinds)

    found = {
        f"{one} {field.encode_name}"
        for one in (*ROUTES, *PAGES)
        if isinstance(one.body_type, type) and issubclass(one.body_type, msgspec.Struct)
        for field in msgspec.inspect.type_info(one.body_type).fields  # type: ignore[attr-defined]
        if has_password(getattr(field.type, "type", field.type))
    }
    assert found == DOORS | NEW


@pytest.mark.parametrize("text", TOO_LONG.values(), ids=TOO_LONG)
async def test_the_api_answers_as_to_a_wrong_password(client: Client, people: People, ada: Person, text: str) -> None:
    token = await people.token(ada)

    async def tried(password: str) -> list[tuple[int, Any]]:
        return [
            told(await client.post("/api/auth/login", {"email": ada.email, "password": password})),
            told(await client.post("/api/auth/login", {"email": "nobody@example.org", "password": password})),
            told(await client.post("/api/auth/reauthenticate", {"password": password}, token=token)),
            told(
                await client.post(
                    "/api/user/change-password", {"current_password": password, "new_password": "a lighthouse in the fog"}, token=token
                )
            ),
        ]

    wrong = await tried("a wrong password")
    assert [status for status, _ in wrong] == [401] * 4
    assert [answer["error"] for _, answer in wrong][-1] == "The current password is wrong"
    assert await tried(text) == wrong
    reasons = [row["reason"] for row in people.rows("select reason from login_events order by id")]
    assert len(reasons) % 2 == 0
    assert reasons[: len(reasons) // 2] == reasons[len(reasons) // 2 :]


@pytest.mark.parametrize("text", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_page_answers_as_to_a_wrong_password(home: AccountPagesScene, text: str) -> None:
    await home.has_password(PASSWORD)

    async def tried(password: str) -> list[tuple[int, str]]:
        arriving = await to_password(Tabs(home.client), home.ada.email)
        await arriving.send(password=password)
        await home.open("/ui/password")
        own = await home.send(current=password, new_password="a lighthouse in the fog", repeated="a lighthouse in the fog")
        shown = [(arriving.status, _plain(arriving.page.text)), (own.status, _plain(own.page.text))]
        home.grow_old()
        await home.open("/ui/profile/email")
        proving = await home.send(password=password)
        shown.append((proving.status, _plain(proving.page.text)))
        home.people.change("update sessions set proved_at = now()")
        return shown

    wrong = await tried("a wrong password")
    assert [status for status, _ in wrong] == [400] * 3
    assert await tried(text) == wrong


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


async def test_sixty_kilobytes_of_marks_cost_no_more_than_a_wrong_password(client: Client, people: People, ada: Person) -> None:
    """The processor time of the whole process, since the marks held the interpreter's lock in whatever thread: it was 5 to 20 seconds."""
    token = await people.token(ada)
    raw = msgspec.json.encode({"current_password": MARKS, "new_password": "a lighthouse in the fog"})
    assert len(raw) > 60_000
    began = process_time()
    answer = await client.post("/api/user/change-password", raw, token=token)
    assert (answer.status, answer.json()["error"]) == (401, "The current password is wrong")
    assert process_time() - began < 1


async def test_a_new_password_that_is_too_long_is_refused_for_its_length(client: Client, people: People, ada: Person) -> None:
    token = await people.token(ada)
    for text in (*TOO_LONG.values(), MARKS):
        answer = await client.post("/api/user/change-password", {"current_password": PASSWORD, "new_password": text}, token=token)
        assert (answer.status, answer.json()["error"]) == (400, f"The password must have at most {LONGEST_PASSWORD} characters")
