"""XML bombs from the side of a service provider: in its metadata and in its sign-outs. Requests for a sign-in have tests of their own."""

from functools import partial

import pytest

from tests.adapters.saml.bombs import BOMBS, LARGE, bounded, in_address, packed_zeros, refused
from tests.http.federation.providing import SLO, Providing, in_form, logout_request, metadata, slo


@pytest.mark.parametrize("name", BOMBS)
async def test_in_metadata(provider: Providing, name: str) -> None:
    await provider.ready()
    (await provider.upload(metadata())).ok()
    before = provider.people.rows("select * from saml_configurations")
    ask = partial(provider.upload, BOMBS[name](metadata().decode()).encode())
    if name in LARGE:
        await bounded(ask)
    else:
        await refused(ask)
        assert provider.people.rows("select * from saml_configurations") == before


@pytest.mark.parametrize("name", BOMBS)
async def test_in_a_sign_out(provider: Providing, name: str) -> None:
    await provider.ready(slo_url=SLO)
    (await provider.upload(metadata())).ok()
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    document = BOMBS[name](logout_request(str(ada.user)))
    await refused(partial(browser.request, "GET", f"{slo()}?{in_address(document)}"))
    await refused(partial(browser.request, "GET", f"{slo()}?{in_address(document, 'SAMLResponse')}"))
    await refused(partial(browser.request, "POST", slo(), in_form(document)))
    assert provider.people.rows("select from sessions where id = %s and revoked_at is null", ada.session)


async def test_compressed(provider: Providing) -> None:
    await provider.ready(slo_url=SLO)
    (await provider.upload(metadata())).ok()
    for name in ("SAMLRequest", "SAMLResponse"):
        await refused(partial(provider.browser().request, "GET", f"{slo()}?{packed_zeros(name)}"))
