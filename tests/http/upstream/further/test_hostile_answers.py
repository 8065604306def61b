"""Answers of further providers that come wrong, too often or too late, and providers that change while people are on their way."""

from typing import Final
from urllib.parse import urlencode

import pytest

from core.domain.identity.accounts import ACCOUNT_MAILS
from ops.browser.page_reader import PageReader
from tests.http.client import Received, refused
from tests.http.upstream.further.scene import ADDRESS, CODE, PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import PROFILE
from tests.http.upstream.scene import ADA

BAD: Final = (400, "BAD_REQUEST")
# A key in PEM of an algorithm that nobody knows.
UNKNOWN_KEY: Final = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDKgMEBCIEIHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4
-----END PRIVATE KEY-----
"""


async def _post(scene: FurtherScene, word: str, form: list[tuple[str, str]]) -> Received:
    body = urlencode(form).encode()
    return await scene.unlimited.request(
        "POST", f"/auth/{word}/callback", body=body, headers=[("content-type", "application/x-www-form-urlencoded")]
    )


async def test_of_each_state_one_answer_waits(scene: FurtherScene) -> None:
    """Whoever has left once knows a state, and needs no browser of ours to send forms with it."""
    apple = await scene.has("apple")
    tabs = scene.browser()
    apple.consent(await scene.leave(tabs, word="apple"))
    state = apple.asked["state"]
    for number in range(5):
        assert (await _post(scene, "apple", [("state", state), ("code", f"junk-{number}")])).status == 303
    (count,) = scene.people.rows("select count(*) from posted_answers")
    assert count["count"] == 1
    # The last one counts, so a form that a browser sends twice still leads on.
    last = await scene.posted(apple, "/auth/apple/callback")  # type: ignore[arg-type]
    await scene.asked(tabs, await tabs.request("GET", last))
    assert scene.people.rows("select from posted_answers") == []


async def test_a_posted_answer_without_a_state_of_ours_keeps_nothing(scene: FurtherScene) -> None:
    await scene.has("apple")
    await scene.has("gitlab")
    tabs = scene.browser()
    await scene.leave(tabs, word="gitlab")
    state = scene.query_of(await scene.leave(tabs, word="gitlab"))["state"]
    for word in ("apple", "gitlab"):
        assert (await _post(scene, word, [("state", state), ("code", "a")])).status == 303
    assert scene.people.rows("select from posted_answers") == []


@pytest.mark.parametrize(
    "form",
    [
        [(f"field{number}", "x") for number in range(200)],
        [("state", "s" * 3000), ("code", "c" * 4097), ("error", "e" * 3000), ("iss", "i" * 100)],
        [("state", "s"), ("code", "new\nline")],
    ],
)
async def test_a_form_that_is_none_is_refused_and_echoes_little(scene: FurtherScene, form: list[tuple[str, str]]) -> None:
    await scene.has("apple")
    answer = await _post(scene, "apple", form)
    assert answer.status in {303, 400, 413}
    assert len(answer.header("location") or "") < 2000
    assert scene.people.rows("select from posted_answers") == []


@pytest.mark.parametrize("field", ["authorization_url", "token_url", "profile_url"])
@pytest.mark.parametrize("address", ["http://169.254.169.254/latest", "https://[fd00::1]/", "http://10.0.0.1:8080/x"])
async def test_an_address_that_is_never_called_is_refused_at_its_field(scene: FurtherScene, field: str, address: str) -> None:
    answer = await scene.add({**PROFILE, field: address})
    assert refused(answer) == BAD
    assert answer.json()["error"].startswith(f"{field}: ")


async def test_a_key_of_an_unknown_kind_is_no_key(scene: FurtherScene) -> None:
    answer = await scene.add({**scene.of_preset("apple"), "client_secret": UNKNOWN_KEY})
    assert refused(answer) == BAD
    assert answer.json()["error"].startswith("client_secret: no private key")


async def test_another_provider_of_the_same_name_inherits_nobody(scene: FurtherScene) -> None:
    """What the former one has said of a newcomer ends with it."""
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    (mail,) = [one for one in await scene.postbox.empty() if one.to == ADA]
    code = next(word for word in mail.text.split() if len(word) == 8 and word.isdigit())
    assert (await scene.request("DELETE", f"{PROVIDERS}/discord", by=scene.root)).status == 204
    await scene.has("discord")
    answer = await scene.send(tabs, asks, CODE, code=code)
    assert answer.status != 303 or "/ui/sign-in" in (answer.header("location") or "")
    assert scene.people.rows("select from users where email = %s", ADA) == []
    assert scene.identities() == []


async def test_whoever_comes_back_from_a_deleted_provider_finds_the_other_ways(scene: FurtherScene) -> None:
    discord = await scene.has("discord")
    tabs = scene.browser()
    back = discord.consent(await scene.leave(tabs, word="discord"))
    assert (await scene.request("DELETE", f"{PROVIDERS}/discord", by=scene.root)).status == 204
    came = await tabs.request("GET", back)
    assert came.status == 400
    assert any(link.startswith("/ui/sign-in?flow=") for link in PageReader(came.body).links) or b'name="email"' in came.body


async def test_a_mailbox_gets_few_codes_from_however_many_flows(scene: FurtherScene) -> None:
    await scene.has("discord")
    statuses = []
    for number in range(ACCOUNT_MAILS.burst + 2):
        tabs = scene.browser()
        scene.seats("discord", subject=str(number))
        page = await scene.asked(tabs, await scene.come(tabs, "discord"))
        statuses.append((await scene.send(tabs, page, ADDRESS, email=ADA)).status)
    assert statuses == [303] * ACCOUNT_MAILS.burst + [429] * 2


async def test_an_identity_that_leads_nowhere_is_no_other_way_in(scene: FurtherScene) -> None:
    """With another issuer, the provider knows nobody by the identities of before."""
    await scene.has("discord")
    await scene.has("slack")
    ada = scene.people.proved(ADA)
    (kept,) = scene.people.rows("select settings ->> 'issuer' as issuer from further_providers where key = 'discord'")
    scene.people.connect(ada, "discord", kept["issuer"], "1815")
    scene.people.connect(ada, "slack", scene.fakes["slack"].issuer, "1815")
    moved = await scene.request("PATCH", f"{PROVIDERS}/discord", {"issuer": "https://a.example", "client_secret": "s"}, by=scene.root)
    assert moved.status == 200, moved.body
    answer = await scene.request("DELETE", "/api/user/identities/slack", by=scene.people.session_of(ada))
    assert refused(answer) == BAD
    assert "last sign-in method" in answer.json()["error"]
    assert len(scene.identities()) == 2
