"""Organizations of the installation: found, decided about, limited and deleted."""

from urllib.parse import quote

from tests.http.pages.console.platform.conftest import HOME, PlatformScene

LIST = f"{HOME}/organizations"


def one(platform: PlatformScene) -> str:
    return f"/organizations/{platform.acme.id}"


def state_of(platform: PlatformScene) -> dict[str, object]:
    (row,) = platform.people.rows(
        "select status, suspension_reason, rejection_reason, max_users, tier_id::text, deleted_at is not null as gone"
        " from all_organizations where id = %s",
        platform.acme.id,
    )
    return row


async def test_organizations_are_found_by_beginning_and_by_id(platform: PlatformScene) -> None:
    other = platform.tenants.add("globex")
    platform.people.change("update all_organizations set name = 'Ärzte 100%%' where id = %s", other.id)
    address = f"{LIST}/{other.id}"
    for search in ("glo", "GLOBEX", "ärz", "Ärzte 100%", str(other.id), "  glob "):
        tab = await platform.at(f"/organizations?search={quote(search)}")
        assert address in tab.page.links, search
        assert f"{LIST}/{platform.acme.id}" not in tab.page.links
    for search in ("lobex", "_lobex", "%25", "nobody"):
        tab = await platform.at(f"/organizations?search={search}")
        assert address not in tab.page.links
    tab = await platform.at("/organizations?search=glo&status=suspended")
    assert "No results" in tab.page.text
    assert "/api/platform/organizations?search=glo" in tab.page.text


async def test_a_pending_organization_is_approved_with_a_tier(platform: PlatformScene) -> None:
    platform.people.change("update all_organizations set status = 'pending', approved_at = null")
    (tier,) = platform.people.rows("select id::text from tiers where name = 'professional'")
    tab = await platform.at(one(platform))
    assert "Pending approval" in tab.page.text
    tab = await platform.answer(f"{one(platform)}/approve", tier_id=tier["id"])
    assert tab.place.endswith("?done=console.governed.act_approve")
    assert (state_of(platform)["status"], state_of(platform)["tier_id"]) == ("active", tier["id"])
    # The same again: it does not wait any more.
    platform.people.change("update all_organizations set status = 'pending', approved_at = null")
    await platform.at(f"{one(platform)}/approve")
    platform.people.change("update all_organizations set status = 'active', approved_at = now()")
    assert (await platform.send_to(f"{HOME}{one(platform)}/approve")).status == 400


async def test_a_rejection_needs_a_reason(platform: PlatformScene) -> None:
    platform.people.change("update all_organizations set status = 'pending', approved_at = null")
    assert (await platform.answer(f"{one(platform)}/reject", reason=" ")).status == 400
    tab = await platform.answer(f"{one(platform)}/reject", reason="Unknown company")
    assert "Rejected" in tab.page.text
    assert state_of(platform)["rejection_reason"] == "Unknown company"


async def test_an_organization_is_suspended_and_activated(platform: PlatformScene) -> None:
    await platform.answer(f"{one(platform)}/suspend", reason="Overdue")
    assert (state_of(platform)["status"], state_of(platform)["suspension_reason"]) == ("suspended", "Overdue")
    await platform.at(one(platform))
    await platform.send_to(f"{HOME}{one(platform)}/activate")
    assert state_of(platform)["status"] == "active"
    assert [row["action"] for row in platform.audited("organization.%")] == ["organization.suspended", "organization.activated"]


async def test_limits_are_changed_and_only_what_was_changed(platform: PlatformScene) -> None:
    await platform.at(one(platform))
    await platform.send_to(f"{HOME}{one(platform)}/limits", max_users="7")
    assert (state_of(platform)["max_users"], state_of(platform)["tier_id"]) == (7, "01900000-0000-7000-8000-000000000001")
    await platform.send_to(f"{HOME}{one(platform)}/limits", max_users="")
    assert state_of(platform)["max_users"] is None
    tab = await platform.send_to(f"{HOME}{one(platform)}/limits", max_users="many")
    assert tab.status == 400


async def test_a_deletion_counts_what_ends_and_asks_for_the_name(platform: PlatformScene) -> None:
    tab = await platform.at(f"{one(platform)}/end")
    assert "1 membership" in tab.page.text
    assert (await platform.send_to(f"{HOME}{one(platform)}/end", typed="globex")).status == 400
    assert not state_of(platform)["gone"]
    tab = await platform.send_to(f"{HOME}{one(platform)}/end", typed="acme")
    assert tab.place == f"{LIST}?done=console.governed.end"
    assert state_of(platform)["gone"]
