"""XML bombs from the side of a directory: in its metadata and in its sign-outs. A sign-in's answers have tests of their own."""

from functools import partial

import pytest

from tests.adapters.saml.bombs import BOMBS, LARGE, bounded, in_address, packed_zeros, refused
from tests.http.connections.scene import PATH, XML, ConnectionScene
from tests.http.federation.providing import in_form, logout_request


@pytest.mark.parametrize("name", BOMBS)
async def test_in_metadata(scene: ConnectionScene, name: str) -> None:
    provider = await scene.draft()
    before = scene.people.rows("select saml from upstream_providers")
    token = await scene.tenants.token(scene.speaker)
    document = BOMBS[name](scene.directory.metadata()).encode()
    ask = partial(scene.client.request, "POST", f"{PATH}/{provider}/metadata", body=document, token=token, headers=XML)
    await (bounded(ask) if name in LARGE else refused(ask))
    assert scene.people.rows("select saml from upstream_providers") == before


@pytest.mark.parametrize("name", BOMBS)
async def test_in_a_sign_out(scene: ConnectionScene, name: str) -> None:
    provider = await scene.active()
    ada, tabs = scene.verified(), scene.browser()
    await scene.arrive(tabs, provider)
    document, path = BOMBS[name](logout_request("ada@example.org")), f"/saml/sp/{provider}/slo"
    await refused(partial(scene.browser().request, "GET", f"{path}?{in_address(document)}"))
    await refused(partial(scene.browser().request, "POST", path, in_form(document)))
    # Nobody reads a directory's answer to a sign-out of ours: it changes nothing, and ends on a page that says what is true already.
    await bounded(partial(scene.browser().request, "GET", f"{path}?{in_address(document, 'SAMLResponse')}"))
    assert await scene.who(tabs) == ada.user


async def test_compressed(scene: ConnectionScene) -> None:
    provider = await scene.active()
    await refused(partial(scene.browser().request, "GET", f"/saml/sp/{provider}/slo?{packed_zeros()}"))
    await bounded(partial(scene.browser().request, "GET", f"/saml/sp/{provider}/slo?{packed_zeros('SAMLResponse')}"))
