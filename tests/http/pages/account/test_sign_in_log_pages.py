"""`/ui/sign-ins`: the tries to sign in to the account."""

import ast
import re
from typing import Any

from core.domain.identity.upstream.providers import Provider
from tests.http.browsing import Tabs
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.people import Person
from tests.http.signing_in import FIREFOX, SAFARI
from tests.places import ROOT

PAGE = "/ui/sign-ins"


def tried(home: AccountPagesScene, person: Person | None = None, **columns: Any) -> None:
    given = {"provider": "password", "success": True, **columns}
    home.people.change(
        f"insert into login_events (id, user_id, {', '.join(given)}, created_at) values (%s, %s, {', '.join(['%s'] * len(given))}, now())",
        home.postern.foundation.ids.new(),
        (person or home.ada).user,
        *given.values(),
    )


async def test_each_attempt_with_its_outcome(home: AccountPagesScene) -> None:
    shop = home.tenants.service(home.tenants.add("acme"), "shop")
    device = home.device(name="Old phone")
    gone = home.device(name="Gone", revoked_at=home.postern.foundation.clock.now())
    tried(home, success=False, reason="wrong_password", address="203.0.113.7", country="SE", city="Lund", user_agent=SAFARI)
    tried(home, device_id=device, service_id=shop.id, organization_id=shop.tenant.id, provider="codehost")
    tried(home, device_id=gone, flagged=True, user_agent=FIREFOX, organization_id=shop.tenant.id)
    tried(home, user_agent="")
    tried(home, home.people.add("eve@example.org"), country="EVE")
    text = (await home.open(PAGE)).page.text
    assert "Failed Wrong password just now · Lund, SE · 203.0.113.7 Safari on Mac" in text
    assert "Signed in just now Old phone · GitHub Sign-in to Shop" in text
    assert "Unusual just now Firefox on Linux · With a password Sign-in to Acme" in text
    assert "Unknown device · With a password" in text
    assert text.count("just now") == 4
    assert "Gone" not in text
    assert "EVE" not in text


def written_as_provider() -> set[str]:
    """The ways to sign in that the code writes into the log: the values of constants with these name endings."""
    found = set()
    for path in (ROOT / "core" / "domain").rglob("*.py"):
        for line in ast.parse(path.read_text()).body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(line.value, ast.Constant):
                word = line.value.value
                if line.target.id.endswith("PROVIDER") and isinstance(word, str) and word.isalpha():
                    found.add(word)
    return found | set(Provider)


async def test_every_way_in_is_told_in_words(home: AccountPagesScene) -> None:
    words = written_as_provider()
    assert {"password", "link", "passkey", "upstream", "device", "saml", "session", *Provider} <= words
    home.tabs.language = "de"
    for word in sorted(words):
        home.people.change("delete from login_events")
        tried(home, provider=word, user_agent=FIREFOX)
        text = (await home.open(PAGE)).page.text
        assert re.search(r"Firefox unter Linux · [A-ZÄÖÜ]", text), word
        assert f"· {word}" not in text


async def test_a_way_in_that_is_not_known_here_is_left_out(home: AccountPagesScene) -> None:
    """A newer release that runs beside this one may write such a way."""
    tried(home, provider="telepathy", user_agent=FIREFOX)
    text = (await home.open(PAGE)).page.text
    assert "telepathy" not in text
    assert text.endswith("Firefox on Linux")


async def test_older_ones_stand_on_further_pages(home: AccountPagesScene) -> None:
    for number in range(41):
        tried(home, country=f"N{number}.")
    first = await home.open(PAGE)
    assert "N40." in first.page.text
    assert "N20." not in first.page.text
    (older,) = [link for link in first.page.links if "before=" in link]
    second = await home.open(older)
    assert "N20." in second.page.text
    assert PAGE in second.page.links
    (older,) = [link for link in second.page.links if "before=" in link]
    third = await home.open(older)
    assert "N0." in third.page.text
    assert not [link for link in third.page.links if "before=" in link]
    assert (await home.open(f"{PAGE}?before=x")).status == 400


async def test_a_sign_in_of_ones_own_stands_there(home: AccountPagesScene) -> None:
    await home.has_password("the moon over the harbour")
    tab = await Tabs(home.client).tab().open("/ui/sign-in?to=/ui/sign-ins")
    await tab.send(email=home.ada.email)
    await tab.send(password="the moon over the harbour")
    assert tab.place == PAGE
    assert "Firefox on Linux · With a password" in tab.page.text
