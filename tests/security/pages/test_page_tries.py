"""The pages' own limit: a whole office can sign in behind one address, and guessing from there is stopped all the same."""

from uuid import uuid4

import trio

from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.machinery.limits import PAGE_SIGN_INS
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.machinery.limited import until_refused
from tests.http.people import People
from tests.http.signing_in import PASSWORD
from tests.patience import PATIENCE

database_url, postern, people = http.database_url, http.postern, http.people


async def test_an_office_behind_one_address_signs_in_at_once(postern: Postern, people: People) -> None:
    first = await people.with_password(PASSWORD, "p0@example.org")
    (row,) = people.rows("select password_hash from users where id = %s", first.user)
    for number in range(1, 200):
        person = people.add(f"p{number}@example.org")
        people.change("update users set password_hash = %s, email_verified_at = now() where id = %s", row["password_hash"], person.user)
    client = Client(build_application(postern, SETTINGS), "203.0.113.7")
    statuses: list[int] = []
    # As many as a busy machine serves without a 503. The limit counts what came, not what came together.
    at_once = trio.CapacityLimiter(8)

    async def sign_in(number: int) -> None:
        async with at_once:
            statuses.append(await signed_in(number))

    async def signed_in(number: int) -> int:
        tabs = Tabs(client)
        tab = await tabs.tab().open("/ui/sign-in")
        await tab.send(email=f"p{number}@example.org")
        form = tab.page.forms[0]
        answer = await tabs.request("POST", form.action, {**form.fields, "password": PASSWORD})
        return answer.status

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(sign_in, number)
    assert statuses == [303] * 200


async def test_guessing_from_one_address_stops_and_who_guesses_right_spares_only_that(postern: Postern, people: People) -> None:
    ada = await people.with_password(PASSWORD, "ada@example.org")
    client = Client(build_application(postern, SETTINGS), "203.0.113.8")
    tabs = Tabs(client)
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    form = tab.page.forms[0]

    async def guess() -> Received:
        return await tabs.request("POST", form.action, {**form.fields, "email": f"{uuid4()}@example.org", "password": "guess"})

    statuses, _ = await until_refused(PAGE_SIGN_INS, guess)
    assert set(statuses) == {400}
    # The right password is refused, too, until the bucket has filled up again: not in this test. From another address it works at once.
    people.change("update rate_limit_buckets set at = now() + interval '1 hour' where limit_name = %s", PAGE_SIGN_INS.name)
    assert (await tabs.request("POST", form.action, {**form.fields, "password": PASSWORD})).status == 429
    tabs.client = Client(build_application(postern, SETTINGS), "203.0.113.9")
    assert (await tabs.request("POST", form.action, {**form.fields, "password": PASSWORD})).status == 303
