"""The APIs that wait for an approval of a platform owner."""

from tests.http.pages.console.platform.conftest import PlatformScene


async def test_an_owner_of_the_platform_approves_and_takes_back(platform: PlatformScene) -> None:
    assert "No approval requests" in (await platform.at("/apis")).page.text
    platform.people.change(
        """
        insert into resource_servers (id, org_id, identifier, domain, name, admits, token, approval_asked_at, created_at, updated_at)
        values (gen_random_uuid(), %s, 'https://intranet/api', 'intranet', 'Intranet', 'all', 't', now(), now(), now())
        """,
        platform.acme.id,
    )
    (server,) = platform.people.rows("select id from resource_servers")
    where = f"/apis/{server['id']}"
    assert f"/ui/platform{where}" in (await platform.at("/apis")).page.links
    await platform.answer(f"{where}/approve")
    assert len(platform.people.rows("select from resource_servers where approved_at is not null")) == 1
    text = (await platform.at("/apis")).page.text
    assert "https://intranet/api" in text
    assert "Acme" in text
    await platform.answer(f"{where}/withdraw")
    assert platform.people.rows("select from resource_servers where approved_at is not null") == []
    assert "No approval requests" in (await platform.at("/apis")).page.text
