"""Budgets of mails: everybody is asked alike when one is used up, what waits goes out later, and a stranger cannot use up another's."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families

from actors.job_worker import JobDelayed
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB, AccountMail, AskedMail
from core.domain.identity.devices import Client as Sender
from core.domain.identity.registering import FIRST_OF_HOUR, AskedFrom, BudgetScope
from core.domain.identity.sign_in import account_key
from core.domain.mail import Email
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import Neighbours
from tests.http.client import Client, Received
from tests.http.conftest import postern_on, with_keys
from tests.http.pages.solving import solve
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited

BUDGETS: Final = "/api/platform/mail-budgets"
FORGOT, REGISTER, LINK, RESEND = (f"/api/auth/{name}" for name in ("forgot-password", "register", "magic-link", "resend-verification"))
KNOWN, UNKNOWN = "ada@acme.example", "nobody@acme.example"


WIDE: Final = {"POSTERN_MAILS_PER_NETWORK": "9"}
WITHOUT_PUZZLES: Final = {**WIDE, "POSTERN_PUZZLES": "off"}


@pytest.fixture
def more(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"POSTERN_MAILS_PER_NETWORK": "2", "POSTERN_MAILS_PER_DOMAIN": "4", **getattr(request, "param", {})}


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, more: dict[str, str]) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


def at(postern: Postern, network: int) -> Client:
    return unlimited(postern, address=f"198.51.{network}.7")


async def forget(postern: Postern, network: int, email: str = UNKNOWN, path: str = FORGOT) -> Received:
    return await at(postern, network).post(path, {"email": email})


async def use_up_domain(postern: Postern, email: str = UNKNOWN) -> None:
    for network in (1, 1, 2, 2):
        assert (await forget(postern, network, email)).status == 200


async def page_of(postern: Postern, network: int, email: str) -> Tab:
    tab = await Tabs(at(postern, network)).tab().open("/ui/forgot-password")
    return await tab.send(email=email)


async def solved(tab: Tab, **fields: str) -> Tab:
    form, body = tab.page.forms[0].fields, tab.shown.body.decode()
    bits = int(body.partition('data-bits="')[2].partition('"')[0])
    return await tab.send(**fields, solution=solve(form["challenge"], bits + 3))


def budget(people: People, scope: str, lane: str = "open") -> dict[str, int]:
    (row,) = people.rows("select taken, waiting, held from mail_budgets where scope = %s and lane = %s", scope, lane)
    return row


@pytest.mark.parametrize("path", [FORGOT, LINK, RESEND])
async def test_over_the_budget_the_api_answers_all_alike(postern: Postern, people: People, path: str) -> None:
    await people.with_password(PASSWORD, KNOWN)
    for email in (KNOWN, UNKNOWN):
        assert (await forget(postern, 1, email, path)).status == 200
    answers = [await forget(postern, 1, email, path) for email in (KNOWN, UNKNOWN)]
    assert [one.status for one in answers] == [429, 429]
    assert answers[0].json()["error"] == answers[1].json()["error"]
    assert all(0 < int(one.header("retry-after") or "") <= 3600 for one in answers)
    # Elsewhere all is well.
    assert (await forget(postern, 2, KNOWN, path)).status == 200


async def test_registering_beyond_the_budget_hashes_and_writes_nothing(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, KNOWN)
    for email in (UNKNOWN, UNKNOWN):
        await forget(postern, 1, email)
    jobs = people.rows("select id from jobs")
    for email in (KNOWN, UNKNOWN):
        answer = await at(postern, 1).post(REGISTER, {"email": email, "password": PASSWORD})
        assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    tabs = Tabs(at(postern, 1))
    for email in (KNOWN, UNKNOWN):
        tab = await (await tabs.tab().open("/ui/register")).send(email=email, password=PASSWORD)
        assert tab.status == 429
        assert "Too many emails were requested from here" in tab.page.text
        assert tab.page.forms[0].fields["email"] == email
    assert people.rows("select id from jobs") == jobs
    assert len(people.rows("select id from users")) == 1
    assert people.rows("select id from flows") == []
    assert budget(people, "network") == {"taken": 2, "waiting": 0, "held": 4}
    assert budget(people, "installation")["taken"] == 2


async def test_whoever_solves_a_puzzle_uses_a_budget_of_their_own(postern: Postern, people: People) -> None:
    for _ in range(2):
        await forget(postern, 1)
    tabs, answers = Tabs(at(postern, 1)), list[Tab]()
    for number in range(3):
        email = f"eve{number}@acme.example"
        tab = await (await tabs.tab().open("/ui/register")).send(email=email, password=PASSWORD)
        assert tab.status == 429
        answers.append(await solved(tab, email=email, password=PASSWORD))
    assert all(tab.place.startswith("/ui/check-mail") for tab in answers[:2])
    # Their budget is as large as everybody's, and ends as well.
    assert answers[2].status == 429
    assert len(people.rows("select id from users")) == 2
    assert budget(people, "network", "solved")["taken"] == 2


@pytest.mark.parametrize("email", [KNOWN, UNKNOWN])
async def test_a_page_asks_everybody_for_a_puzzle(postern: Postern, people: People, email: str) -> None:
    await people.with_password(PASSWORD, KNOWN)
    for _ in range(2):
        await forget(postern, 1)
    tab = await page_of(postern, 1, email)
    assert tab.status == 400
    assert "Too many emails were requested from here" in tab.page.text
    assert people.rows("select id from flows") == []
    await solved(tab, email=email)
    assert tab.place.startswith("/ui/check-mail")
    assert "may take a few hours" not in tab.page.text


@pytest.mark.parametrize("more", [WIDE], indirect=True)
async def test_a_stranger_who_uses_up_a_domain_keeps_no_mail_from_its_people(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, KNOWN)
    postbox = Postbox(postern)
    await use_up_domain(postern)
    assert [mail.to for mail in await postbox.empty()] == []
    tab = await page_of(postern, 3, KNOWN)
    assert tab.status == 400
    await solved(tab, email=KNOWN)
    assert tab.place.startswith("/ui/check-mail")
    assert [mail.to for mail in await postbox.empty()] == [KNOWN]


@pytest.fixture
def neighbours(postern: Postern, people: People, log: CapturedLog) -> Neighbours:
    return Neighbours(postern, people, unlimited(postern), log)


async def asked_without_puzzles(postern: Postern, email: str, network: int = 3) -> Tab:
    tab = await page_of(postern, network, email)
    assert tab.place.startswith("/ui/check-mail")
    return tab


@pytest.mark.parametrize("more", [WITHOUT_PUZZLES], indirect=True)
async def test_without_puzzles_the_page_says_to_all_that_the_mail_comes_later(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, KNOWN)
    await use_up_domain(postern)
    said = [(await asked_without_puzzles(postern, email)).page.text.replace(email, "…") for email in (KNOWN, UNKNOWN)]
    assert said[0] == said[1]
    assert "email may take a few hours" in said[0]
    assert budget(people, "mail_domain") == {"taken": 4, "waiting": 2, "held": 2}


@pytest.mark.parametrize("more", [WITHOUT_PUZZLES], indirect=True)
async def test_the_first_mail_of_a_mailbox_comes_from_the_reserve(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, KNOWN)
    await use_up_domain(postern)
    postbox = Postbox(postern)
    await postbox.empty()
    await asked_without_puzzles(postern, KNOWN)
    assert [mail.to for mail in await postbox.empty()] == [KNOWN]
    assert budget(people, "mail_domain", "reserve")["taken"] == 1


@pytest.mark.parametrize("more", [WITHOUT_PUZZLES], indirect=True)
async def test_whoever_asks_for_what_a_mailbox_does_not_get_takes_no_turn_from_it(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, KNOWN)
    await use_up_domain(postern)
    postbox = Postbox(postern)
    await postbox.empty()
    # A stranger asks to verify an address that is verified, which no mail comes of.
    client = Sender("198.51.9.7", "")
    assert await postern.identity.accounts.ask_as_stranger(AccountMail.VERIFICATION, Email(KNOWN), "", client, may_wait=True)
    with pytest.raises(JobDelayed):
        await postbox.empty()
    await asked_without_puzzles(postern, KNOWN)
    assert [mail.to for mail in await postbox.empty()] == [KNOWN]


@pytest.mark.parametrize("more", [WITHOUT_PUZZLES], indirect=True)
async def test_a_stranger_who_uses_up_a_domain_for_a_day_keeps_the_first_mail_from_nobody(postern: Postern, people: People) -> None:
    await people.with_password(PASSWORD, KNOWN)
    await use_up_domain(postern)
    people.change("update mail_budgets set waiting = 24 * size where scope = 'mail_domain'")
    postbox = Postbox(postern)
    await postbox.empty()
    # The page says the same to both, and nobody waits for the other's mail.
    for email, mailed in ((UNKNOWN, []), (KNOWN, [KNOWN]), (KNOWN, [])):
        await asked_without_puzzles(postern, email)
        assert [mail.to for mail in await postbox.empty()] == mailed


async def test_what_is_left_of_a_networks_reserve_tells_of_no_account(postern: Postern) -> None:
    """A stranger asks for two addresses, and then for a mailbox of their own."""

    async def own_mail_comes(network: str, *, known: bool) -> bool:
        for number in range(2):
            candidate = AskedFrom(network, Email(f"candidate{number}@{network}.example"))
            await postern.identity.mail_budgets.take_from_reserve(candidate, known=known)
        return await postern.identity.mail_budgets.take_from_reserve(AskedFrom(network, Email(f"own@{network}.test")), known=True)

    assert await own_mail_comes("198.51.1.0", known=True) is await own_mail_comes("198.51.2.0", known=False)


@pytest.mark.parametrize("more", [WITHOUT_PUZZLES], indirect=True)
@pytest.mark.parametrize("email", [KNOWN, UNKNOWN])
async def test_what_waits_goes_out_when_its_hour_comes(postern: Postern, people: People, email: str) -> None:
    await people.with_password(PASSWORD, KNOWN)
    await use_up_domain(postern)
    await Postbox(postern).empty()
    # The mailbox has had its first mail of the hour.
    await postern.foundation.shared_buckets.take(FIRST_OF_HOUR, f"{'' if email == KNOWN else 'nobody:'}{account_key(Email(email))}")
    await asked_without_puzzles(postern, email)
    (job,) = await postern.foundation.jobs.claim([ACCOUNT_MAIL_JOB], 1, timedelta(minutes=1))
    asked = AskedMail.of_job(job.payload)
    assert asked.waits is not None
    # The actor puts it off until then, for known and unknown addresses.
    with pytest.raises(JobDelayed) as delay:
        await Postbox(postern)._handle(job)
    assert delay.value.after is not None
    assert not delay.value.asked
    assert people.rows("select from mail_budgets where lane = 'reserve'") == []
    later = replace(asked, waits=replace(asked.waits, until=asked.waits.until - timedelta(hours=2)))
    assert await postern.identity.account_mails.send(later) is (email == KNOWN)


def held_back(postern: Postern) -> dict[tuple[str, str], float]:
    """What the metrics say, by the budget and by what became of the mail."""
    families = {one.name: one for one in text_string_to_metric_families(postern.foundation.metrics.render().decode())}
    samples = [one for one in families["sso_mails_held_back"].samples if one.name.endswith("_total")]
    return {(one.labels["budget"], one.labels["outcome"]): one.value for one in samples}


async def test_the_metrics_count_what_a_budget_refuses_by_the_narrowest(postern: Postern) -> None:
    every = {(budget.value, outcome): 0.0 for budget in BudgetScope for outcome in ("refused", "waits")}
    await use_up_domain(postern)
    assert held_back(postern) == every
    # The network is used up, too, and is asked first.
    for network in (1, 3, 3):
        assert (await forget(postern, network)).status == 429
    assert held_back(postern) == {**every, ("network", "refused"): 1, ("mail_domain", "refused"): 2}


@pytest.mark.parametrize("more", [WITHOUT_PUZZLES], indirect=True)
async def test_the_metrics_count_what_waits(postern: Postern) -> None:
    await use_up_domain(postern)
    await page_of(postern, 3, UNKNOWN)
    assert {key: value for key, value in held_back(postern).items() if value} == {("mail_domain", "waits"): 1}


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


async def test_an_owner_sees_what_was_held_back_and_lifts_a_budget_for_a_while(postern: Postern, people: People) -> None:
    owner = people.session_of(people.add("grace@house.example", platform_owner=True))
    token, client = await people.token(owner), unlimited(postern)
    assert (await client.get(BUDGETS, token=token)).json() == []
    for _ in range(3):
        await forget(postern, 1)
    (held,) = (await client.get(BUDGETS, token=token)).json()
    assert (held["budget"], held["key"], held["name"], held["size"], held["held"]) == ("network", "198.51.1.0/24", "198.51.1.0/24", 2, 1)
    lifted = (await client.post(BUDGETS, {"budget": "network", "key": "198.51.1.99", "until": in_hours(2)}, token=token)).ok(201)
    assert (lifted["id"], lifted["held"]) == (held["id"], 1)
    assert (await forget(postern, 1)).status == 200
    gone = f"{BUDGETS}/{held['id']}/exception"
    assert (await client.request("DELETE", gone, token=token)).status == 204
    assert (await client.request("DELETE", gone, token=token)).status == 404
    assert (await forget(postern, 1)).status == 429
    audited = people.rows("select action, details from audit_entries where action like 'platform.mail_budget%%' order by id")
    assert [one["action"] for one in audited] == ["platform.mail_budget.lifted", "platform.mail_budget.restored"]
    assert audited[0]["details"]["key"] == "198.51.1.0/24"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"budget": "network", "key": "home"}, "key"),
        ({"budget": "organization", "key": "acme"}, "key"),
        ({"budget": "mail_domain", "key": "no domain"}, "key"),
        ({"budget": "mail_domain", "key": "gmail.com"}, "key"),
        ({"budget": "installation", "until": in_hours(-1)}, "until"),
        ({"budget": "installation", "until": in_hours(24 * 8)}, "until"),
        ({"budget": "installation", "until": (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=None).isoformat()}, "until"),
    ],
)
async def test_what_cannot_be_lifted_is_refused_at_its_field(postern: Postern, people: People, wrong: dict[str, str], field: str) -> None:
    token = await people.token(people.session_of(people.add("grace@house.example", platform_owner=True)))
    answer = await unlimited(postern).post(BUDGETS, {"until": in_hours(1), **wrong}, token=token)
    assert answer.status == 400
    assert answer.json()["error"].startswith(field)
    assert people.rows("select from mail_budgets") == []


async def test_a_budget_of_no_organization_is_not_lifted(postern: Postern, people: People) -> None:
    token = await people.token(people.session_of(people.add("grace@house.example", platform_owner=True)))
    answer = await unlimited(postern).post(BUDGETS, {"budget": "organization", "key": str(uuid4()), "until": in_hours(1)}, token=token)
    assert answer.status == 409


async def test_an_organization_sees_its_own_budget_alone(neighbours: Neighbours) -> None:
    scene = neighbours
    ada, eve = scene.resident(scene.acme, "owner"), scene.resident(scene.globex, "owner")
    at_acme = "/api/organizations/acme/mail-budget"
    assert (await scene.request("GET", at_acme, by=ada)).ok()["taken"] == 0
    for network in (1, 2):
        await at(scene.postern, network).post(FORGOT, {"email": UNKNOWN, "org_slug": "acme"})
    counts = (await scene.request("GET", at_acme, by=ada)).ok()
    assert (counts["size"], counts["taken"], counts["held"]) == (300, 2, 0)
    assert "key" not in counts
    assert (await scene.request("GET", at_acme, by=eve)).status in (403, 404)
    assert (await scene.request("GET", "/api/organizations/globex/mail-budget", by=eve)).ok()["taken"] == 0
