"""Hooks, with people and applications, without rate limits."""

from datetime import timedelta
from typing import Any

import pytest

from adapters.outbound.client import GuardedClient
from core.usecases.tenancy import hook_asking
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.arriving import Arriving
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.security.hooks.hooked import Hooks

database_url, people, postern = http.database_url, http.people, http.postern


@pytest.fixture
def arriving(postern: Postern, people: People, log: CapturedLog) -> Arriving:
    return Arriving(postern, people, unlimited(postern), log)


@pytest.fixture
def hooks(postern: Postern) -> Hooks:
    return Hooks(postern)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question ends by the seconds of its hook: a receiver answers when the test says so, and a busy machine takes its time before."""
    send = GuardedClient.send

    async def patiently(self: GuardedClient, method: str, request: Any, _within: timedelta, **more: Any) -> Any:
        return await send(self, method, request, timedelta(seconds=PATIENCE), **more)

    monkeypatch.setattr(GuardedClient, "send", patiently)
    monkeypatch.setattr(hook_asking, "_LONGER", PATIENCE)
