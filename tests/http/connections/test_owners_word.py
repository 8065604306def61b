"""The owner's word: nothing signs people in for a proved domain before an owner has said yes to exactly these settings."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.http.browsing import PageReader
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.federation.providing import pair
from tests.http.people import Person

PAGES = "/ui/o/acme/directories"


def administrator(house: ConnectionScene) -> Person:
    return house.resident(house.acme, "admin", "mallory")


def client(house: ConnectionScene, **changes: Any) -> dict[str, Any]:
    fake = house.fakes["own"]
    return {"name": "Own", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret, **changes}


async def signs_in(house: ConnectionScene, provider: str) -> bool:
    """Whether Ada gets in through the provider of OpenID Connect."""
    house.sits(word="own")
    tabs = house.browser()
    begun = await tabs.request("GET", f"/auth/{provider}?org=acme")
    if begun.status in {200, 302}:
        await house.go(tabs, "?org=acme", word=provider)
    return await house.who(tabs) is not None


async def test_an_administrators_provider_waits_for_the_owner(house: ConnectionScene) -> None:
    await house.prove_domain()
    ada, admin = house.verified(), administrator(house)
    made = (await house.request("POST", PATH, client(house), by=admin)).ok(201)
    assert (made["state"], made["enabled"]) == ("draft", False)
    assert not await signs_in(house, made["id"])
    assert refused(await house.request("PATCH", f"{PATH}/{made['id']}", {"enabled": True}, by=admin)) == (400, "BAD_REQUEST")
    assert refused(await house.activate(made["id"], by=admin)) == (403, "FORBIDDEN")
    assert not await signs_in(house, made["id"])
    # The owner could have made the same provider without any test, so their word needs none.
    assert (await house.activate(made["id"])).ok()["enabled"] is True
    assert await signs_in(house, made["id"])
    assert {one["user_id"] for one in house.identities()} == {ada.user}
    (entry,) = house.audited("organization.upstream_provider.activated")
    assert (entry["details"]["issuer"], entry["details"]["digest"]) == (made["issuer"], made["digest"])


async def test_an_owners_provider_is_active_at_once(house: ConnectionScene) -> None:
    await house.prove_domain()
    house.verified()
    made = (await house.request("POST", PATH, client(house))).ok(201)
    assert (made["state"], made["enabled"]) == ("active", True)
    assert await signs_in(house, made["id"])


async def test_a_domain_that_is_proved_afterwards_makes_nothing_count(house: ConnectionScene) -> None:
    house.verified()
    made = (await house.request("POST", PATH, client(house), by=administrator(house))).ok(201)
    await house.prove_domain()
    assert not await signs_in(house, made["id"])
    (await house.activate(made["id"])).ok()
    assert await signs_in(house, made["id"])


async def test_another_client_needs_the_owners_word_again_and_a_new_secret_does_not(house: ConnectionScene) -> None:
    await house.prove_domain()
    house.verified()
    admin = administrator(house)
    made = (await house.request("POST", PATH, client(house))).ok(201)
    path = f"{PATH}/{made['id']}"
    # The issuer says who is who, and never changes.
    assert refused(await house.request("PATCH", path, {"issuer": "https://evil.example"}, by=admin)) == (400, "BAD_REQUEST")
    kept = {"client_secret": house.fakes["own"].client_secret, "scopes": ["groups"], "name": "Anew"}
    assert (await house.request("PATCH", path, kept, by=admin)).ok()["state"] == "active"
    assert await signs_in(house, made["id"])
    changed = (await house.request("PATCH", path, {"client_id": "another", "enabled": True}, by=admin)).ok()
    assert (changed["state"], changed["enabled"]) == ("draft", False)
    # It stops until then: people see at once that something has changed, and the former client is not called any more.
    assert not await signs_in(house, made["id"])
    (await house.request("PATCH", path, {"client_id": made["client_id"]}, by=admin)).ok()
    assert not await signs_in(house, made["id"])
    (await house.activate(made["id"])).ok()
    assert await signs_in(house, made["id"])
    # From the owner the change is the word.
    (await house.request("PATCH", path, {"client_id": "another"})).ok()
    assert (await house.request("PATCH", path, {"client_id": made["client_id"]})).ok()["state"] == "active"
    assert await signs_in(house, made["id"])


async def test_a_domain_route_may_name_a_provider_that_waits_again(house: ConnectionScene) -> None:
    admin = administrator(house)
    made = (await house.request("POST", PATH, client(house))).ok(201)
    (await house.request("PATCH", f"{PATH}/{made['id']}", {"client_id": "another"}, by=admin)).ok()
    route = {"domain": "acme.example", "upstream_provider_id": made["id"], "login_policy": "upstream_only"}
    (await house.request("POST", "/api/organizations/acme/domain-routes", route)).ok(201)


@pytest.mark.parametrize("change", ["certificate", "address", "metadata"])
async def test_what_an_administrator_changes_of_a_directory_waits_for_the_owner(house: ConnectionScene, change: str) -> None:
    provider = await house.active()
    house.verified()
    admin, evil = administrator(house), pair("of the administrator")
    if change == "certificate":
        (await house.request("POST", f"{PATH}/{provider}/certificate", {"certificate": evil.certificate}, by=admin)).ok()
    elif change == "address":
        (await house.request("PATCH", f"{PATH}/{provider}", {"sso_url": "https://evil.example/sso"}, by=admin)).ok()
    else:
        (await house.fill(provider, house.directory.metadata().replace(house.directory.signer.bare, evil.bare), by=admin)).ok()
    record = await house.record(provider)
    assert (record["state"], record["enabled"]) == ("draft", False)
    assert (await house.browser().request("GET", f"/auth/{provider}?org=acme")).status not in {200, 302}


async def swapped(house: ConnectionScene, provider: str, admin: Person) -> None:
    """What the administrator does between the owner's look and press: another certificate, and a test that passes."""
    evil = pair("of the administrator")
    (await house.request("PATCH", f"{PATH}/{provider}", {"certificates": [evil.certificate], "metadata_url": ""}, by=admin)).ok()
    house.directory.signer = evil
    assert b"All checks passed" in (await house.test(provider)).body


