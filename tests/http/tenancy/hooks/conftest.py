"""Acme, whose owner has a hook before its sign-ins, and the hook's receiver on loopback."""

from collections.abc import AsyncIterator

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.people import People
from tests.http.tenancy.hooks.scene import GO_ON, HookScene, saying
from tests.receiver import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(saying(GO_ON)) as made:
        yield made


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog, receiver: Receiver) -> HookScene:
    return HookScene(postern, people, client, log, receiver=receiver)
