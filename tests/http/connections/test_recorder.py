"""The recorder of a connection under what strangers send: it goes on to keep what administrators look for."""

from functools import partial
from urllib.parse import urlencode

from core.domain.identity.upstream.connection_tests import MOST_EXCHANGES
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.connections.test_attacks import recorded
from tests.http.connections.test_sign_outs import request

FORM = [("sec-fetch-site", "cross-site"), ("content-type", "application/x-www-form-urlencoded")]


async def rubbish(scene: ConnectionScene, provider: str, place: str, field: str) -> Received:
    body = urlencode({field: "rubbish", "RelayState": "x" * 43}).encode()
    return await scene.unlimited.request("POST", f"/saml/sp/{provider}/{place}", body=body, headers=FORM)


async def test_a_stranger_pushes_nothing_out_of_the_recorder(scene: ConnectionScene) -> None:
    provider = await scene.active()
    refused = await scene.arrive(scene.browser(), provider, audience="https://another.example")
    before = await recorded(scene, provider)
    assert before[0]["reference"].encode() in refused.body
    for place, field in (("acs", "SAMLResponse"), ("slo", "SAMLRequest")):
        for _ in range(2):
            answers = await all_at_once(*[partial(rubbish, scene, provider, place, field)] * 60)
            assert {one.status for one in answers} == {400}
            # Part by part, as the recorder writes them.
            await scene.keep_recorded()
    after = await recorded(scene, provider)
    assert [one for one in after if one["last_at"] is None] == before
    counted = {one["kind"]: one for one in after if one["last_at"] is not None}
    assert {kind: (one["times"], one["succeeded"], one["fault"]) for kind, one in counted.items()} == {
        "sign_in": (120, False, "unsolicited"),
        "logout": (120, False, "logout_refused"),
    }
    assert all(one["created_at"] < one["last_at"] for one in counted.values())
    # The page tells how often, and when last.
    page = await scene.signed_in(scene.speaker, age=1).request("GET", f"/ui/o/acme/directories/{provider}/exchanges")
    assert b"120" in page.body


async def test_who_has_kept_a_sign_out_pushes_nothing_out_by_sending_it_late(scene: ConnectionScene) -> None:
    provider = await scene.active()
    await scene.arrive(scene.browser(), provider, audience="https://another.example")
    before, late = await recorded(scene, provider), request(scene, provider, ago=3600)
    for _ in range(MOST_EXCHANGES + 1):
        assert (await scene.unlimited.request("GET", late)).status == 400
    await scene.keep_recorded()
    after = await recorded(scene, provider)
    assert [one for one in after if one["last_at"] is None] == before
    assert [(one["kind"], one["times"]) for one in after if one["last_at"] is not None] == [("logout", MOST_EXCHANGES + 1)]


async def test_the_counted_entry_is_beside_the_fifty(scene: ConnectionScene) -> None:
    provider = await scene.active()
    await rubbish(scene, provider, "acs", "SAMLResponse")
    for _ in range(MOST_EXCHANGES + 1):
        await scene.arrive(scene.browser(), provider, audience="https://another.example")
    kept = await recorded(scene, provider)
    assert len([one for one in kept if one["last_at"] is None]) == MOST_EXCHANGES
    assert [one["times"] for one in kept if one["last_at"] is not None] == [1]
    assert [one["created_at"] for one in kept if one["last_at"] is None] == sorted((one["created_at"] for one in kept[:-1]), reverse=True)


async def test_another_organization_reads_none_of_it(scene: ConnectionScene) -> None:
    provider = await scene.active()
    await rubbish(scene, provider, "acs", "SAMLResponse")
    await scene.keep_recorded()
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "boss")
    assert (await scene.request("GET", f"{PATH.replace('acme', 'globex')}/{provider}/exchanges", by=boss)).status == 404
