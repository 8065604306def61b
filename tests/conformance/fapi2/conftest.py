"""Two applications with the profile `fapi2`, of the organization that all modules ask."""

from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.conformance.kit.installation import CALLBACK, AskedServer
from tests.conformance.kit.keyed import KeyedClient, KeyedSuite, new_key
from tests.conformance.kit.outcome import Outcome

PROFILE = {"profile": "fapi2"}


@pytest.fixture(scope="session")
def keyed(conformance: AskedServer) -> tuple[KeyedClient, KeyedClient]:
    """The first signs its assertions with PS256, the second with ES256 and has a query in its address."""
    first = KeyedClient("", rsa.generate_private_key(65537, 2048), CALLBACK)
    second = KeyedClient("", new_key(), f"{CALLBACK}?dummy1=lorem&dummy2=ipsum")
    with conformance.client() as client:
        made = []
        for slug, one in (("keyed", first), ("keyed-too", second)):
            asked: dict[str, Any] = {"slug": slug, "name": slug.title(), "service_type": "web", "redirect_uris": [one.callback], **PROFILE}
            asked |= {"jwks": {"keys": [one.published]}, "id_token_alg": "ES256"}
            bearer = {"Authorization": f"Bearer {conformance.token}"}
            answer = client.post("/api/organizations/acme/services", json=asked, headers=bearer)
            assert answer.is_success, answer.text
            made.append(KeyedClient(answer.json()["service"]["client_id"], one.key, one.callback))
    return made[0], made[1]


@pytest.fixture
def fapi(conformance: AskedServer, outcome: Outcome, keyed: tuple[KeyedClient, KeyedClient]) -> Iterator[KeyedSuite]:
    with conformance.browser() as browser, conformance.client() as client:
        yield KeyedSuite(conformance, outcome, browser, client, "default", first=keyed[0], second=keyed[1])
