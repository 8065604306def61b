"""The market, the servers of its shop, and the shop whose roles are governed."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.people import People
from tests.http.service_interface import Backend
from tests.http.services.governing import Government
from tests.http.subscribing import Market


@pytest.fixture
def market(postern: Postern, people: People, client: Client, log: CapturedLog) -> Market:
    return Market(postern, people, client, log)


@pytest.fixture
def shop(market: Market) -> Backend:
    return Backend(market, market.shop)


@pytest.fixture
def government(postern: Postern, people: People, client: Client, log: CapturedLog) -> Government:
    return Government(postern, people, client, log)
