"""A relay state with quotes, markup and spaces comes back to the service provider byte for byte, and becomes nothing else in our pages: in
the form of a sign-in, in that of a sign-out, and in the question before a sign-in that begins here.
"""

from typing import Final
from urllib.parse import quote, urlencode

import pytest
from lxml import html

from ops.stand_ins.saml import pair
from tests.http.client import Received
from tests.http.federation.providing import (
    ACS,
    SLO,
    Providing,
    asking,
    authn_request,
    in_form,
    in_query,
    logout_request,
    metadata,
    sent,
    signed,
    slo,
    sso,
)

_CROSS_SITE: Final = [("content-type", "application/x-www-form-urlencoded"), ("origin", "https://crm.example.com")]
HOSTILE: Final = (
    "\"><script src='//evil.example/x.js'></script>",
    "' autofocus onfocus='alert(1)",
    '" formaction="https://evil.example/" x="',
    "</form><form action=https://evil.example/><input name=SAMLResponse>",
    "&quot;&#34;&#x22;><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}${7*7}<%= 7 %>",
    "javascript:alert(1)",
    "ünï\u202ecode 'and' \"quotes\" ≪script≫",
    " leading, trailing & plus+plus = ; ",
)


def _shape(answer: Received) -> list[tuple[str, list[str]]]:
    """The elements of a page with the names of their attributes."""
    return [(str(one.tag), sorted(one.attrib)) for one in html.fromstring(answer.body.decode()).iter() if isinstance(one.tag, str)]


async def _sign_in(provider: Providing, state: str, by: str) -> Received:
    browser = provider.signed_in(provider.people.add())
    if by == "address":
        return await browser.request("GET", asking(state=state))
    return await browser.request("POST", sso(), in_form(authn_request(), state))


@pytest.mark.parametrize("by", ["address", "form"])
async def test_of_a_sign_in(provider: Providing, by: str) -> None:
    await provider.ready()
    plain = _shape(await _sign_in(provider, "plain", by))
    for state in HOSTILE:
        answer = await _sign_in(provider, state, by)
        got = sent(answer, ACS)
        assert (got.status, got.fields["RelayState"]) == ("Success", state)
        assert _shape(answer) == plain


@pytest.mark.parametrize("by", ["address", "form"])
async def test_of_a_refused_sign_in(provider: Providing, by: str) -> None:
    """Nobody is signed in, and the service provider asks that nobody be shown a page."""
    await provider.ready()
    for state in HOSTILE:
        document = authn_request(IsPassive="true")
        tabs = provider.browser()
        if by == "address":
            answer = await tabs.request("GET", asking(document, state))
        else:
            answer = await tabs.request("POST", sso(), in_form(document, state))
        got = sent(answer, ACS)
        assert (got.status, got.fields["RelayState"]) == ("NoPassive", state)


@pytest.mark.parametrize("by", ["address", "form"])
async def test_of_a_sign_out(provider: Providing, by: str) -> None:
    await provider.ready(slo_url=SLO, slo_binding="post")
    (await provider.upload(metadata(signing=(pair(),)))).ok()

    async def signed_out(state: str) -> Received:
        document = logout_request("nobody@example.org", None)
        if by == "address":
            return await provider.browser().request("GET", f"{slo()}?{in_query(document, state, signer=pair())}")
        body = urlencode(in_form(signed(document, pair()), state)).encode()
        return await provider.unlimited.request("POST", slo(), body=body, headers=_CROSS_SITE)

    plain = _shape(await signed_out("plain"))
    for state in HOSTILE:
        answer = await signed_out(state)
        got = sent(answer, SLO)
        assert (got.status, got.fields["RelayState"]) == ("Success", state)
        assert _shape(answer) == plain


async def test_of_a_sign_in_that_begins_here(provider: Providing) -> None:
    await provider.ready()
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    plain = _shape((await browser.tab().open("/ui/open/acme/app?RelayState=plain")).shown)
    for state in HOSTILE:
        tab = await browser.tab().open(f"/ui/open/acme/app?RelayState={quote(state, safe='')}")
        assert _shape(tab.shown) == plain
        assert sent((await tab.send()).shown, ACS).fields["RelayState"] == state
