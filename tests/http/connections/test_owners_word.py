"""The owner's word: nothing signs people in for a proved domain before an owner has said yes to exactly these settings."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ops.browser.page_reader import PageReader
from ops.stand_ins.saml import pair
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.people import Person

PAGES = "/ui/o/acme/directories"


def administrator(scene: ConnectionScene) -> Person:
    return scene.resident(scene.acme, "admin", "mallory")


def client(scene: ConnectionScene, **changes: Any) -> dict[str, Any]:
    fake = scene.fakes["own"]
    return {"name": "Own", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret, **changes}


async def signs_in(scene: ConnectionScene, provider: str) -> bool:
    """Whether Ada gets in through the provider of OpenID Connect."""
    scene.sits(word="own")
    tabs = scene.browser()
    begun = await tabs.request("GET", f"/auth/{provider}?org=acme")
    if begun.status in {200, 302}:
        await scene.go(tabs, "?org=acme", word=provider)
    return await scene.who(tabs) is not None


async def test_an_administrators_provider_waits_for_the_owner(scene: ConnectionScene) -> None:
    await scene.prove_domain()
    ada, admin = scene.verified(), administrator(scene)
    made = (await scene.request("POST", PATH, client(scene), by=admin)).ok(201)
    assert (made["state"], made["enabled"]) == ("draft", False)
    assert not await signs_in(scene, made["id"])
    assert refused(await scene.request("PATCH", f"{PATH}/{made['id']}", {"enabled": True}, by=admin)) == (400, "BAD_REQUEST")
    assert refused(await scene.activate(made["id"], by=admin)) == (403, "FORBIDDEN")
    assert not await signs_in(scene, made["id"])
    # The owner could have made the same provider without any test, so their word needs none.
    assert (await scene.activate(made["id"])).ok()["enabled"] is True
    assert await signs_in(scene, made["id"])
    assert {one["user_id"] for one in scene.identities()} == {ada.user}
    (entry,) = scene.audited("organization.upstream_provider.activated")
    assert (entry["details"]["issuer"], entry["details"]["digest"]) == (made["issuer"], made["digest"])


async def test_an_owners_provider_is_active_at_once(scene: ConnectionScene) -> None:
    await scene.prove_domain()
    scene.verified()
    made = (await scene.request("POST", PATH, client(scene))).ok(201)
    assert (made["state"], made["enabled"]) == ("active", True)
    assert await signs_in(scene, made["id"])


async def test_a_domain_that_is_proved_afterwards_makes_nothing_count(scene: ConnectionScene) -> None:
    scene.verified()
    made = (await scene.request("POST", PATH, client(scene), by=administrator(scene))).ok(201)
    await scene.prove_domain()
    assert not await signs_in(scene, made["id"])
    (await scene.activate(made["id"])).ok()
    assert await signs_in(scene, made["id"])


async def test_another_client_needs_the_owners_word_again_and_a_new_secret_does_not(scene: ConnectionScene) -> None:
    await scene.prove_domain()
    scene.verified()
    admin = administrator(scene)
    made = (await scene.request("POST", PATH, client(scene))).ok(201)
    path = f"{PATH}/{made['id']}"
    # The issuer says who is who, and never changes.
    assert refused(await scene.request("PATCH", path, {"issuer": "https://evil.example"}, by=admin)) == (400, "BAD_REQUEST")
    kept = {"client_secret": scene.fakes["own"].client_secret, "scopes": ["groups"], "name": "Anew"}
    assert (await scene.request("PATCH", path, kept, by=admin)).ok()["state"] == "active"
    assert await signs_in(scene, made["id"])
    changed = (await scene.request("PATCH", path, {"client_id": "another", "enabled": True}, by=admin)).ok()
    assert (changed["state"], changed["enabled"]) == ("draft", False)
    # It stops until then: people see at once that something has changed, and the former client is not called any more.
    assert not await signs_in(scene, made["id"])
    (await scene.request("PATCH", path, {"client_id": made["client_id"]}, by=admin)).ok()
    assert not await signs_in(scene, made["id"])
    (await scene.activate(made["id"])).ok()
    assert await signs_in(scene, made["id"])
    # From the owner the change is the word.
    (await scene.request("PATCH", path, {"client_id": "another"})).ok()
    assert (await scene.request("PATCH", path, {"client_id": made["client_id"]})).ok()["state"] == "active"
    assert await signs_in(scene, made["id"])


async def test_a_domain_route_may_name_a_provider_that_waits_again(scene: ConnectionScene) -> None:
    admin = administrator(scene)
    made = (await scene.request("POST", PATH, client(scene))).ok(201)
    (await scene.request("PATCH", f"{PATH}/{made['id']}", {"client_id": "another"}, by=admin)).ok()
    route = {"domain": "acme.example", "upstream_provider_id": made["id"], "login_policy": "upstream_only"}
    (await scene.request("POST", "/api/organizations/acme/domain-routes", route)).ok(201)


@pytest.mark.parametrize("change", ["certificate", "address", "metadata"])
async def test_what_an_administrator_changes_of_a_directory_waits_for_the_owner(scene: ConnectionScene, change: str) -> None:
    provider = await scene.active()
    scene.verified()
    admin, evil = administrator(scene), pair("of the administrator")
    if change == "certificate":
        (await scene.request("POST", f"{PATH}/{provider}/certificate", {"certificate": evil.certificate}, by=admin)).ok()
    elif change == "address":
        (await scene.request("PATCH", f"{PATH}/{provider}", {"sso_url": "https://evil.example/sso"}, by=admin)).ok()
    else:
        (await scene.fill(provider, scene.directory.metadata().replace(scene.directory.signer.bare, evil.bare), by=admin)).ok()
    record = await scene.record(provider)
    assert (record["state"], record["enabled"]) == ("draft", False)
    assert (await scene.browser().request("GET", f"/auth/{provider}?org=acme")).status not in {200, 302}


async def swapped(scene: ConnectionScene, provider: str, admin: Person) -> None:
    """What the administrator does between the owner's look and press: another certificate, and a test that passes."""
    evil = pair("of the administrator")
    (await scene.request("PATCH", f"{PATH}/{provider}", {"certificates": [evil.certificate], "metadata_url": ""}, by=admin)).ok()
    scene.directory.signer = evil
    assert b"All checks passed" in (await scene.test(provider)).body


