"""What ends soon: on the pages of an organization and of the installation, and by the API."""

from typing import Any
from uuid import UUID

import pytest

from tests.http.pages.console.conftest import ConsoleScene
from tests.http.tenants import Tenant, UsedService

API = "/api/organizations/acme/expiries"
_SAML: Any = '{"certificates": [{"valid_until": "2020-01-01T00:00:00Z"}]}'


class Ends:
    """Things of every kind that end."""

    def __init__(self, console: ConsoleScene) -> None:
        self.console = console
        self.shop = console.tenants.service(console.acme, "shop")

    def new(self) -> UUID:
        return self.console.postern.foundation.ids.new()

    def certificate(self, of: UsedService, days: int, state: str = "active") -> None:
        self.console.people.change(
            "insert into saml_certificates (id, service_id, state, certificate, sealed_private_key, valid_from, valid_until, created_at)"
            " values (%s, %s, %s, '', '', now(), now() + %s * interval '1 day', now())",
            self.new(),
            of.id,
            state,
            days,
        )

    def directory(self, of: Tenant, name: str) -> None:
        self.console.people.change(
            "insert into upstream_providers (id, org_id, kind, name, issuer, scopes, enabled, created_at, updated_at, saml, certificate,"
            " sealed_private_key, certificate_until) values (%s, %s, 'saml', %s, 'i', '{}', true, now(), now(), %s::jsonb, 'c', 'k',"
            " now() + interval '5 days')",
            self.new(),
            of.id,
            name,
            _SAML,
        )

    def management_key(self, of: Tenant | None, name: str, days: int) -> None:
        self.console.people.change(
            "insert into management_keys (id, org_id, name, prefix, digest, capabilities, expires_at, created_by, created_at)"
            " values (%s, %s, %s, %s, %s, '{}', now() + %s * interval '1 day', %s, now())",
            self.new(),
            of and of.id,
            name,
            name,
            name.encode(),
            days,
            self.console.ada.user,
        )

    def others(self) -> None:
        change, acme, ada = self.console.people.change, self.console.acme.id, self.console.ada.user
        change(
            "insert into scim_tokens (id, org_id, name, prefix, digest, expires_at, created_by, created_at)"
            " values (%s, %s, 'Provisioning', 'p', 'd', now() + interval '3 days', %s, now())",
            self.new(),
            acme,
            ada,
        )
        change(
            "insert into api_keys (id, service_id, name, prefix, digest, permissions, expires_at, last_used_at, created_by, created_at)"
            " values (%s, %s, 'Server', 'k', 'd', '{}', now() + interval '60 days', now(), %s, now())",
            self.new(),
            self.shop.id,
            ada,
        )
        change(
            "insert into resource_servers (id, org_id, identifier, domain, name, admits, token, checked_at, created_at, updated_at)"
            " values (%s, %s, 'https://api.example/', 'api.example', 'Orders', 'all', 't', now(), now(), now())",
            self.new(),
            acme,
        )
        change(
            "insert into domain_routes (id, org_id, domain, token, checked_at, login_policy, join_policy, created_at, updated_at)"
            " values (%s, %s, 'people.example', 't', now(), 'password_allowed', 'off', now(), now())",
            self.new(),
            acme,
        )
        change(
            "insert into domains (id, org_id, domain, token, checked_at, created_at, updated_at)"
            " values (%s, %s, 'login.example', 't', now(), now(), now())",
            self.new(),
            acme,
        )


@pytest.fixture
def ends(console: ConsoleScene) -> Ends:
    return Ends(console)


async def test_everything_that_ends_stands_on_one_page(ends: Ends) -> None:
    console = ends.console
    assert "Nothing expires soon" in (await console.at("/ends-soon")).page.text
    ends.certificate(ends.shop, 10)
    ends.certificate(ends.shop, 400, "next")
    ends.directory(console.acme, "Directory")
    ends.management_key(console.acme, "Nightly sync", 20)
    ends.others()
    # These end later, or ended long ago.
    ends.management_key(console.acme, "Later", 91)
    ends.management_key(console.acme, "Long ago", -31)
    listed = (await console.request("GET", API, by=console.ada)).ok()["expiries"]
    assert [(one["kind"], one["name"], one["has_successor"]) for one in listed] == [
        *sorted([("api_host", "Orders", False), ("domain", "people.example", False), ("own_domain", "login.example", False)]),
        ("directory_certificate", "Directory", False),
        ("scim_token", "Provisioning", False),
        ("own_certificate", "Directory", False),
        ("application_certificate", "Shop", True),
        ("management_key", "Nightly sync", False),
        ("api_key", "Server", False),
    ]
    tab = await console.at("/ends-soon")
    for said in (
        "Verification failed",
        "Replacement ready",
        "Application SAML certificate",
        "Provisioning",
        "API key",
        "people.example",
    ):
        assert said in tab.page.text, said
    assert "/ui/o/acme/applications/shop/saml-certificate" in tab.page.links
    assert "Later" not in tab.page.text
    # The directory of this test is no whole one, and has no page.
    (directory,) = console.people.rows("delete from upstream_providers returning id")
    places = {one for one in tab.page.links if one.startswith("/ui/o/acme/")}
    for link in places - {f"/ui/o/acme/directories/{directory['id']}"}:
        assert (await console.tab.open(link)).status == 200, link
    assert "/ui/o/acme/ends-soon" in (await console.at()).page.links


async def test_others_see_nothing_of_it(ends: Ends) -> None:
    console = ends.console
    stranger, tab = console.stranger()
    ends.management_key(console.tenants.add("initech"), "Theirs", 20)
    assert (await console.request("GET", API, by=console.ada)).ok() == {"expiries": []}
    assert (await console.request("GET", API, by=stranger)).status == 403
    assert (await tab.open("/ui/o/acme/ends-soon")).status == 403
    assert (await console.colleague().open("/ui/o/acme/ends-soon")).status == 403
    assert (await console.request("GET", "/api/platform/expiries", by=stranger)).status == 403
    assert (await tab.open("/ui/platform/ends-soon")).status == 403


async def test_the_installation_has_one_page_of_all(ends: Ends) -> None:
    console = ends.console
    governor = console.people.add("governor@example.org", platform_owner=True)
    ends.certificate(ends.shop, 10)
    ends.directory(console.tenants.add("initech"), "Directory")
    ends.management_key(None, "Operators", 5)
    suspended = console.tenants.add("closed")
    ends.management_key(suspended, "Of a closed one", 5)
    console.people.change("update all_organizations set status = 'suspended' where id = %s", suspended.id)
    tab = await console.browser(governor).tab().open("/ui/platform/ends-soon")
    for said in ("Shop", "Acme", "Directory", "Initech", "Operators"):
        assert said in tab.page.text, said
    assert "Of a closed one" not in tab.page.text
    assert f"/ui/platform/organizations/{console.acme.id}" in tab.page.links