async def test_nobody_swaps_a_directory_between_the_owners_look_and_press(house: ConnectionScene) -> None:
    await house.prove_domain()
    house.verified()
    provider = await house.draft()
    assert b"All checks passed" in (await house.test(provider)).body
    seen = (await house.record(provider))["digest"]
    await swapped(house, provider, administrator(house))
    answer = await house.activate(provider, digest=seen)
    assert refused(answer) == (409, "CONFLICT")
    assert (await house.record(provider))["state"] == "tested"
    for wrong in ("", "x", seen.upper(), f"{seen}0"):
        assert refused(await house.activate(provider, digest=wrong)) == (400, "BAD_REQUEST"), wrong
    assert refused(await house.request("POST", f"{PATH}/{provider}/activate", {})) == (400, "BAD_REQUEST")
    assert (await house.browser().request("GET", f"/auth/{provider}?org=acme")).status not in {200, 302}
    # An active one with other settings than those seen is no yes to these, either.
    (await house.activate(provider)).ok()
    assert refused(await house.activate(provider, digest=seen)) == (409, "CONFLICT")
    assert (await house.activate(provider)).ok()["state"] == "active"


async def test_the_page_shows_what_becomes_active_and_a_form_of_before_does_nothing(house: ConnectionScene) -> None:
    provider = await house.draft(metadata_url="https://login.acme.example/saml/metadata")
    assert b"All checks passed" in (await house.test(provider)).body
    before = await house.record(provider)
    owner = house.signed_in(house.speaker, age=1)
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
    await swapped(house, provider, administrator(house))
    stale = await owner.request("POST", form.action, form.fields)
    assert (stale.status, b"not those that you have seen" in stale.body) == (409, True)
    now = await house.record(provider)
    assert (now["state"], now["digest"] == before["digest"]) == ("tested", False)
    # The page shows what is there now, and carries its digest.
    again = next(one for one in PageReader(stale.body).forms if one.action.endswith("/activate"))
    assert again.fields["digest"] == now["digest"]
    assert now["saml"]["certificates"][0]["fingerprint"] in stale.body.decode()
    assert (await owner.request("POST", again.action, again.fields)).status == 303
    assert (await house.record(provider))["state"] == "active"


async def test_fifty_changes_race_with_the_owners_word(house: ConnectionScene) -> None:
    """Either the owner's word comes first, and the change makes a draft, or the change comes first, and the word is refused."""
    provider = await house.draft()
    assert b"All checks passed" in (await house.test(provider)).body
    seen, admin = (await house.record(provider))["digest"], administrator(house)

    def change(at: int) -> Callable[[], Awaitable[Received]]:
        return lambda: house.request("PATCH", f"{PATH}/{provider}", {"slo_url": f"https://e.example/{at}"}, by=admin)

    answers = await all_at_once(lambda: house.activate(provider, digest=seen), *(change(at) for at in range(49)))
    statuses = Counter(one.status for one in answers)
    assert statuses in (Counter({200: 50}), Counter({200: 49, 409: 1}))
    said = house.audited("organization.upstream_provider.activated")
    assert [one["details"]["digest"] for one in said] == ([seen] if statuses[200] == 50 else [])
    record = await house.record(provider)
    assert (record["state"], record["enabled"]) == ("draft", False)


