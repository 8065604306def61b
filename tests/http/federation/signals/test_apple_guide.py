"""The guide for Apple Business Manager, walked as it stands: the test sends what its blocks say, with a receiver in Apple's place."""

import json
import re
from typing import Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import left
from tests.http.federation.relying import CALLBACK, FORM
from tests.http.federation.signals.granting import Granting
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.places import ROOT
from tests.receiver import answering, receiving

GUIDE: Final = ROOT / "docs" / "guides" / "apis" / "apple-business-manager.md"
_REQUEST: Final = re.compile(r"^(GET|POST|PUT) (\S+)\n((?:(?!GET |POST |PUT ).*\n)*)", re.MULTILINE)


@pytest.fixture
def granting(postern: Postern, people: People, log: CapturedLog) -> Granting:
    return Granting(postern, people, unlimited(postern), log)


def requests() -> dict[str, tuple[str, str]]:
    """The method and the body of each request of the guide, by its address."""
    blocks = re.findall(r"^```\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return {address: (method, body) for block in blocks for method, address, body in _REQUEST.findall(block)}


async def test_the_guide_leads_to_a_stream_that_hears(granting: Granting) -> None:
    asked, said = requests(), {"org": "acme", "slug": "shop", "host": "127.0.0.1", "redirect_uri": CALLBACK, "state": "x"}
    said |= {"client_id": granting.shop.client_id, "client_secret": granting.shop.secret or ""}

    def filled(text: str) -> str:
        for name, value in said.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    for address in ("/.well-known/openid-configuration", "/.well-known/ssf-configuration"):
        assert asked.pop(address) == ("GET", "")
        (await granting.client.get(address)).ok()
    settings = "/api/organizations/{org}/services/{slug}/signals"
    method, body = asked.pop(settings)
    (await granting.request(method, filled(settings), json.loads(filled(body)), by=granting.owner)).ok()
    (authorize,) = [address for address in asked if address.startswith("/oauth/authorize")]
    asked.pop(authorize)
    tab = await granting.browser(granting.admin).tab().open(filled(authorize))
    assert "Security events that Shop receives" in tab.page.text
    assert "127.0.0.1" in tab.page.text
    said["code"] = left(await tab.send(answer="allow"), CALLBACK)["code"]
    granting.log.remember(said["code"])
    method, body = asked.pop("/auth/token")
    tokens = granting.kept((await granting.client.request(method, "/auth/token", body=filled(body).strip().encode(), headers=[FORM])).ok())
    assert tokens["scope"] == "openid profile email offline_access ssf.manage ssf.read"
    tokens = granting.kept((await granting.refresh(granting.shop, tokens["refresh_token"])).ok())
    async with receiving(answering(202)) as receiver, granting.dispatching():
        said["endpoint_url"] = f"http://127.0.0.1:{receiver.port}/set"
        method, body = asked.pop("/ssf/streams")
        said["stream_id"] = (await granting.by_token(tokens, method, "/ssf/streams", json.loads(filled(body)))).ok(201)["stream_id"]
        method, body = asked.pop("/ssf/verification")
        assert (await granting.by_token(tokens, method, "/ssf/verification", json.loads(filled(body)))).status == 204
        (claims,) = await granting.heard(receiver)
        assert list(claims["events"].values()) == [{"state": "apple"}]
        person = await granting.leaves()
        assert (await granting.heard(receiver, 2))[1]["sub_id"]["sub"] == person
        assert asked == {}
        # Others sign in at Apple by the same request.
        other = await granting.browser(granting.resident(granting.acme, "member")).tab().open(filled(authorize))
        assert "Security events that" not in other.page.text
        assert "code" in left(await other.send(answer="allow"), CALLBACK)


def test_the_guide_says_that_nobody_tried_it() -> None:
    assert "This setup is untested with Apple" in GUIDE.read_text(encoding="utf-8")
