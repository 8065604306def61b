"""The page of a connection's certificates, and providers of OpenID Connect that are looked up."""

import pytest

from ops.browser.page_reader import PageReader
from tests.http.connections.refreshing import NEW, NEXT, OLD, Refreshing, fingerprint, metadata, refreshing_of
from tests.http.connections.scene import PATH, ConnectionScene


@pytest.fixture
async def refreshing(scene: ConnectionScene) -> Refreshing:
    return await refreshing_of(scene)


async def test_an_issuer_of_openid_connect_that_is_away_for_days_is_told(refreshing: Refreshing) -> None:
    scene = refreshing.scene
    scene.log.allow("connection_metadata_failed")
    scene.people.change("delete from upstream_providers")
    refreshing.provider = await scene.own_provider(domain="")
    await refreshing.sweep()
    record = await refreshing.record()
    assert (record["metadata_fault"], record["metadata_read_at"] is not None, record["saml"]) == ("", True, None)
    scene.people.change("update upstream_providers set issuer = issuer || '/gone'")
    told = []
    for _ in range(4):
        await refreshing.sweep()
        told.append(bool(await refreshing.mails()))
        refreshing.later(days=1)
    record = await refreshing.record()
    assert (told, record["metadata_fault"], record["enabled"]) == ([False, False, False, True], "issuer", True)


async def test_the_page_says_when_nothing_was_read_yet(refreshing: Refreshing) -> None:
    scene = refreshing.scene
    scene.people.change("delete from upstream_providers")
    refreshing.provider = await scene.own_provider(domain="")
    owner = scene.signed_in(scene.speaker, age=1)
    place = f"/ui/o/acme/directories/{refreshing.provider}/certificates"
    assert "Postern has not read the metadata yet" in PageReader((await owner.request("GET", place)).body).text
    await refreshing.sweep()
    read = PageReader((await owner.request("GET", place)).body).text
    assert "Postern has not read the metadata yet" not in read
    assert "Last read" in read


async def test_an_owner_decides_on_the_page(refreshing: Refreshing) -> None:
    scene = refreshing.scene
    scene.people.change("""update upstream_providers set saml = saml || '{"metadata": {"was_signed": true}}'""")
    refreshing.publish(metadata(OLD, NEW, NEXT))
    await refreshing.sweep()
    place = f"/ui/o/acme/directories/{refreshing.provider}/certificates"
    (await scene.request("POST", f"{PATH}/{refreshing.provider}/certificate", {})).ok()
    (await scene.request("POST", f"{PATH}/{refreshing.provider}/certificate", {"activate": True})).ok()
    # An administrator sees what waits, and no button.
    admin = scene.signed_in(scene.resident(scene.acme, "admin", "helper"), age=1)
    seen = PageReader((await admin.request("GET", place)).body)
    assert fingerprint(NEW) in seen.text
    assert [form.action for form in seen.forms if "approve" in form.action] == []
    owner = scene.signed_in(scene.speaker, age=1)
    actions = [f"{place}/{fingerprint(NEW)}/approve", f"{place}/{fingerprint(NEXT)}/decline", f"{place}/former"]
    for action in actions:
        page = PageReader((await owner.request("GET", place)).body)
        form = next(one for one in page.forms if one.action == action)
        answer = await owner.request("POST", action, form.fields)
        assert (answer.status, answer.header("location")) == (303, f"{place}?done=saved"), answer.body
    assert await refreshing.certificates() == ([fingerprint(OLD), fingerprint(NEW)], [])
    assert (await refreshing.record())["saml"]["former_certificate"] is None
    page = PageReader((await owner.request("GET", place)).body)
    assert [one.action for one in page.forms if one.action.startswith(place)] == []
    assert (await owner.request("GET", place.replace(refreshing.provider, str(scene.acme.id)))).status == 404
