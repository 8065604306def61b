"""A service that is the identity provider of a SAML service provider."""

import pytest

from adapters.saml import signing
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.providing import Providing, kept_pairs
from tests.http.people import People


@pytest.fixture(autouse=True)
def _primes_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "generate_private_key", kept_pairs())


@pytest.fixture
def provider(postern: Postern, people: People, client: Client, log: CapturedLog) -> Providing:
    return Providing(postern, people, client, log)
