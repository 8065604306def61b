"""Acme's wiki behind a proxy, without rate limits."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Client
from tests.http.federation.proxied.behind_proxies import Proxied
from tests.http.people import People

client, database_url, people, postern = http.client, http.database_url, http.people, http.postern


@pytest.fixture
def wiki(postern: Postern, people: People, client: Client, log: CapturedLog) -> Proxied:
    return Proxied(postern, people, client, log)