async def test_nobody_swaps_a_directory_between_the_owners_look_and_press(scene: ConnectionScene) -> None:
    await scene.prove_domain()
    scene.verified()
    provider = await scene.draft()
    assert b"All checks passed" in (await scene.test(provider)).body
    seen = (await scene.record(provider))["digest"]
    await swapped(scene, provider, administrator(scene))
    answer = await scene.activate(provider, digest=seen)
    assert refused(answer) == (409, "CONFLICT")
    assert (await scene.record(provider))["state"] == "tested"
    for wrong in ("", "x", seen.upper(), f"{seen}0"):
        assert refused(await scene.activate(provider, digest=wrong)) == (400, "BAD_REQUEST"), wrong
    assert refused(await scene.request("POST", f"{PATH}/{provider}/activate", {})) == (400, "BAD_REQUEST")
    assert (await scene.browser().request("GET", f"/auth/{provider}?org=acme")).status not in {200, 302}
    # An active one with other settings than those seen is no yes to these, either.
    (await scene.activate(provider)).ok()
    assert refused(await scene.activate(provider, digest=seen)) == (409, "CONFLICT")
    assert (await scene.activate(provider)).ok()["state"] == "active"


async def test_the_page_shows_what_becomes_active_and_a_form_of_before_does_nothing(scene: ConnectionScene) -> None:
    provider = await scene.draft(metadata_url="https://login.acme.example/saml/metadata")
    assert b"All checks passed" in (await scene.test(provider)).body
    before = await scene.record(provider)
    owner = scene.signed_in(scene.speaker, age=1)
    page = await owner.request("GET", f"{PAGES}/{provider}/activate")
    shown = page.body.decode()
    (certificate,) = before["saml"]["certificates"]
    told = (before["issuer"], certificate["fingerprint"], before["digest"])
    for one in told:
        assert one in shown.replace("<wbr>", ""), one
    for name in ("sso_url", "slo_url", "metadata_url"):
        assert before["saml"][name] in shown.replace("<wbr>", "").replace("\u200b", ""), name
    form = next(one for one in PageReader(page.body).forms if one.action.endswith("/activate"))
    assert form.fields["digest"] == before["digest"]
    await swapped(scene, provider, administrator(scene))
    stale = await owner.request("POST", form.action, form.fields)
    assert (stale.status, b"were changed after you opened them" in stale.body) == (409, True)
    now = await scene.record(provider)
    assert (now["state"], now["digest"] == before["digest"]) == ("tested", False)
    # The page shows what is there now, and carries its digest.
    again = next(one for one in PageReader(stale.body).forms if one.action.endswith("/activate"))
    assert again.fields["digest"] == now["digest"]
    assert now["saml"]["certificates"][0]["fingerprint"] in stale.body.decode()
    assert (await owner.request("POST", again.action, again.fields)).status == 303
    assert (await scene.record(provider))["state"] == "active"


