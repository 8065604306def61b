"""While a release rolls out, processes of the release before sign in, redeem and refresh by their statements, on the new schema, beside the
functions. Fifty requests of each bring the same code or token: one wins, nobody deadlocks, and no session is there that neither opened.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.postgres import statements
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.authorization_codes import REDEEM, REDEEM_WITH_SECRET
from adapters.postgres.identity.proofs import sign_in
from adapters.postgres.identity.sessions import refresh_tokens
from adapters.postgres.statements import Transaction
from core.domain.identity.sign_in import account_key
from core.domain.mail import Email
from core.domain.secrets import Password
from tests.adapters.postgres.worlds import former_sign_in, former_statements
from tests.http.client import Received
from tests.http.federation.relying import claims_of
from tests.http.locks import Statement
from tests.http.people import Person
from tests.http.signing_in import LOGIN, PASSWORD
from tests.patience import PATIENCE
from tests.security.gaps.meeting import GapScene, outcome

EACH: Final = 50
# So many of them wait for the lock in the order in which they began.
AT_LOCK: Final = 6
# So many guesses are left, of ten.
LEFT: Final = 4
# So many sign-ins are under way at a time. Each of them waits for a second at most, also on a machine with other work.
AT_ONCE: Final = 12
GRANT: Final = (400, "invalid_grant")
FORMER: Final = {
    REDEEM: former_statements.REDEEM,
    REDEEM_WITH_SECRET: former_statements.REDEEM_WITH_SECRET,
    refresh_tokens._ROTATE: former_statements.ROTATE,
    **{sign_in._FIND[which]: former for which, former in former_sign_in.FIND.items()},
    **{sign_in._LAST_LOOK[offers]: former for offers, former in former_sign_in.LAST_LOOK.items()},
}
of_release_before: ContextVar[bool] = ContextVar("of_release_before", default=False)


@pytest.fixture(autouse=True)
def told_apart(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Lets the requests of the release before send their statements. Counts what is sent, by its beginning."""
    sent: Counter[str] = Counter()

    def as_sent(statement: Any) -> Any:
        former = FORMER.get(statement) if of_release_before.get() else None
        if statement in FORMER:
            sent["today" if former is None else "before"] += 1
        return statement if former is None else former

    for module, name in ((statements, "ask_in_order"), (refresh_tokens, "ask"), (sign_in, "ask"), (Transaction, "ask")):
        asks = getattr(module, name)

        async def ask(pool: Pool | Transaction, row: Any, statement: Any, parameters: Any = None, asks: Any = asks) -> Any:
            return await asks(pool, row, as_sent(statement), parameters)

        monkeypatch.setattr(module, name, ask)
    return sent


async def of_each(meeting: GapScene, lock: Statement, ask: Callable[[], Awaitable[Received]], *, before_first: bool) -> list[Received]:
    """The answers to fifty requests of each release, which begin in turn and meet at a lock of somebody else."""
    answers: list[Received] = []

    async def one(*, before: bool) -> None:
        of_release_before.set(before)
        answers.append(await ask())

    with psycopg.connect(meeting.database_url) as other:
        meeting.hold(other, lock)
        async with trio.open_nursery() as nursery:
            for number in range(2 * EACH):
                nursery.start_soon(partial(one, before=before_first is (number % 2 == 0)))
                if number < AT_LOCK:
                    await meeting.people.all_wait(number + 1)
            other.rollback()
    return answers


@pytest.mark.parametrize("before_first", [False, True])
@pytest.mark.parametrize("kind", ["shop", "page"])
async def test_one_code(meeting: GapScene, told_apart: Counter[str], kind: str, *, before_first: bool) -> None:
    application = meeting.shop if kind == "shop" else meeting.page
    code = await meeting.plain(application)
    answers = await of_each(meeting, meeting.account, partial(meeting.redeem, application, code), before_first=before_first)
    assert Counter(map(outcome, answers)) == {(200, "tokens"): 1, GRANT: 2 * EACH - 1}
    assert min(told_apart.values()) >= EACH
    (winner,) = [meeting.kept(answer.json()) for answer in answers if answer.status == 200]
    (opened,) = meeting.opened()
    assert (str(opened["id"]), opened["revoked_at"]) == (claims_of(winner["access_token"])["sid"], None)
    assert len(meeting.people.rows("select from refresh_tokens")) == len(meeting.people.rows("select from login_events")) == 1
    meeting.kept((await meeting.refresh(application, winner["refresh_token"])).ok())


@pytest.mark.parametrize("before_first", [False, True])
async def test_one_refresh_token(meeting: GapScene, told_apart: Counter[str], *, before_first: bool) -> None:
    tokens = await meeting.signed_in(meeting.shop)
    told_apart.clear()
    row = meeting.token(sha256(tokens["refresh_token"].encode()).digest())
    answers = await of_each(meeting, row, partial(meeting.refresh, meeting.shop, tokens["refresh_token"]), before_first=before_first)
    # All of them are one client that repeats itself, and get the same successor.
    successors = {meeting.kept(answer.ok())["refresh_token"] for answer in answers}
    assert len(successors) == 1
    assert min(told_apart.values()) >= EACH
    (opened,) = meeting.opened()
    assert opened["revoked_at"] is None
    assert len(meeting.people.rows("select from refresh_tokens")) == 2
    meeting.kept((await meeting.refresh(meeting.shop, successors.pop())).ok())


