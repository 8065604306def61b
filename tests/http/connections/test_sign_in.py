"""Signing in through a directory by SAML."""

from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.people import BASE_URL
from tests.http.upstream.scene import ADA


async def test_a_person_signs_in_through_a_tested_and_active_directory(house: ConnectionScene) -> None:
    provider = await house.active()
    ada = house.verified()
    tabs = house.browser()
    answer = await house.arrive(tabs, provider)
    assert answer.status == 303, answer.body
    assert await house.who(tabs) == ada.user
    told = [(one["provider"], one["issuer"], one["subject"], one["email"]) for one in house.identities()]
    assert told == [(provider, house.directory.issuer, "p-1", ADA)]
    # The next time, the name alone decides.
    house.directory.email = "ada.lovelace@example.org"
    again = house.browser()
    await house.arrive(again, provider)
    assert await house.who(again) == ada.user


async def test_a_draft_serves_its_test_alone(house: ConnectionScene) -> None:
    provider = await house.draft()
    record = next(one for one in (await house.request("GET", PATH)).json() if one["id"] == provider)
    assert (record["kind"], record["state"], record["enabled"], record["issuer"]) == ("saml", "draft", False, house.directory.issuer)
    assert record["saml"]["acs_url"] == f"{BASE_URL}/saml/sp/{provider}/acs"
    assert (await house.browser().request("GET", f"/auth/{provider}?org=acme")).status == 400
    page = await house.test(provider)
    assert b"All checks passed" in page.body, page.body
    assert house.people.rows("select from identities") == []
    record = next(one for one in (await house.request("GET", PATH)).json() if one["id"] == provider)
    assert (record["state"], record["enabled"]) == ("tested", False)
