"""`postern billing`, and the checks of `postern doctor` for billing, with a payment provider that answers, refuses, or is away."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrypoints import checks
from entrypoints.bootstrap import open_postern
from entrypoints.checks import Verdict
from entrypoints.cli import billing
from entrypoints.failures import FAILURE, OK, StartFailed
from entrypoints.settings import Settings, read
from tests.conftest import CapturedLog
from tests.http.services.paying import Counter, counter_on
from tests.payment_provider import KEY, no_trouble

CREATED = "customer.subscription.created"


@pytest.fixture
async def counter(database_url: str, tmp_path: Path, log: CapturedLog) -> AsyncIterator[Counter]:
    async with counter_on(database_url, tmp_path, log) as opened:
        opened.customer()
        yield opened


def settings_of(counter: Counter, **changes: str | None) -> Settings:
    environment = {**counter.environment, **changes}
    return read({name: value for name, value in environment.items() if value is not None})


def breaks(counter: Counter) -> None:
    """Makes every write about a subscription fail."""
    counter.log.allow("billing_event_failed")
    counter.people.change("alter table billing_subscriptions add constraint broken check (facets = '1') not valid")


def heals(counter: Counter) -> None:
    counter.people.change("alter table billing_subscriptions drop constraint broken")


async def test_events_are_listed_with_what_became_of_them(counter: Counter, capsys: pytest.CaptureFixture[str]) -> None:
    ada, bob = counter.user(), counter.user()
    first = await counter.tell(CREATED, counter.bought(ada))
    breaks(counter)
    try:
        second = await counter.tell(CREATED, counter.bought(bob))
    finally:
        heals(counter)
    settings = settings_of(counter)
    capsys.readouterr()
    assert await billing._events(settings, waiting=False, limit=10) == OK
    newest, oldest = capsys.readouterr().out.splitlines()
    assert newest.split()[2:5] == ["UTC", second["id"], CREATED]
    assert "waiting, 1 failure (" in newest
    assert oldest.split()[3:] == [first["id"], CREATED, "sub_000001", "applied"]
    assert await billing._events(settings, waiting=True, limit=10) == OK
    assert capsys.readouterr().out.splitlines() == [newest]
    assert await billing._events(settings, waiting=False, limit=1) == OK
    assert capsys.readouterr().out.splitlines() == [newest]


async def test_what_failed_is_applied_at_once(counter: Counter, capsys: pytest.CaptureFixture[str]) -> None:
    ada = counter.user()
    settings = settings_of(counter)
    breaks(counter)
    try:
        event = await counter.tell(CREATED, counter.bought(ada))
        capsys.readouterr()
        assert await billing._retry(settings, event["id"]) == FAILURE
        assert capsys.readouterr().out.endswith("1 event was due, 1 are still pending.\n")
    finally:
        heals(counter)
    assert counter.records(ada) == []
    assert await billing._retry(settings, None) == OK
    assert capsys.readouterr().out.endswith("1 event was due, 0 are still pending.\n")
    assert (await counter.own(ada))["status"] == "active"
    with pytest.raises(StartFailed, match="event was not found, or was already applied"):
        await billing._retry(settings, event["id"])


async def test_all_subscriptions_are_compared(counter: Counter, capsys: pytest.CaptureFixture[str]) -> None:
    ada, bob = counter.user(), counter.user()
    await counter.tell(CREATED, counter.bought(ada))
    counter.bought(bob)
    settings = settings_of(counter)
    capsys.readouterr()
    assert await billing._reconcile(settings) == OK
    assert capsys.readouterr().out.endswith("2 subscriptions checked, 1 corrected.\n")
    assert (await counter.own(bob))["status"] == "active"
    assert await billing._reconcile(settings) == OK
    assert capsys.readouterr().out.endswith("2 subscriptions checked, 0 corrected.\n")


async def test_a_provider_that_does_not_help_is_told_in_a_sentence(counter: Counter) -> None:
    with pytest.raises(StartFailed, match="set POSTERN_BILLING_KEY"):
        await billing._reconcile(settings_of(counter, POSTERN_BILLING_KEY=None))
    with pytest.raises(StartFailed, match="The payment provider refused: 401"):
        await billing._reconcile(settings_of(counter, POSTERN_BILLING_KEY=f"{KEY}x"))
    counter.provider.trouble = lambda _method, _path: "fail"
    with pytest.raises(StartFailed, match="The payment provider does not answer: status 500"):
        await billing._reconcile(settings_of(counter))


async def test_the_doctor_looks_at_billing(counter: Counter, capsys: pytest.CaptureFixture[str]) -> None:
    async def verdict(**changes: str | None) -> tuple[Verdict, str]:
        settings = settings_of(counter, **changes)
        async with open_postern(settings) as opened:
            finding = await checks.billing(settings, opened)
        assert KEY not in finding.text
        return finding.verdict, finding.text

    nothing = await verdict(POSTERN_BILLING_KEY=None, POSTERN_BILLING_WEBHOOK_SECRETS=None)
    assert nothing == (Verdict.OK, "not set up: checkout answers 500 BILLING_ERROR, and events of a payment provider 401")
    assert await verdict(POSTERN_BILLING_KEY=None) == (Verdict.WARN, "POSTERN_BILLING_KEY is not set: nothing can be bought")
    assert await verdict(POSTERN_BILLING_WEBHOOK_SECRETS=None) == (
        Verdict.WARN,
        "POSTERN_BILLING_WEBHOOK_SECRETS is not set: events are rejected",
    )
    assert await verdict() == (Verdict.OK, f"{counter.provider.url} answers; 0 events wait")
    url = counter.provider.url
    assert await verdict(POSTERN_BILLING_KEY=f"{KEY}x") == (
        Verdict.FAIL,
        f"{url} does not accept POSTERN_BILLING_KEY: 401 invalid_request_error",
    )
    counter.provider.trouble = lambda _method, _path: "fail"
    assert await verdict() == (Verdict.FAIL, f"{url} does not answer: status 500")
    counter.provider.trouble = no_trouble
    breaks(counter)
    try:
        await counter.tell(CREATED, counter.bought(counter.user()))
    finally:
        heals(counter)
    counter.people.change("update billing_events set received_at = now() - interval '10 minutes'")
    assert await verdict() == (Verdict.WARN, f"{url} answers; 1 events wait: `postern billing events --waiting` lists them")
    capsys.readouterr()