@pytest.mark.parametrize("before_first", [False, True])
async def test_many_codes_and_tokens_of_one_person(meeting: GapScene, told_apart: Counter[str], *, before_first: bool) -> None:
    """Different codes and tokens take the same account, the same browser's session and the same place in the service."""
    tokens = [await meeting.signed_in(application) for application in (meeting.shop, meeting.page)]
    codes = [await meeting.plain(application) for application in (meeting.shop, meeting.page) for _ in range(10)]
    told_apart.clear()
    answers: list[Received] = []

    async def one(ask: Callable[[], Awaitable[Received]], *, before: bool) -> None:
        of_release_before.set(before)
        answers.append(await ask())

    async with trio.open_nursery() as nursery:
        for number, code in enumerate(codes):
            application = meeting.shop if number < len(codes) / 2 else meeting.page
            before = before_first is (number % 2 == 0)
            nursery.start_soon(partial(one, partial(meeting.redeem, application, code), before=before))
            token = tokens[number % 2]["refresh_token"]
            holder = (meeting.shop, meeting.page)[number % 2]
            nursery.start_soon(partial(one, partial(meeting.refresh, holder, token), before=number % 4 < 2))
    assert Counter(map(outcome, answers)) == {(200, "tokens"): 2 * len(codes)}
    for answer in answers:
        meeting.kept(answer.json())
    assert told_apart["before"] >= len(codes)
    assert [row["revoked_at"] for row in meeting.opened()] == [None] * (len(codes) + 2)


@pytest.mark.parametrize("before_first", [False, True])
async def test_as_many_guesses_of_one_person_as_there_are(meeting: GapScene, told_apart: Counter[str], *, before_first: bool) -> None:
    """Those that have a guess meet at the account, and sign in one after the other. The others get no hash, and wait for nobody."""
    body, key = await with_password(meeting, meeting.ada), account_key(Email(meeting.ada.email))
    meeting.people.change(
        "insert into rate_limit_buckets values ('sign_in_account', %s, %s, clock_timestamp(), 0, now() + interval '1 hour')", key, LEFT
    )
    answers: list[Received] = []

    async def one(*, before: bool) -> None:
        of_release_before.set(before)
        answers.append(await meeting.client.post(LOGIN, body))

    with psycopg.connect(meeting.database_url) as other:
        meeting.hold(other, meeting.account)
        async with trio.open_nursery() as nursery:
            for number in range(2 * EACH):
                nursery.start_soon(partial(one, before=before_first is (number % 2 == 0)))
            with trio.fail_after(PATIENCE):
                while len(answers) < 2 * EACH - LEFT:
                    await trio.sleep(0.01)
            assert {answer.status for answer in answers} == {429}
            await meeting.people.all_wait(LEFT)
            other.rollback()
    assert Counter(answer.status for answer in answers) == {200: LEFT, 429: 2 * EACH - LEFT}
    for answer in answers:
        if answer.status == 200:
            meeting.kept(answer.json())
    assert min(told_apart.values()) >= EACH
    assert len(meeting.people.rows("select from sessions where device_id is not null and revoked_at is null")) == LEFT
    assert len(meeting.people.rows("select from login_events where success")) == LEFT
    assert len(meeting.people.rows("select from login_events where reason = 'throttled'")) == 2 * EACH - LEFT


@pytest.mark.parametrize("before_first", [False, True])
async def test_many_sign_ins_of_several_people(meeting: GapScene, told_apart: Counter[str], *, before_first: bool) -> None:
    """Fifty of each by ten people take the same accounts, buckets, devices and places in the service. Nobody deadlocks."""
    people = [meeting.people.proved(f"guest-{number}@example.org") for number in range(10)]
    bodies = [await with_password(meeting, person) for person in people]
    told_apart.clear()
    answers: list[Received] = []
    at_once = trio.CapacityLimiter(AT_ONCE)

    async def one(body: Mapping[str, str], *, before: bool) -> None:
        of_release_before.set(before)
        async with at_once:
            answers.append(await meeting.client.post(LOGIN, body))

    async with trio.open_nursery() as nursery:
        for number in range(2 * EACH):
            nursery.start_soon(partial(one, bodies[number // 2 % len(bodies)], before=before_first is (number % 2 == 0)))
    assert Counter(answer.status for answer in answers) == {200: 2 * EACH}
    for answer in answers:
        meeting.kept(answer.json())
    assert min(told_apart.values()) >= 2 * EACH
    assert len(meeting.people.rows("select from login_events where success")) == 2 * EACH
    # Whoever signs in has its guess back.
    assert [row["tokens"] for row in meeting.people.rows("select tokens from rate_limit_buckets")] == [10] * len(people)


async def with_password(meeting: GapScene, person: Person) -> Mapping[str, str]:
    hashed = await meeting.postern.identity.passwords.hash(Password(PASSWORD))
    meeting.people.change("update users set password_hash = %s, email_verified_at = now() where id = %s", hashed, person.user)
    return {"email": person.email, "password": PASSWORD, "org_slug": "acme", "service_slug": "shop"}