async def test_fifty_changes_race_with_the_owners_word(scene: ConnectionScene) -> None:
    """Either the owner's word comes first, and the change makes a draft, or the change comes first, and the word is refused."""
    provider = await scene.draft()
    assert b"All checks passed" in (await scene.test(provider)).body
    seen, admin = (await scene.record(provider))["digest"], administrator(scene)

    def change(at: int) -> Callable[[], Awaitable[Received]]:
        return lambda: scene.request("PATCH", f"{PATH}/{provider}", {"slo_url": f"https://e.example/{at}"}, by=admin)

    answers = await all_at_once(lambda: scene.activate(provider, digest=seen), *(change(at) for at in range(49)))
    statuses = Counter(one.status for one in answers)
    assert statuses in (Counter({200: 50}), Counter({200: 49, 409: 1}))
    said = scene.audited("organization.upstream_provider.activated")
    assert [one["details"]["digest"] for one in said] == ([seen] if statuses[200] == 50 else [])
    record = await scene.record(provider)
    assert (record["state"], record["enabled"]) == ("draft", False)


async def test_another_organizations_owner_says_nothing(scene: ConnectionScene) -> None:
    made = (await scene.request("POST", PATH, client(scene), by=administrator(scene))).ok(201)
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "boss")
    place = f"{PATH.replace('acme', 'globex')}/{made['id']}/activate"
    assert (await scene.request("POST", place, {"digest": made["digest"]}, by=boss)).status == 404
    assert refused(await scene.request("POST", f"{PATH}/{made['id']}/activate", {"digest": made["digest"]}, by=boss)) == (403, "FORBIDDEN")
    assert (await scene.record(made["id"]))["state"] == "draft"


async def robot(scene: ConnectionScene) -> str:
    """A key with all that an owner may give it about connections, adopted by the owner."""
    keys = "/api/organizations/acme/management-keys"
    body = {"name": "Robot", "capabilities": ["org.settings.manage", "connections.manage"]}
    made = (await scene.request("POST", keys, body)).ok(201)
    scene.log.remember(made["key"])
    (await scene.request("POST", f"{keys}/{made['id']}/adopt")).ok()
    return str(made["key"])


