"""Identity assertions that are bound to a key need a proof of it, and give a token that is bound to it."""

from collections.abc import Iterator

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider
from tests.conftest import CapturedLog
from tests.http.client import Received
from tests.http.connections.asserting import GRANT, Asserting
from tests.http.federation.bound.proving import ClientKey
from tests.http.federation.relying import claims_of, oauth
from tests.http.people import People
from tests.http.signing_in import unlimited


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Iterator[Asserting]:
    with FakeProvider() as directory:
        yield Asserting(postern, people, unlimited(postern), log).begin(directory)


async def brought(scene: Asserting, assertion: str, key: ClientKey | None) -> Received:
    fields = {"grant_type": GRANT, "assertion": assertion, **scene.shop.posted}
    return await scene.ask(fields=fields, headers=[] if key is None else [key.dpop()])


async def test_a_bound_assertion_with_its_key_and_with_another(scene: Asserting) -> None:
    key, other = (ClientKey(scene.postern.foundation.clock.now) for _ in range(2))
    confirmed = {"jkt": key.thumbprint}
    for wrong, shown in (
        (confirmed, None),
        (confirmed, other),
        ({**confirmed, "x5t#S256": "x"}, key),
        ({"kid": "a"}, key),
        ({}, key),
        ("x", key),
    ):
        assert oauth(await brought(scene, scene.assertion(cnf=wrong), shown)) == (400, "invalid_grant")
    tokens = (await brought(scene, scene.assertion(cnf=confirmed), key)).ok()
    assert (tokens["token_type"], claims_of(tokens["access_token"])["cnf"]) == ("DPoP", confirmed)
    # A proof binds the token of any assertion.
    tokens = (await brought(scene, scene.assertion(), other)).ok()
    assert claims_of(tokens["access_token"])["cnf"] == {"jkt": other.thumbprint}
