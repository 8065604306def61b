"""The device pages: a person enters the code, signs in, sees the asking application, and decides."""

from dataclasses import dataclass
from urllib.parse import quote

import pyotp
import pytest

from core.domain.federation.oauth.device_flow import ENTRIES_OF_PERSON
from core.domain.identity.flows import form_token
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.machinery.browsers import bound_to
from entrypoints.http.machinery.limits import USER_CODES
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs, secret_on
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.federation.devices import Codes, Sets
from tests.http.federation.relying import claims_of, oauth
from tests.http.machinery.limited import until_refused
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited

DEVICE = "/ui/device"


@dataclass
class DevicePageScene(Sets):
    """Ada's browser is in another network than her television set."""

    async def move_in(self) -> None:
        self.ada = await self.people.with_password(PASSWORD, "ada@lovelace.example")
        self.tabs = Tabs(unlimited(self.postern, address="198.51.100.7"))

    async def sign_in(self, person: Person | None = None, tabs: Tabs | None = None) -> None:
        tab = await (tabs or self.tabs).tab().open("/ui/sign-in?to=/ui/device")
        await tab.send(email=(person or self.ada).email)
        await tab.send(password=PASSWORD)
        assert tab.place == DEVICE

    async def decision(self, codes: Codes) -> Tab:
        """The page with the decision, for a signed-in person."""
        tab = await self.tabs.tab().open(DEVICE)
        await tab.send(user_code=codes.user_code)
        assert tab.place.startswith("/ui/device/decision?flow="), tab.place
        return tab

    def state(self) -> list[str]:
        return [row["state"] for row in self.people.rows("select state from device_codes order by created_at")]


@pytest.fixture
async def home(postern: Postern, people: People, log: CapturedLog) -> DevicePageScene:
    home = DevicePageScene(postern, people, unlimited(postern), log)
    await home.move_in()
    return home


async def test_from_the_code_to_the_device(home: DevicePageScene) -> None:
    codes = await home.ask_for_codes(scope="openid email")
    home.people.change("update users set family_name = 'Lovelace', profile_updated_at = now() where id = %s", home.ada.user)
    tab = await home.tabs.tab().open(DEVICE)
    await tab.send(user_code=codes.user_code.lower().replace("-", " "))
    # The person is not signed in, so the sign-in comes first, on the organization's pages.
    assert tab.place.startswith("/ui/sign-in?flow=")
    assert "Tv" in tab.page.text
    assert "Acme" in tab.page.text
    await tab.send(email=home.ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/device/decision?flow=")
    text = tab.page.text
    for told in (
        codes.user_code,
        "Tv",
        "Acme",
        "AcmeTV",
        "192.0.2.1",
        f"Lovelace {home.ada.email}",
        "Approve only if you started this on your own device",
    ):
        assert told in text, told
    assert "same connection" not in text
    assert home.state() == ["pending"]
    await tab.send(answer="approve")
    assert tab.place.startswith("/ui/device/approved?flow=")
    tokens = home.kept((await home.poll(codes)).ok())
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["amr"]) == (str(home.ada.user), ["pwd"])


async def test_who_did_not_start_it_denies(home: DevicePageScene) -> None:
    await home.sign_in()
    codes = await home.ask_for_codes()
    tab = await home.decision(codes)
    await tab.send(answer="deny")
    assert tab.place.startswith("/ui/device/denied?flow=")
    assert oauth(await home.poll(codes)) == (400, "access_denied")


async def test_a_link_fills_the_field_and_does_nothing_else(home: DevicePageScene) -> None:
    await home.sign_in()
    codes = await home.ask_for_codes()
    tab = await home.tabs.tab().open(codes.told["verification_uri_complete"].removeprefix("https://id.example.org"))
    assert tab.page.inputs["user_code"]["value"] == codes.user_code
    assert home.state() == ["pending"]
    hostile = '"><script>' + "x" * 300
    await tab.open(f"{DEVICE}?user_code={quote(hostile)}")
    assert (tab.status, b"<script>x" in tab.shown.body) == (200, False)


