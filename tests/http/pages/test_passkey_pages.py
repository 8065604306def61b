"""Signing in with a passkey on the pages: alone, and after the password. The tests do the script's work by hand."""

import json
import re
from html import unescape
from typing import Any

import pytest
import trio

from core.domain.identity.passkeys import Obstacle
from core.domain.languages import Language
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.pages.kit import shipped_pages
from ops.browser.page_reader import PageForm
from tests.authenticator import ELIGIBLE, GOOD, PRESENT, Passkey, b64
from tests.changed_fields import put
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, enable_mfa, unlimited
from tests.places import templates

SIGN_IN = "/ui/sign-in"
BY_PASSKEY = f"{SIGN_IN}/passkey"
AFTER_PASSWORD = f"{SIGN_IN}/second-factor/passkey"


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def tabs(client: Client) -> Tabs:
    return Tabs(client)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def passkey_of(client: Client, people: People, person: Person, **more: Any) -> Passkey:
    """A passkey of the person, added by the API in another session."""
    session = people.session_of(person)
    token = await people.token(session)
    passkey = Passkey.made(**more)
    options = await client.post("/api/user/passkeys/options", token=token)
    answer = await client.post("/api/user/passkeys", {"credential": passkey.create(options.json())}, token=token)
    assert answer.status == 201, answer.body
    people.change("delete from sessions where id = %s", session.session)
    return passkey


async def asked_for_after_the_password(client: Client, people: People, person: Person) -> list[str]:
    session = people.session_of(person)
    answer = await client.post("/api/user/mfa/passkeys", token=await people.token(session))
    assert answer.status == 200, answer.body
    people.change("delete from sessions where id = %s", session.session)
    codes: list[str] = answer.json()["backup_codes"]
    return codes


@pytest.mark.parametrize("offers", [[], ["google"]])
def test_a_line_stands_above_the_button_if_there_is_one(offers: list[str]) -> None:
    """A script shows the form if the browser knows passkeys. Without it, and without providers, nothing stands below the line."""
    told: dict[str, Any] = {
        "errors": {},
        "email": "",
        "service": "",
        "place": "",
        "form_token": "",
        "flow": "",
        "action": SIGN_IN,
        "passkey": BY_PASSKEY,
        "passkeys": True,
        "register": "/ui/register",
        "signals": (),
    }
    page = shipped_pages().page("sign_in/sign_in.html", Language.ENGLISH, offers=[(one, one, "/", "") for one in offers], **told).decode()
    before, form = page.split(f'<form method="post" action="{BY_PASSKEY}"')
    line = '<p class="or">or</p>'
    assert (before.count(line), form.partition("</form>")[0].count(line)) == ((1, 0) if offers else (0, 1))
    assert page.count(line) == 1


def form_of(tab: Tab, action: str) -> PageForm:
    (form,) = [one for one in tab.page.forms if one.action == action]
    return form


async def options(tab: Tab, action: str) -> Any:
    form = form_of(tab, action)
    answer = await tab.tabs.request("POST", f"{action}/options", form.fields)
    assert (answer.status, answer.header("content-type")) == (200, "application/json"), answer.body
    return answer.json()


async def use(tab: Tab, passkey: Passkey, action: str = BY_PASSKEY, **more: Any) -> Tab:
    """Uses the passkey as the page's script does."""
    credential = passkey.get(await options(tab, action), **more)
    form = form_of(tab, action)
    return await tab._go("POST", action, {**form.fields, "credential": json.dumps(credential)})


async def to_the_code(tabs: Tabs, person: Person) -> Tab:
    tab = await tabs.tab().open(SIGN_IN)
    await tab.send(email=person.email)
    return await tab.send(password=PASSWORD)


