"""A service that is the identity provider of a SAML service provider."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.providing import Providing
from tests.http.people import People


@pytest.fixture
def provider(postern: Postern, people: People, client: Client, log: CapturedLog) -> Providing:
    return Providing(postern, people, client, log)
