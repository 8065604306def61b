"""`kill -9` between accepting an event and applying it: no event is lost, and none is applied twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio

from actors.billing import BillingReconciler
from tests.conftest import CapturedLog
from tests.http.services.paying import Counter, counter_on
from tests.payment_provider import signed

# The number of kills. `POSTERN_TEST_KILLS=50` is the number of the original promise.
KILLS: Final = int(os.environ.get("POSTERN_TEST_KILLS", "2"))
# A process of its own, which dies where it would begin to apply the event, or where it would commit.
PROGRAM: Final = """
import json, os, signal, sys
import trio
from entrypoints.bootstrap import open_postern
from entrypoints.settings import read
from core.usecases.services.billing import Billing

environment, body, signature, where = json.loads(sys.stdin.read())

def die(*_given, **_named):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with open_postern(read(environment)) as postern:
        news = await postern.services.billing.take(signature, body.encode())
        if where == "before":
            die()
        # Everything is written, and nothing is committed.
        Billing._report = die
        from adapters.postgres.unit_of_work import PostgresUnitOfWork
        if where == "within":
            PostgresUnitOfWork.commit = die
        await postern.services.billing_turns.apply(news)

trio.run(main)
"""


@pytest.fixture
async def counter(database_url: str, tmp_path: Path, log: CapturedLog) -> AsyncIterator[Counter]:
    async with counter_on(database_url, tmp_path, log) as opened:
        opened.customer()
        yield opened


async def test_nothing_is_lost_and_nothing_happens_twice(counter: Counter, database_url: str, tmp_path: Path) -> None:
    environment = {
        "POSTERN_DATABASE_URL": database_url,
        "POSTERN_DATA_DIR": str(tmp_path),
        "POSTERN_BASE_URL": "https://id.example.org",
        "POSTERN_ENCRYPTION_KEYS": counter.environment["POSTERN_ENCRYPTION_KEYS"],
        "POSTERN_BILLING_WEBHOOK_SECRETS": counter.environment["POSTERN_BILLING_WEBHOOK_SECRETS"],
    }
    events, people = [], []
    for number in range(KILLS):
        people.append(counter.user())
        events.append(counter.provider.event("customer.subscription.created", counter.bought(people[-1])))
        body = json.dumps(events[-1])
        given = json.dumps([environment, body, signed(body.encode()), ("before", "within", "after")[number % 3]])
        run = partial(subprocess.run, [sys.executable, "-c", PROGRAM], input=given.encode(), check=False)
        done = await trio.to_thread.run_sync(run)
        assert done.returncode == -signal.SIGKILL
    assert len(counter.outcomes()) == KILLS
    # The provider got no answer and sends the events again, while the reconciler finds the waiting ones.
    services = counter.postern.services
    reconciler = BillingReconciler(
        services.billing,
        services.billing_reconciliation,
        services.billing_inbox,
        services.billing_mailbox,
        metrics=counter.postern.foundation.metrics,
        clock=counter.postern.foundation.clock,
        spread=lambda: 0.0,
        young=timedelta(0),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reconciler.apply_due)
        for event in events:
            nursery.start_soon(counter.send, event)
    assert set(counter.outcomes().values()) == {"applied"}
    assert [[row["status"] for row in counter.records(person)] for person in people] == [["active"]] * KILLS
    assert len(counter.told()) == len(counter.audited("subscription.%")) == KILLS