async def test_a_management_key_is_no_owner(scene: ConnectionScene) -> None:
    await scene.prove_domain()
    scene.verified()
    key = await robot(scene)
    made = (await scene.client.request("POST", PATH, body=client(scene), token=key)).ok(201)
    assert (made["state"], made["enabled"]) == ("draft", False)
    place = f"{PATH}/{made['id']}"
    assert (await scene.client.request("POST", f"{place}/activate", body={"digest": made["digest"]}, token=key)).status == 403
    assert not await signs_in(scene, made["id"])
    (await scene.activate(made["id"])).ok()
    # It goes on to keep what an owner has said yes to: a new secret, and on and off.
    kept = {"client_secret": scene.fakes["own"].client_secret}
    assert (await scene.client.request("PATCH", place, body=kept, token=key)).ok()["state"] == "active"
    assert (await scene.client.request("PATCH", place, body={"client_id": "another"}, token=key)).ok()["state"] == "draft"


async def test_a_document_is_the_word_of_whoever_applies_it(scene: ConnectionScene) -> None:
    await scene.prove_domain()
    fake, key = scene.fakes["own"], await robot(scene)
    entry = {"issuer": fake.issuer, "client_id": fake.client_id, "enabled": True}
    secrets = {"/organizations/acme/upstream_providers/Own/client_secret": fake.client_secret}
    place = "/api/organizations/acme/configuration"

    def sent(**changes: Any) -> dict[str, Any]:
        return {
            "document": {"postern": 1, "organizations": {"acme": {"upstream_providers": {"Own": {**entry, **changes}}}}},
            "secrets": secrets,
        }

    applied = (await scene.client.request("POST", f"{place}/apply", body=sent(), token=key)).ok()
    assert (applied["refused"], len(applied["done"])) == ([], 1)
    (made,) = (await scene.request("GET", PATH)).json()
    assert (made["state"], made["enabled"]) == ("draft", False)
    # That it waits is no difference from the document.
    secrets.clear()
    assert (await scene.client.request("POST", f"{place}/plan", body=sent(), token=key)).ok()["changes"] == []
    (await scene.activate(made["id"])).ok()
    assert (await scene.client.request("POST", f"{place}/plan", body=sent(), token=key)).ok()["changes"] == []
    # The owner's own document is the owner's word, and a key's is not.
    assert (await scene.request("POST", f"{place}/apply", sent(client_id="another"))).ok()["refused"] == []
    assert (await scene.record(made["id"]))["state"] == "active"
    applied = (await scene.client.request("POST", f"{place}/apply", body=sent(client_id="a third"), token=key)).ok()
    assert applied["refused"] == []
    assert (await scene.record(made["id"]))["state"] == "draft"


@pytest.mark.parametrize("way", ["making", "another client", "a certificate"])
async def test_what_counts_as_the_owners_word_confirms_the_ownership(scene: ConnectionScene, way: str) -> None:
    heir, provider = scene.resident(scene.acme, "member", "heir"), ""
    if way == "another client":
        provider = (await scene.request("POST", PATH, client(scene))).ok(201)["id"]
    if way == "a certificate":
        provider = await scene.active()
    (await scene.request("POST", "/api/organizations/acme/transfer-ownership", {"new_owner_user_id": str(heir.user)})).ok()
    scene.speaker = heir
    # What an administrator may do confirms nothing.
    if provider:
        (await scene.request("PATCH", f"{PATH}/{provider}", {"name": "Renamed"})).ok()
    assert scene.people.rows("select from ownerships where confirmed_at is null") != []
    if way == "making":
        assert (await scene.request("POST", PATH, client(scene))).ok(201)["state"] == "active"
    elif way == "another client":
        assert (await scene.request("PATCH", f"{PATH}/{provider}", {"client_id": "another"})).ok()["state"] == "active"
    else:
        body = {"certificate": pair("further").certificate}
        assert (await scene.request("POST", f"{PATH}/{provider}/certificate", body)).ok()["state"] == "active"
    assert scene.people.rows("select from ownerships where confirmed_at is null") == []
