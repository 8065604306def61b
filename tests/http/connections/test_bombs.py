"""XML bombs from the side of a directory: in its metadata and in its sign-outs. A sign-in's answers have tests of their own."""

from functools import partial

import pytest

from tests.adapters.saml.bombs import BOMBS, LARGE, bounded, in_address, packed_zeros, refused
from tests.http.connections.scene import PATH, XML, ConnectionScene
from tests.http.federation.providing import in_form, logout_request


@pytest.mark.parametrize("name", BOMBS)
async def test_in_metadata(house: ConnectionScene, name: str) -> None:
    provider = await house.draft()
    before = house.people.rows("select saml from upstream_providers")
    token = await house.tenants.token(house.speaker)
    document = BOMBS[name](house.directory.metadata()).encode()
    ask = partial(house.client.request, "POST", f"{PATH}/{provider}/metadata", body=document, token=token, headers=XML)
    await (bounded(ask) if name in LARGE else refused(ask))
    assert house.people.rows("select saml from upstream_providers") == before


@pytest.mark.parametrize("name", BOMBS)
async def test_in_a_sign_out(house: ConnectionScene, name: str) -> None:
    provider = await house.active()
    ada, tabs = house.verified(), house.browser()
    await house.arrive(tabs, provider)
    document, path = BOMBS[name](logout_request("ada@example.org")), f"/saml/sp/{provider}/slo"
    await refused(partial(house.browser().request, "GET", f"{path}?{in_address(document)}"))
    await refused(partial(house.browser().request, "POST", path, in_form(document)))
    # Nobody reads a directory's answer to a sign-out of ours: it changes nothing, and ends on a page that says what is true already.
    await bounded(partial(house.browser().request, "GET", f"{path}?{in_address(document, 'SAMLResponse')}"))
    assert await house.who(tabs) == ada.user


async def test_compressed(house: ConnectionScene) -> None:
    provider = await house.active()
    await refused(partial(house.browser().request, "GET", f"/saml/sp/{provider}/slo?{packed_zeros()}"))
    await bounded(partial(house.browser().request, "GET", f"/saml/sp/{provider}/slo?{packed_zeros('SAMLResponse')}"))