async def test_it_signs_in_from_the_first_page(tabs: Tabs, client: Client, postern: Postern, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    tab = await tabs.tab().open(f"{SIGN_IN}?to=/ui/devices")
    assert b"passkeys.js" in tab.shown.body
    policy = tab.shown.header("content-security-policy") or ""
    assert "connect-src 'self'" in policy
    await use(tab, passkey)
    assert (tab.place, tab.status) == ("/ui/devices", 200)
    caller = await postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))
    assert caller is not None
    assert (caller.user, caller.authentication_methods) == (ada.user, ("hwk", "user", "mfa"))
    assert caller.proved.at is not None
    assert caller.proved.second_factor_at is not None
    listed = await tabs.tab().open("/ui/sign-ins")
    assert "With a passkey" in listed.page.text


async def test_it_goes_on_with_the_flow(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    tab = await tabs.tab().open(f"{SIGN_IN}?to=/ui/sessions")
    await tab.send(email="somebody.else@example.org")
    flow = tab.place.partition("flow=")[2]
    tab = await tabs.tab().open(f"{SIGN_IN}?flow={flow}")
    sent = form_of(tab, BY_PASSKEY)
    credential = json.dumps(passkey.get(await options(tab, BY_PASSKEY)))
    await tab._go("POST", BY_PASSKEY, {**sent.fields, "credential": credential})
    assert tab.place == "/ui/sessions"
    # The same form once more, after a double click.
    kept = tabs.session
    again = await tabs.tab()._go("POST", BY_PASSKEY, {**sent.fields, "credential": credential})
    assert (again.place, tabs.session) == ("/ui/sessions", kept)
    # The page of the flow still works afterwards.
    assert (await tabs.tab().open(f"{SIGN_IN}?flow={flow}")).place == "/ui/sessions"


async def test_of_fifty_at_once_in_one_flow_all_get_the_same_session(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    tab = await tabs.tab().open(SIGN_IN)
    await tab.send(email=ada.email)
    tab = await tabs.tab().open(f"{SIGN_IN}?flow={tab.place.partition('flow=')[2]}")
    fields = {**form_of(tab, BY_PASSKEY).fields, "credential": json.dumps(passkey.get(await options(tab, BY_PASSKEY)))}
    statuses: list[int] = []

    async def send() -> None:
        statuses.append((await tabs.request("POST", BY_PASSKEY, fields)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(send)
    # A request that finds the challenge used, but no sign-in yet, tells the person to use the passkey again.
    assert set(statuses) <= {303, 400}
    assert len(people.rows("select from sessions where user_id = %s", ada.user)) == 1


async def test_the_challenge_is_the_browsers_own(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    tab = await tabs.tab().open(SIGN_IN)
    mine = passkey.get(await options(tab, BY_PASSKEY))
    other = await Tabs(client).tab().open(SIGN_IN)
    # Login CSRF: an answer of the attacker's, sent by the victim's browser.
    await other._go("POST", BY_PASSKEY, {**form_of(other, BY_PASSKEY).fields, "credential": json.dumps(mine)})
    assert (other.status, other.tabs.session) == (400, None)
    assert "The passkey took too long or was sent twice" in other.page.text
    # A challenge of the API does not work on a page, and the other way round.
    given = (await client.post("/api/auth/passkeys/options")).json()
    await tab._go("POST", BY_PASSKEY, {**form_of(tab, BY_PASSKEY).fields, "credential": json.dumps(passkey.get(given))})
    assert tab.status == 400
    tab = await tabs.tab().open(SIGN_IN)
    assert (await client.post("/api/auth/passkeys", {"credential": passkey.get(await options(tab, BY_PASSKEY))})).status == 401
    # Without the form's token the page gives no challenge.
    assert (await tabs.request("POST", f"{BY_PASSKEY}/options", {"form_token": "x"})).status == 403
    assert (await Tabs(client).request("POST", f"{BY_PASSKEY}/options", {"form_token": ""})).status == 403


@pytest.mark.parametrize("credential", ["", "text", "{}", json.dumps({"id": "A", "response": {}}), "\ud800"])
async def test_what_no_browser_makes_brings_the_page_back(tabs: Tabs, credential: str) -> None:
    tab = await tabs.tab().open(SIGN_IN)
    fields = form_of(tab, BY_PASSKEY).fields
    await tab._go("POST", BY_PASSKEY, {**fields, "credential": credential.encode("utf-8", "replace").decode()})
    assert tab.status == 400
    assert "This passkey was not accepted" in tab.page.text
    assert form_of(tab, BY_PASSKEY).fields["flow"]


async def test_what_was_refused_is_told_on_the_page(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    people.change("update users set deactivated_at = now() where id = %s", ada.user)
    tab = await use(await tabs.tab().open(SIGN_IN), passkey)
    assert tab.status == 400
    people.change("update users set deactivated_at = null where id = %s", ada.user)
    assert (await use(tab, passkey)).place == "/ui"


async def test_after_the_password(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    codes = await asked_for_after_the_password(client, people, ada)
    tab = await to_the_code(tabs, ada)
    assert tab.place.startswith("/ui/sign-in/second-factor?flow=")
    assert "Use one of your passkeys, or enter a backup code." in tab.page.text
    given = await options(tab, AFTER_PASSWORD)
    assert [one["id"] for one in given["allowCredentials"]] == [b64(passkey.credential_id)]
    # A challenge for a sign-in does not work for the second step.
    first = await tabs.tab().open(SIGN_IN)
    other = passkey.get(await options(first, BY_PASSKEY))
    await tab._go("POST", AFTER_PASSWORD, {**form_of(tab, AFTER_PASSWORD).fields, "credential": json.dumps(other)})
    assert tab.status == 400
    # The user handle may be left out where the account is known.
    fields = form_of(tab, AFTER_PASSWORD).fields
    credential = json.dumps(passkey.get(await options(tab, AFTER_PASSWORD), user_handle=None))
    await tab._go("POST", AFTER_PASSWORD, {**fields, "credential": credential})
    assert (tab.place, tab.status) == ("/ui", 200)
    (session,) = people.rows("select authenticated_by, proved_at, second_factor_at from sessions where user_id = %s", ada.user)
    assert session["authenticated_by"] == ["pwd", "hwk", "user", "mfa"]
    assert session["second_factor_at"] is not None
    names = [row["name"] for row in people.rows("select name from mfa_events where user_id = %s order by id", ada.user)]
    assert names[-2:] == ["mfa_verify_attempt", "mfa_verify_success"]
    # Sent again.
    again = await tabs.tab()._go("POST", AFTER_PASSWORD, {**fields, "credential": credential})
    assert again.place == "/ui"
    # A person without the passkey at hand can use a backup code.
    tab = await to_the_code(Tabs(client), ada)
    await tab.send(code=codes[0])
    assert tab.place == "/ui"


async def test_another_persons_passkey_is_no_second_step(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    await passkey_of(client, people, ada)
    bob = await people.with_password(PASSWORD, "bob@example.org")
    bobs = await passkey_of(client, people, bob)
    await asked_for_after_the_password(client, people, ada)
    tab = await use(await to_the_code(tabs, ada), bobs, AFTER_PASSWORD)
    assert (tab.status, tabs.session) == (400, None)
    (event,) = people.rows("select user_id, reason from login_events where not success")
    assert event == {"user_id": bob.user, "reason": "wrong_passkey"}


async def test_beside_an_app_a_passkey_stands_for_its_code(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    await enable_mfa(client, people, ada)
    tab = await to_the_code(tabs, ada)
    assert AFTER_PASSWORD not in [one.action for one in tab.page.forms]
    people.change("update sessions set second_factor_at = now()")
    token = await people.token(ada)
    passkey = Passkey.made()
    given = (await client.post("/api/user/passkeys/options", token=token)).json()
    assert (await client.post("/api/user/passkeys", {"credential": passkey.create(given)}, token=token)).status == 201
    tab = await to_the_code(tabs, ada)
    assert "Open your authenticator app" in tab.page.text
    assert (await use(tab, passkey, AFTER_PASSWORD)).place == "/ui"


async def test_a_second_step_that_is_over(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    await asked_for_after_the_password(client, people, ada)
    tab = await to_the_code(tabs, ada)
    form = form_of(tab, AFTER_PASSWORD)
    given = await options(tab, AFTER_PASSWORD)
    people.change("update preauthentications set expires_at = now()")
    await tab._go("POST", AFTER_PASSWORD, {**form.fields, "credential": json.dumps(passkey.get(given))})
    assert tab.status == 400
    assert "Enter your password again" in tab.page.text
    # A flow that awaits no passkey gets no challenge.
    first = await tabs.tab().open(SIGN_IN)
    await first.send(email=ada.email)
    flow = first.place.partition("flow=")[2]
    sign_in = await tabs.tab().open(f"{SIGN_IN}?flow={flow}")
    answer = await tabs.request("POST", f"{AFTER_PASSWORD}/options", form_of(sign_in, BY_PASSKEY).fields)
    assert answer.status == 400


async def test_what_helps_who_has_lost_it(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    await passkey_of(client, people, ada)
    await asked_for_after_the_password(client, people, ada)
    tab = await to_the_code(tabs, ada)
    (lost,) = [link for link in tab.page.links if "lost-factor" in link]
    page = await tabs.tab().open(lost)
    assert "Enter one of your backup codes" in page.page.text
    (back,) = page.page.links
    assert (await tabs.tab().open(back)).place.startswith("/ui/sign-in/second-factor")
    # Before the password, the page leads back to the beginning.
    flow = (await (await tabs.tab().open(SIGN_IN)).send(email=ada.email)).place.partition("flow=")[2]
    (back,) = (await tabs.tab().open(f"/ui/sign-in/lost-factor?flow={flow}")).page.links
    assert back.startswith(f"{SIGN_IN}?flow=")


async def test_where_there_are_none_the_pages_have_nothing_of_them(
    tabs: Tabs, client: Client, postern: Postern, people: People, ada: Person
) -> None:
    await passkey_of(client, people, ada)
    await asked_for_after_the_password(client, people, ada)
    put(postern.identity.passkeys, relying_party=Obstacle.ADDRESS)
    tab = await tabs.tab().open(SIGN_IN)
    assert b"passkey" not in tab.shown.body
    assert tab.page.inputs["email"]["autocomplete"] == "username"
    tab = await to_the_code(tabs, ada)
    assert AFTER_PASSWORD not in [one.action for one in tab.page.forms]


# The pages that ask for an address in order to sign somebody in. Each lets the browser offer a passkey in the field.
SIGNS_IN = {"sign_in/sign_in.html", "sign_in/forgotten.html"}
OTHERS = {
    "sign_in/register.html": "the address of an account that there is not yet",
    "newcomers/newcomer.html": "the address of an account that there is not yet",
    "sign_in/password.html": "the address was given before, and is read alone",
    "account/email.html": "the new address of somebody who is signed in",
}


def test_each_field_of_an_address_to_sign_in_with_offers_passkeys() -> None:
    """Device codes, applications, domain routes and the pages of organizations lead to the page of the address: they have no other."""
    found = {}
    for name, template in templates().items():
        for line in template.read_text().splitlines():
            if re.search(r'field\("\w+", .*"email"', line) and not name.startswith(("console/", "setup/")):
                found[name] = line
    assert set(found) == SIGNS_IN | set(OTHERS)
    for name, line in found.items():
        assert ('autocomplete="username webauthn" if passkeys' in line) == (name in SIGNS_IN), name
    for name in SIGNS_IN:
        text = templates()[name].read_text()
        assert "{{ passkey_form(passkey," in text or "{% call passkey_form(passkey," in text, name
        assert "offered=true" in text, name


async def test_a_passkey_signs_in_from_the_page_of_a_forgotten_password(tabs: Tabs, client: Client, people: People, ada: Person) -> None:
    passkey = await passkey_of(client, people, ada)
    tab = await tabs.tab().open("/ui/forgot-password?to=/ui/devices")
    assert tab.page.inputs["email"]["autocomplete"] == "username webauthn"
    (form,) = [one for one in tab.page.forms if one.action == BY_PASSKEY]
    options = (await tabs.request("POST", f"{BY_PASSKEY}/options", form.fields)).json()
    credential = json.dumps(passkey.get(options, user_handle=ada.user.bytes))
    await tab._go("POST", BY_PASSKEY, {**form.fields, "credential": credential})
    assert tab.place == "/ui/devices"


def signals(tab: Tab) -> list[tuple[str, Any]]:
    found = re.findall(r'data-passkey-signal="(\w+)" data-options="([^"]*)"', tab.shown.body.decode())
    return [(method, json.loads(unescape(told))) for method, told in found]


async def test_a_refused_passkey_whose_key_nobody_knows_is_said_to_be_unknown(
    tabs: Tabs, client: Client, people: People, ada: Person
) -> None:
    """Whoever merely knows the name of a passkey gets the same page, whether or not somebody has the passkey."""
    real = await passkey_of(client, people, ada)
    stranger = Passkey.made()
    impostor = Passkey.made()
    impostor.credential_id = real.credential_id

    async def shown(passkey: Passkey, **more: Any) -> Tab:
        tab = await tabs.tab().open(SIGN_IN)
        (form,) = [one for one in tab.page.forms if one.action == BY_PASSKEY]
        options = (await tabs.request("POST", f"{BY_PASSKEY}/options", form.fields)).json()
        credential = json.dumps(passkey.get(options, user_handle=ada.user.bytes, **more))
        return await tab._go("POST", BY_PASSKEY, {**form.fields, "credential": credential})

    for passkey in (stranger, impostor):
        for flags in (GOOD, GOOD | ELIGIBLE, PRESENT):
            passkey.flags = flags
            tab = await shown(passkey)
            assert tab.status == 400
            ((method, told),) = signals(tab)
            assert (method, told["credentialId"]) == ("signalUnknownCredential", b64(passkey.credential_id))
    # Whoever has the key gets no such word: the passkey is refused for another reason.
    real.flags = GOOD | ELIGIBLE
    assert signals(await shown(real)) == []
    real.flags = GOOD
    people.change("update users set deactivated_at = now()")
    assert signals(await shown(real)) == []
    people.change("update users set deactivated_at = null")
    assert (await shown(real)).place == "/ui"


async def test_the_account_says_which_passkeys_are_accepted_and_how_the_person_is_called(
    tabs: Tabs, client: Client, people: People, ada: Person
) -> None:
    first, second = await passkey_of(client, people, ada), await passkey_of(client, people, ada)
    people.change("update passkeys set user_handle = %s where credential_id = %s", b"elsewhere", second.credential_id)
    tab = await tabs.tab().open(SIGN_IN)
    await tab.send(email=ada.email)
    await tab.send(password=PASSWORD)
    told = signals(await tab.open("/ui/passkeys"))
    user = b64(ada.user.bytes)
    assert [(method, {name: value for name, value in one.items() if name != "rpId"}) for method, one in told] == [
        ("signalCurrentUserDetails", {"userId": user, "name": ada.email, "displayName": ada.email}),
        ("signalAllAcceptedCredentials", {"userId": user, "allAcceptedCredentialIds": [b64(first.credential_id)]}),
        ("signalAllAcceptedCredentials", {"userId": b64(b"elsewhere"), "allAcceptedCredentialIds": [b64(second.credential_id)]}),
    ]
    await tab.open("/ui/profile/details")
    (number,) = [number for number, one in enumerate(tab.page.forms) if "given_name" in one.fields]
    await tab.send(number, name="Ada Lovelace")
    assert tab.place.startswith("/ui/profile?done=")
    ((method, details),) = signals(tab)
    assert (method, details["displayName"]) == ("signalCurrentUserDetails", "Ada Lovelace")