async def test_the_page_alone_approves_nothing(home: DevicePageScene) -> None:
    """Any number of loads, with any parameters in the address, approves nothing."""
    await home.sign_in()
    tab = await home.decision(await home.ask_for_codes())
    for place in (tab.place, f"{tab.place}&answer=approve"):
        assert (await tab.open(place)).status == 200
    await home.tabs.tab().open(tab.place.replace("decision", "approved"))
    assert home.state() == ["pending"]


async def test_a_second_factor_that_was_given_goes_with_the_approval(home: DevicePageScene) -> None:
    totp = await enable_mfa(home.client, home.people, Person(home.ada.user, home.postern.foundation.ids.new(), home.ada.email))
    codes = await home.ask_for_codes()
    tab = await home.tabs.tab().open(DEVICE)
    await tab.send(user_code=codes.user_code)
    await tab.send(email=home.ada.email)
    await tab.send(password=PASSWORD)
    assert home.state() == ["pending"]
    await tab.send(code=totp.now())
    await tab.send(answer="approve")
    tokens = home.kept((await home.poll(codes)).ok())
    assert claims_of(tokens["access_token"])["amr"] == ["pwd", "otp", "mfa"]


async def test_what_is_no_code_is_asked_again(home: DevicePageScene) -> None:
    tab = await home.tabs.tab().open(DEVICE)
    expired, used = await home.ask_for_codes(), await home.ask_for_codes()
    home.people.change("update device_codes set expires_at = now() where id = (select min(id::text)::uuid from device_codes)")
    await home.sign_in()
    await home.approve(used, home.people.session_of(home.ada))
    for typed in ("", "nonsense", "BCDF-GHJK", expired.user_code, used.user_code):
        await tab.send(user_code=typed)
        assert tab.status == 400, typed
        assert tab.page.inputs["user_code"]["aria-invalid"] == "true"


async def test_the_form_comes_from_our_own_page(home: DevicePageScene) -> None:
    await home.sign_in()
    codes = await home.ask_for_codes()
    tab = await home.decision(codes)
    (form,) = [one for one in tab.page.forms if one.action == tab.place]
    flow = form.fields["flow"]
    # Without the token, with the token of another form, and with a token of another person's browser.
    strangers = Tabs(unlimited(home.postern))
    await strangers.tab().open(DEVICE)
    secret = Token(strangers.cookies["__Host-postern_flow"])
    for token in ("", "x", form_token(Token(home.tabs.cookies["__Host-postern_flow"]), bound_to(flow)), form_token(secret, bound_to(flow))):
        answer = await home.tabs.request("POST", "/ui/device/decision", {"flow": flow, "form_token": token, "answer": "approve"})
        assert answer.status == 403
    # From another site.
    answer = await home.tabs.client.request(
        "POST",
        "/ui/device/decision",
        body=f"flow={flow}&form_token={form.fields['form_token']}&answer=approve".encode(),
        headers=[
            ("cookie", "; ".join(f"{name}={value}" for name, value in home.tabs.cookies.items())),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "cross-site"),
        ],
    )
    assert answer.status == 403
    assert home.state() == ["pending"]


async def test_another_browser_has_no_part_in_the_flow(home: DevicePageScene) -> None:
    await home.sign_in()
    tab = await home.decision(await home.ask_for_codes())
    eve = await home.people.with_password(PASSWORD, "eve@example.org")
    others = Tabs(unlimited(home.postern))
    await home.sign_in(eve, others)
    assert (await others.tab().open(tab.place)).status == 400
    # Flows of other purposes do not lead here either.
    home.people.change("update flows set purpose = 'account'")
    assert (await tab.open(tab.place)).status == 400