async def test_another_organizations_owner_says_nothing(house: ConnectionScene) -> None:
    made = (await house.request("POST", PATH, client(house), by=administrator(house))).ok(201)
    globex = house.tenants.add("globex")
    boss = house.resident(globex, "owner", "boss")
    place = f"{PATH.replace('acme', 'globex')}/{made['id']}/activate"
    assert (await house.request("POST", place, {"digest": made["digest"]}, by=boss)).status == 404
    assert refused(await house.request("POST", f"{PATH}/{made['id']}/activate", {"digest": made["digest"]}, by=boss)) == (403, "FORBIDDEN")
    assert (await house.record(made["id"]))["state"] == "draft"


async def robot(house: ConnectionScene) -> str:
    """A key with all that an owner may give it about connections, adopted by the owner."""
    keys = "/api/organizations/acme/management-keys"
    body = {"name": "Robot", "capabilities": ["org.settings.manage", "connections.manage"]}
    made = (await house.request("POST", keys, body)).ok(201)
    house.log.remember(made["key"])
    (await house.request("POST", f"{keys}/{made['id']}/adopt")).ok()
    return str(made["key"])


async def test_a_management_key_is_no_owner(house: ConnectionScene) -> None:
    await house.prove_domain()
    house.verified()
    key = await robot(house)
    made = (await house.client.request("POST", PATH, body=client(house), token=key)).ok(201)
    assert (made["state"], made["enabled"]) == ("draft", False)
    place = f"{PATH}/{made['id']}"
    assert (await house.client.request("POST", f"{place}/activate", body={"digest": made["digest"]}, token=key)).status == 403
    assert not await signs_in(house, made["id"])
    (await house.activate(made["id"])).ok()
    # It goes on to keep what an owner has said yes to: a new secret, and on and off.
    kept = {"client_secret": house.fakes["own"].client_secret}
    assert (await house.client.request("PATCH", place, body=kept, token=key)).ok()["state"] == "active"
    assert (await house.client.request("PATCH", place, body={"client_id": "another"}, token=key)).ok()["state"] == "draft"


async def test_a_document_is_the_word_of_whoever_applies_it(house: ConnectionScene) -> None:
    await house.prove_domain()
    fake, key = house.fakes["own"], await robot(house)
    entry = {"issuer": fake.issuer, "client_id": fake.client_id, "enabled": True}
    secrets = {"/organizations/acme/upstream_providers/Own/client_secret": fake.client_secret}
    place = "/api/organizations/acme/configuration"

    def sent(**changes: Any) -> dict[str, Any]:
        return {
            "document": {"postern": 1, "organizations": {"acme": {"upstream_providers": {"Own": {**entry, **changes}}}}},
            "secrets": secrets,
        }

    applied = (await house.client.request("POST", f"{place}/apply", body=sent(), token=key)).ok()
    assert (applied["refused"], len(applied["done"])) == ([], 1)
    (made,) = (await house.request("GET", PATH)).json()
    assert (made["state"], made["enabled"]) == ("draft", False)
    # That it waits is no difference from the document.
    secrets.clear()
    assert (await house.client.request("POST", f"{place}/plan", body=sent(), token=key)).ok()["changes"] == []
    (await house.activate(made["id"])).ok()
    assert (await house.client.request("POST", f"{place}/plan", body=sent(), token=key)).ok()["changes"] == []
    # The owner's own document is the owner's word, and a key's is not.
    assert (await house.request("POST", f"{place}/apply", sent(client_id="another"))).ok()["refused"] == []
    assert (await house.record(made["id"]))["state"] == "active"
    applied = (await house.client.request("POST", f"{place}/apply", body=sent(client_id="a third"), token=key)).ok()
    assert applied["refused"] == []
    assert (await house.record(made["id"]))["state"] == "draft"


@pytest.mark.parametrize("way", ["making", "another client", "a certificate"])
async def test_what_counts_as_the_owners_word_confirms_the_ownership(house: ConnectionScene, way: str) -> None:
    heir, provider = house.resident(house.acme, "member", "heir"), ""
    if way == "another client":
        provider = (await house.request("POST", PATH, client(house))).ok(201)["id"]
    if way == "a certificate":
        provider = await house.active()
    (await house.request("POST", "/api/organizations/acme/transfer-ownership", {"new_owner_user_id": str(heir.user)})).ok()
    house.speaker = heir
    # What an administrator may do confirms nothing.
    if provider:
        (await house.request("PATCH", f"{PATH}/{provider}", {"name": "Renamed"})).ok()
    assert house.people.rows("select from ownerships where confirmed_at is null") != []
    if way == "making":
        assert (await house.request("POST", PATH, client(house))).ok(201)["state"] == "active"
    elif way == "another client":
        assert (await house.request("PATCH", f"{PATH}/{provider}", {"client_id": "another"})).ok()["state"] == "active"
    else:
        body = {"certificate": pair("further").certificate}
        assert (await house.request("POST", f"{PATH}/{provider}/certificate", body)).ok()["state"] == "active"
    assert house.people.rows("select from ownerships where confirmed_at is null") == []
