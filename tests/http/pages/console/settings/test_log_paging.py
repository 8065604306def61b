"""Logs of the console: 25 rows on a page, "Older" and "Newer", whether the endpoint has pages or answers the whole log."""

from typing import Final, LiteralString

import pytest

from entrypoints.http.console.kit.lists import page_of_list
from entrypoints.http.console.organization.events import DELIVERIES
from entrypoints.http.console.organization.people.members import MEMBERS
from tests.http.browsing import Tab
from tests.http.pages.console.conftest import ConsoleScene

_REFUSED: Final[LiteralString] = """
    insert into authorization_refusals (id, service_id, place, reason, received, expected, occurred_at)
    values (%s, %s, 'authorize', 'redirect_unregistered', %s, '', now())
"""
_SCIM: Final[LiteralString] = """
    insert into scim_exchanges (id, org_id, token_id, token_name, method, path, status, occurred_at)
    values (%s, %s, gen_random_uuid(), 'Okta', 'GET', %s, 200, now())
"""
_SAML: Final[LiteralString] = """
    insert into saml_exchanges (id, service_id, kind, binding, succeeded, status, reason, advice, message_id, in_response_to, created_at)
    values (%s, %s, 'authn_request', 'redirect', true, 'x', '', '', %s, '', now())
"""


def _rows_of(tab: Tab) -> list[int]:
    return [int(part.split()[0]) for part in tab.page.text.split("row/")[1:]]


async def _turned(tab: Tab, by: int) -> Tab:
    """The page behind "Older" or "Newer"."""
    at, _, number = tab.place.partition("?page=")
    beyond = f"{at}?page={int(number or 1) + by}"
    assert beyond in tab.page.links, tab.page.links
    return await tab.open(beyond)


@pytest.mark.parametrize(
    ("at", "statement", "count"),
    [
        ("/applications/shop/refusals", _REFUSED, 50),
        ("/directories/scim/exchanges", _SCIM, 60),
        ("/applications/shop/saml-exchanges", _SAML, 26),
    ],
)
async def test_a_log_whose_endpoint_has_no_pages_is_cut_into_pages(
    console: ConsoleScene, at: str, statement: LiteralString, count: int
) -> None:
    shop = console.tenants.service(console.acme, "shop")
    for number in range(count):
        place = console.acme.id if statement is _SCIM else shop.id
        console.people.change(statement, console.postern.foundation.ids.new(), place, f"row/{number}")
    newest = list(range(count - 1, -1, -1))
    tab = await console.at(at)
    assert tab.status == 200
    assert not [link for link in tab.page.links if link.endswith("page=0")]
    for begins in range(0, count, 25):
        if begins:
            await _turned(tab, 1)
        assert _rows_of(tab) == newest[begins : begins + 25]
    assert not [link for link in tab.page.links if link.endswith(f"page={-(-count // 25) + 1}")]
    last = _rows_of(tab)
    await _turned(tab, -1)
    assert _rows_of(await _turned(tab, 1)) == last
    # Whatever stands in the address.
    for page in ("0", "x", "99999"):
        assert (await tab.tabs.request("GET", f"{tab.place.partition('?')[0]}?page={page}")).status in {200, 400}, page


async def test_the_audit_log_shows_25_entries(console: ConsoleScene) -> None:
    for number in range(26):
        changed = {"name": f"Acme {number}"}
        assert (await console.request("PATCH", "/api/organizations/acme", changed, by=console.ada)).status == 200
    # Entries in a row that say the same are one line.
    assert "and 24 similar entries" in (await console.at("/audit-log")).page.text
    await _turned(console.tab, 1)
    assert "updated the organization" in console.tab.page.text
    assert "similar entries" not in console.tab.page.text


def test_other_lists_keep_their_length() -> None:
    """The numbers that go to the endpoint."""
    assert page_of_list(DELIVERIES, {"page": "3"}) == {"limit": 25, "page": "3"}
    assert page_of_list(MEMBERS, {"page": "3"}) == {"limit": 50, "page": "3"}