async def test_two_clicks_and_the_back_button_do_no_harm(home: DevicePageScene) -> None:
    await home.sign_in()
    codes = await home.ask_for_codes()
    tab = await home.decision(codes)
    place, (form,) = tab.place, [one for one in tab.page.forms if one.action == tab.place]
    for _ in range(2):
        answer = await home.tabs.request("POST", form.action, {**form.fields, "answer": "approve"})
        assert (answer.status, (answer.header("location") or "").startswith("/ui/device/approved?")) == (303, True)
    assert (await home.tabs.request("POST", form.action, {**form.fields, "answer": "deny"})).status == 404
    assert (await tab.open(place)).status == 404
    assert home.state() == ["approved"]


async def test_somebody_else_comes_too_late(home: DevicePageScene) -> None:
    await home.sign_in()
    codes = await home.ask_for_codes()
    tab = await home.decision(codes)
    await home.approve(codes, home.people.add("eve@example.org"))
    await tab.send(answer="approve")
    assert tab.status == 404
    (row,) = home.people.rows("select user_id from device_codes")
    assert row["user_id"] != home.ada.user


async def test_signed_out_meanwhile(home: DevicePageScene) -> None:
    """The sign-in leads back to the page."""
    await home.sign_in()
    tab = await home.decision(await home.ask_for_codes())
    home.people.change("update sessions set revoked_at = now()")
    place = tab.place
    await tab.send(answer="approve")
    assert tab.place.startswith("/ui/sign-in?")
    assert home.state() == ["pending"]
    await tab.send(email=home.ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place == place
    assert "approve" in tab.shown.body.decode()


async def test_signed_in_again_in_another_tab(home: DevicePageScene) -> None:
    """The form is out of date then, and leads to the current page."""
    await home.sign_in()
    tab = await home.decision(await home.ask_for_codes())
    place = tab.place
    again = await home.tabs.tab().open("/ui/sign-in?to=/ui&again=yes")
    await again.send(password=PASSWORD)
    assert again.place == "/ui"
    await tab.send(answer="approve")
    assert (tab.status, home.state(), tab.page.links) == (403, ["pending"], [place])
    await (await tab.open(place)).send(answer="approve")
    assert home.state() == ["approved"]


async def test_only_members_where_only_members_get_in(home: DevicePageScene) -> None:
    await home.sign_in()
    home.people.change("update services set sign_in_policy = 'members'")
    tab = await home.decision(await home.ask_for_codes())
    await tab.send(answer="approve")
    assert (tab.status, "Only members" in tab.page.text) == (403, True)


async def test_where_it_asked_from(home: DevicePageScene) -> None:
    await home.sign_in()
    near = await home.ask_for_codes(client=unlimited(home.postern, address="198.51.100.7"))
    assert "same connection" in (await home.decision(near)).page.text
    nowhere = await home.ask_for_codes()
    home.people.change("update device_codes set address = null, user_agent = null")
    assert "Unknown" in (await home.decision(nowhere)).page.text


async def test_the_database_cannot_tell_the_code(home: DevicePageScene) -> None:
    await home.sign_in()
    codes = await home.ask_for_codes()
    await home.decision(codes)
    letters = codes.user_code.replace("-", "")
    dump = repr([home.people.rows(f"select * from {table}") for table in ("flows", "device_codes", "events", "audit_entries")])
    assert letters not in dump
    assert codes.user_code not in dump
    assert codes.device_code not in dump


async def test_wrong_codes_count_by_address_and_by_person(home: DevicePageScene) -> None:
    limited = Tabs(Client(build_application(home.postern, SETTINGS), "203.0.113.9"))
    tab = await limited.tab().open(DEVICE)
    sent = tab.page.forms[0].fields
    statuses, _ = await until_refused(USER_CODES, lambda: limited.request("POST", DEVICE, {**sent, "user_code": "BCDF-GHJK"}))
    assert set(statuses) == {400}
    await home.sign_in()
    tab = await home.tabs.tab().open(DEVICE)
    sent = {**tab.page.forms[0].fields, "user_code": "BCDF-GHJK"}
    seen = [(await home.tabs.request("POST", DEVICE, sent)).status for _ in range(ENTRIES_OF_PERSON.burst + 1)]
    assert seen == [400] * ENTRIES_OF_PERSON.burst + [429]


async def test_a_sign_in_that_is_too_old_for_the_organization_is_made_again(home: DevicePageScene) -> None:
    await home.sign_in()
    home.people.change("update all_organizations set session_hours = 1")
    await home.decision(await home.ask_for_codes())
    home.people.change("update sessions set proved_at = now() - interval '61 minutes'")
    codes = await home.ask_for_codes(scope="openid")
    tab = await home.tabs.tab().open(DEVICE)
    await tab.send(user_code=codes.user_code)
    assert tab.place.startswith("/ui/sign-in/password?flow=")
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/device/decision?flow=")
    await tab.send(answer="approve")
    assert (await home.userinfo(home.kept((await home.poll(codes)).ok())["access_token"])).status == 200


async def test_no_way_around_that_sign_in_leads_to_the_decision(home: DevicePageScene) -> None:
    await home.sign_in()
    home.people.change("update all_organizations set session_hours = 1")
    codes = await home.ask_for_codes(scope="openid")
    tab = await home.decision(codes)
    form = next(form for form in tab.page.forms if form.action == tab.place).fields
    home.people.change("update sessions set proved_at = now() - interval '61 minutes'")
    assert (await tab.open(tab.place)).place.startswith("/ui/sign-in/password?flow=")
    answer = await tab.tabs.request("POST", "/ui/device/decision", {**form, "answer": "approve"})
    assert (answer.header("location") or "").startswith("/ui/sign-in/password?flow=")
    assert home.state() == ["pending"]
    await tab.send(password=PASSWORD)
    await tab.send(answer="approve")
    assert (await home.userinfo(home.kept((await home.poll(codes)).ok())["access_token"])).status == 200


async def test_who_owes_a_second_factor_is_told_so_and_where_to_set_it_up(home: DevicePageScene) -> None:
    home.tenants.join(home.ada, home.acme)
    await home.sign_in()
    tab = await home.decision(await home.ask_for_codes())
    home.people.change("update all_organizations set mfa_required_since = now(), mfa_grace_days = 0")
    await tab.send([form.action for form in tab.page.forms].index(tab.place), answer="approve")
    assert tab.status == 403
    assert "This organization requires two-step sign-in" in tab.page.text
    assert home.state() == ["pending"]
    # After the set-up the person comes back to the device page.
    (onward,) = tab.page.links
    await tab.open(onward)
    await tab.send([form.action for form in tab.page.forms].index("/ui/second-factor"))
    secret = secret_on(tab.shown.body)
    home.log.remember(secret)
    await tab.send(len(tab.page.forms) - 1, code=pyotp.TOTP(secret).now())
    (back,) = [link for link in tab.page.links if link.startswith("/ui/device/decision?flow=")]
    await tab.open(back)
    await tab.send([form.action for form in tab.page.forms].index(back), answer="approve")
    assert home.state() == ["approved"]


async def test_whom_the_organization_merely_lists_is_asked_before_the_decision(home: DevicePageScene) -> None:
    home.tenants.join(home.ada, home.acme, listed=True)
    home.tenants.join(home.ada, home.tenants.add("initech"), listed=True)
    codes = await home.ask_for_codes(scope="openid email")
    tab = await home.tabs.tab().open(DEVICE)
    await tab.send(user_code=codes.user_code)
    await tab.send(email=home.ada.email)
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/confirm-membership?flow=")
    assert "initech" not in tab.page.text
    await tab.send(answers=f"yes:{home.acme.id}")
    assert tab.place.startswith("/ui/device/decision?flow=")
    own = home.people.rows("select org_id from memberships where user_id = %s and own_since is not null", home.ada.user)
    assert [row["org_id"] for row in own] == [home.acme.id]
    await tab.send(answer="approve")
    assert tab.place.startswith("/ui/device/approved?flow=")
