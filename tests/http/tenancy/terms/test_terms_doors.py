"""Terms whose date is over stop a person at each door of the organization. The terms are the organization's, or the
installation's. The same door opens again as soon as the person has accepted.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from adapters.saml import signing
from core.domain.errors import TermsRequired
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider
from tests.authenticator import Passkey
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.cast import Cast
from tests.http.client import refused
from tests.http.connections.asserting import Asserting
from tests.http.federation.backchannel.asking import Afar
from tests.http.federation.devices import Sets
from tests.http.federation.providing import Providing, asking, kept_pairs, sent
from tests.http.federation.proxied.behind_proxies import Proxied
from tests.http.federation.relying import oauth
from tests.http.federation.resources.agents import Agents
from tests.http.federation.resources.exchanging import Exchanging
from tests.http.federation.test_magic_links import asked_on_the_page, link
from tests.http.identity.test_passkeys import Owner
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.services.test_user_keys import UserKeyScene
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenancy.terms.test_terms_pages import ASKS, TermsPageScene

PLACES: Final = {"organization": "/api/organizations/acme/terms", "installation": "/api/platform/terms"}
GRANT: Final = (400, "invalid_grant")


class Terms:
    """Those of one keeper, which nobody has accepted and which have run out."""

    def __init__(self, keeper: str) -> None:
        self.keeper = keeper

    async def run_out(self, scene: Cast) -> None:
        """The keeper's own people have accepted; the scene's have not."""
        if self.keeper == "organization":
            setter = scene.tenants.member(scene.acme, "owner", "setter@acme.example")  # type: ignore[attr-defined]
        else:
            setter = scene.people.add("setter@platform.example", platform_owner=True)
        body = {"version": "1", "address": "https://acme.example/terms", "due_at": (datetime.now(UTC) + timedelta(days=7)).isoformat()}
        (await scene.request("PUT", PLACES[self.keeper], body, by=setter)).ok()
        scene.people.change("update terms set due_at = now() - interval '1 second' where ended_at is null")

    async def accept(self, scene: Cast, person: Person) -> None:
        seen = {"version": "1", "organization": "acme" if self.keeper == "organization" else None}
        # In a session of their own, as in a browser.
        own = scene.people.session_of(person)
        (await scene.request("POST", "/api/user/terms", seen, by=own)).ok()


@pytest.fixture(params=list(PLACES))
def terms(request: pytest.FixtureRequest) -> Terms:
    return Terms(request.param)


@pytest.fixture
def meet(postern: Postern, people: People, log: CapturedLog) -> Callable[[type[Any]], Any]:
    return lambda scene: scene(postern, people, unlimited(postern), log)


@pytest.fixture
def directory() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


async def test_of_saml_as_the_application_begins_it(
    meet: Callable[[type[Providing]], Providing], terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "generate_private_key", kept_pairs())
    scene = meet(Providing)
    await scene.ready()
    grace = scene.people.add("grace@example.org")
    browser = scene.signed_in(grace)
    await terms.run_out(scene)
    tab = await scene.opened(browser.tab(), asking())
    assert tab.place.startswith(ASKS)
    await tab.send(0, answer="later")
    assert tab.status == 403
    assert scene.people.rows("select from saml_sessions") == []
    await terms.accept(scene, grace)
    assert sent(await browser.request("GET", asking())).status == "Success"


async def test_of_saml_as_postern_begins_it(
    meet: Callable[[type[Providing]], Providing], terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "generate_private_key", kept_pairs())
    scene = meet(Providing)
    await scene.ready()
    grace = scene.people.add("grace@example.org")
    browser = scene.signed_in(grace)
    await terms.run_out(scene)
    tab = await (await browser.tab().open("/ui/open/acme/app")).send()
    assert tab.status == 403
    assert scene.people.rows("select from saml_sessions") == []
    # The page of the terms names those of this organization, although Grace has not been there before, and leads back.
    (onward,) = [link for link in tab.page.links if link.startswith("/ui/terms?")]
    tab = await browser.tab().open(onward)
    forms = [number for number, one in enumerate(tab.page.forms) if "terms" in one.fields]
    await tab.send(forms[0])
    assert tab.place == "/ui/open/acme/app"
    await tab.send()
    assert sent(tab.shown).status == "Success"


async def test_of_a_device_that_waits_for_a_yes(meet: Callable[[type[Sets]], Sets], terms: Terms) -> None:
    scene = meet(Sets)
    codes = await scene.ask_for_codes()
    await terms.run_out(scene)
    with pytest.raises(TermsRequired):
        await scene.approve(codes)
    await terms.accept(scene, scene.ada)
    assert await scene.let_in(codes)


async def test_of_a_device_that_has_its_yes(meet: Callable[[type[Sets]], Sets], terms: Terms) -> None:
    """The date passes between the yes and the next poll. Nothing is used up."""
    scene = meet(Sets)
    codes = await scene.ask_for_codes()
    await scene.approve(codes)
    await terms.run_out(scene)
    assert oauth(await scene.poll(codes)) == (400, "access_denied")
    await terms.accept(scene, scene.ada)
    scene.rest()
    assert (await scene.poll(codes)).status == 200


async def test_of_a_proxy(meet: Callable[[type[Proxied]], Proxied], terms: Terms) -> None:
    scene = meet(Proxied)
    secret = await scene.wiki()
    cookie = await scene.cookie_of(secret, scene.ada)
    assert (await scene.ask(secret, cookie=cookie)).status == 200
    await terms.run_out(scene)
    assert (await scene.ask(secret, cookie=cookie)).status == 401
    await terms.accept(scene, scene.ada)
    assert (await scene.ask(secret, cookie=cookie)).status == 200


async def test_of_keys_that_a_service_gave_to_the_person(meet: Callable[[type[UserKeyScene]], UserKeyScene], terms: Terms) -> None:
    scene = meet(UserKeyScene)
    await scene.turn_on()
    key = (await scene.made())["key"]
    assert (await scene.verify(key))["valid"]
    await terms.run_out(scene)
    assert not (await scene.verify(key))["valid"]
    await terms.accept(scene, scene.ada)
    assert (await scene.verify(key))["valid"]


async def test_of_an_agent(meet: Callable[[type[Agents]], Agents], terms: Terms) -> None:
    scene = meet(Agents)
    scene.api()
    tokens = await scene.let_in()
    await terms.run_out(scene)
    assert oauth(await scene.refresh(scene.helper, tokens["refresh_token"])) == GRANT
    assert await scene.introspect(scene.desk, tokens["access_token"]) == {"active": False}
    await terms.accept(scene, scene.ada)
    assert (await scene.refresh(scene.helper, tokens["refresh_token"])).status == 200


async def test_of_token_exchange(meet: Callable[[type[Exchanging]], Exchanging], terms: Terms) -> None:
    scene = meet(Exchanging)
    subject = await scene.subject()
    first = await scene.exchanged(scene.desk, subject)
    await terms.run_out(scene)
    for sender, token, resource in ((scene.desk, subject, "bills"), (scene.other, first, "stock")):
        assert oauth(await scene.exchange(sender, token, f"https://api.acme.example/{resource}"))[0] == 400
    assert not await scene.is_active(scene.other, first)
    await terms.accept(scene, scene.ada)
    assert await scene.is_active(scene.other, first)
    assert await scene.exchanged(scene.desk, subject)


async def test_of_a_yes_from_afar(meet: Callable[[type[Afar]], Afar], terms: Terms) -> None:
    scene = meet(Afar)
    await scene.turn("on")
    request = await scene.requested()
    await terms.run_out(scene)
    assert refused(await scene.allow()) == (403, "TERMS_REQUIRED")
    await terms.accept(scene, scene.ada)
    assert (await scene.allow()).status == 204
    assert (await scene.poll(request)).status == 200


async def test_of_a_yes_from_afar_that_was_said(meet: Callable[[type[Afar]], Afar], terms: Terms) -> None:
    """The date passes between the yes and the next poll."""
    scene = meet(Afar)
    await scene.turn("on")
    request = await scene.requested()
    assert (await scene.allow()).status == 204
    await terms.run_out(scene)
    assert (await scene.poll(request)).status in {400, 403}
    assert scene.people.rows("select from sessions where service_id is not null") == []
    await terms.accept(scene, scene.ada)
    scene.rest()
    assert (await scene.poll(request)).status == 200


async def test_of_identity_assertions(meet: Callable[[type[Asserting]], Asserting], terms: Terms, directory: FakeProvider) -> None:
    scene = meet(Asserting).begin(directory)
    token = await scene.token()
    assert await scene.lives(token)
    await terms.run_out(scene)
    assert not await scene.lives(token)
    assert oauth(await scene.bring(scene.assertion()))[0] in {400, 403}
    await terms.accept(scene, scene.ada)
    assert await scene.lives(await scene.token())


async def test_of_a_code_that_was_issued_before(meet: Callable[[type[Agents]], Agents], terms: Terms) -> None:
    """The date passes before the application brings the code."""
    scene = meet(Agents)
    code = await scene.code(scene.shop)
    await terms.run_out(scene)
    assert oauth(await scene.redeem(scene.shop, code)) == GRANT
    assert scene.living() == 0


async def test_of_a_link_by_mail(meet: Callable[[type[TermsPageScene]], TermsPageScene], terms: Terms, postern: Postern) -> None:
    scene = meet(TermsPageScene)
    ada = await scene.newcomer()
    scene.allow(ada)
    await terms.run_out(scene)
    box = Postbox(postern)
    await box.empty()
    tabs = Tabs(unlimited(postern))
    await asked_on_the_page(tabs, scene.asking(), ada.email)
    tab = await tabs.tab().open(await link(box))
    tab = await tab.send()
    assert tab.place.startswith(ASKS)
    await tab.send(0, answer="later")
    assert tab.status == 403
    assert scene.codes() == []


async def test_of_a_passkey(meet: Callable[[type[TermsPageScene]], TermsPageScene], terms: Terms, postern: Postern) -> None:
    scene = meet(TermsPageScene)
    ada = await scene.newcomer()
    owner = Owner(unlimited(postern), scene.people, postern, scene.people.session_of(ada))
    owner.token = await scene.people.token(owner.person)
    passkey, _ = await owner.add(Passkey.made())
    await terms.run_out(scene)
    service = {"org_slug": "acme", "service_slug": "app"}
    assert refused(await owner.sign_in(passkey, **service)) == (403, "TERMS_REQUIRED")
    # On the platform, the person signs in and accepts.
    answer = (await owner.sign_in(passkey)).ok()
    assert [one["version"] for one in answer["terms_pending"]] == ["1"]
    await terms.accept(scene, ada)
    assert (await owner.sign_in(passkey, **service)).status == 200


async def test_the_account_stays_open(meet: Callable[[type[TermsPageScene]], TermsPageScene], terms: Terms) -> None:
    """Whoever does not accept reads and exports what is theirs, and signs out."""
    scene = meet(TermsPageScene)
    ada = await scene.people.with_password(PASSWORD, "ada@lovelace.example")
    ada = scene.tenants.join(scene.people.session_of(ada), scene.acme)
    await terms.run_out(scene)
    asked: list[Callable[[], Awaitable[Any]]] = [
        lambda: scene.request("GET", "/api/user", by=ada),
        lambda: scene.request("GET", "/api/organizations", by=ada),
        lambda: scene.request("GET", "/api/user/devices", by=ada),
        lambda: scene.request("GET", "/api/user/terms", by=ada),
        lambda: scene.request("GET", f"/api/privacy/export/{ada.user}", by=ada),
        lambda: scene.request("POST", "/api/auth/logout", by=scene.people.session_of(ada)),
    ]
    for ask in asked:
        answer = await ask()
        assert answer.status in {200, 204}, answer.body
    assert refused(await scene.request("GET", "/api/organizations/acme", by=ada)) == (403, "TERMS_REQUIRED")
    tabs = scene.signed_in(ada)
    for place in ("/ui/profile", "/ui/terms", "/ui/devices"):
        assert (await tabs.tab().open(place)).place.startswith(place)


async def test_joining_opens_nothing_before_the_terms_are_accepted(meet: Callable[[type[TermsPageScene]], TermsPageScene]) -> None:
    """An invitation can be accepted, as by those who have no account yet. The organization opens afterwards."""
    scene, terms = meet(TermsPageScene), Terms("installation")
    ada = scene.people.proved()
    body = {"email": ada.email, "role": "member"}
    (await scene.request("POST", "/api/organizations/acme/invitations", body, by=scene.owner)).ok()
    await terms.run_out(scene)
    (waiting,) = (await scene.request("GET", "/api/invitations", by=ada)).json()
    (await scene.client.post("/api/invitations/accept", {"token": waiting["token"]})).ok()
    assert refused(await scene.request("GET", "/api/organizations/acme", by=ada)) == (403, "TERMS_REQUIRED")
    await terms.accept(scene, ada)
    assert (await scene.request("GET", "/api/organizations/acme", by=ada)).status == 200
