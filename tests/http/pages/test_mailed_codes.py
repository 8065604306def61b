"""The code beside a mailed link, typed in the browser that asked for the mail."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from adapters.postgres import rate_limits
from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.identity.proofs import sign_in
from adapters.postgres.statements import Transaction
from core.domain.identifiers import FlowId
from core.domain.identity.account_mails import MAILED_CODES, MOST_CODE_TRIES, code_digest
from core.domain.mail import Email, Mail
from core.domain.secrets import Secret, Token
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, code_in, link_in, token_in
from tests.http.signing_in import LOGIN, PASSWORD, enable_mfa, unlimited
from tests.http.tenants import Tenants
from tests.meanwhile import meanwhile

ADA = "ada@example.org"
NEW = "a fresh and lively password"
REFUSED = "This code is incorrect or no longer valid"
WRONG = "00000000"


@pytest.fixture
def tabs(postern: Postern) -> Tabs:
    return Tabs(unlimited(postern))


@pytest.fixture
def elsewhere(postern: Postern) -> Tabs:
    """Another browser."""
    return Tabs(unlimited(postern))


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, ADA)


async def wants_link(tabs: Tabs, email: str = ADA) -> Tab:
    tab = await tabs.tab().open("/ui/sign-in")
    await tab.send(email=email)
    await tab.send([form.action for form in tab.page.forms].index("/ui/sign-in/mail-link"))
    assert (tab.status, tab.place.partition("&")[2]) == (200, "mail=sign_in_link")
    return tab


async def wants_reset(tabs: Tabs, email: str = ADA) -> Tab:
    tab = await tabs.tab().open("/ui/forgot-password")
    await tab.send(email=email)
    assert tab.place.endswith("mail=reset")
    return tab


async def registers(tabs: Tabs, email: str = ADA) -> Tab:
    tab = await tabs.tab().open("/ui/register")
    await tab.send(email=email, password=PASSWORD)
    assert tab.place.startswith("/ui/check-mail")
    return tab


Asks = Callable[[Tabs, str], Awaitable[Tab]]


async def mail_of(postbox: Postbox, log: CapturedLog) -> Mail:
    (mail,) = await postbox.empty()
    log.remember(token_in(link_in(mail)), code_in(mail), PASSWORD, NEW)
    return mail


def used(people: People) -> list[bool]:
    return [row["used"] for row in people.rows("select used_at is not null as used from mailed_tokens order by created_at, used_at")]


def wrong_for(code: str, number: int = 1) -> str:
    return f"{(int(code) + number) % 10**8:08}"


async def test_it_signs_in_as_the_link_does(
    tabs: Tabs, people: People, postern: Postern, ada: Person, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_link(tabs, ada.email)
    given = tab.page.inputs["code"]
    assert (given["autocomplete"], given["inputmode"]) == ("one-time-code", "numeric")
    mail = await mail_of(postbox, log)
    code, form = code_in(mail), tab.page.forms[0]
    await tab.send(code=f" {code[:4]} \u2013 {code[4:]}\t")
    assert tab.place == "/ui"
    caller = await postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))
    assert caller is not None
    assert (caller.user, caller.authentication_methods) == (ada.user, ("link",))
    assert people.rows("select provider, success from login_events") == [{"provider": "link", "success": True}]
    assert [row["action"] for row in people.rows("select action from audit_log")] == ["security.sign_in_link.used"]
    # A double click.
    kept = tabs.cookies.pop("__Host-postern_session")
    assert (await tabs.request("POST", form.action, {**form.fields, "code": code})).status == 303
    assert tabs.session == kept
    # The link has gone with the code.
    late = await Tabs(tabs.client).tab().open(link_in(mail).removeprefix(BASE_URL))
    assert (late.status, "was already used" in late.page.text) == (400, True)


async def test_the_link_ends_the_code_and_a_newer_mail_does(
    tabs: Tabs, ada: Person, elsewhere: Tabs, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_link(tabs, ada.email)
    first = await mail_of(postbox, log)
    again = await wants_link(tabs, ada.email)
    second = await mail_of(postbox, log)
    await tab.send(code=code_in(first))
    assert (tab.status, tabs.session) == (400, None)
    await (await elsewhere.tab().open(link_in(second).removeprefix(BASE_URL))).send()
    assert elsewhere.session is not None
    await again.send(code=code_in(second))
    assert (again.status, tabs.session) == (400, None)


@pytest.mark.parametrize("asks", [wants_link, wants_reset])
async def test_it_opens_nothing_in_another_browser(
    asks: Asks, tabs: Tabs, ada: Person, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await asks(tabs, ada.email)
    code = code_in(await mail_of(postbox, log))
    theirs = await asks(elsewhere, "mallory@example.org")
    await postbox.empty()
    await theirs.send(code=code)
    assert (theirs.status, REFUSED in theirs.page.text, elsewhere.session) == (400, True, None)
    # The flow's own form, sent from the other browser.
    fields = {**tab.page.forms[0].fields, "code": code}
    assert (await elsewhere.request("POST", "/ui/check-mail/code", fields)).status in {400, 403}
    # Another flow of the same browser, about the same address.
    people.change("delete from jobs")
    other = await asks(tabs, ada.email)
    await other.send(code=code)
    assert (other.status, tabs.session, used(people)) == (400, None, [False])


async def test_it_counts_only_while_the_flow_is_about_the_address(
    tabs: Tabs, ada: Person, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_link(tabs, ada.email)
    code = code_in(await mail_of(postbox, log))
    people.change("update flows set email = 'mallory@example.org'")
    await tab.send(code=code)
    assert (tab.status, tabs.session, used(people)) == (400, None, [False])


async def test_five_tries_and_no_more(tabs: Tabs, elsewhere: Tabs, people: People, ada: Person, postbox: Postbox, log: CapturedLog) -> None:
    tab = await wants_link(tabs, ada.email)
    mail = await mail_of(postbox, log)
    code = code_in(mail)
    for number in range(1, MOST_CODE_TRIES + 1):
        await tab.send(code=wrong_for(code, number))
        assert (tab.status, REFUSED in tab.page.text) == (400, True)
    # What is no code is no try.
    await tab.send(code="1234567")
    assert "Enter 8 digits and nothing else" in tab.page.text
    await tab.send(code=code)
    assert (tab.status, REFUSED in tab.page.text, tabs.session) == (400, True, None)
    assert people.rows("select code_tries, used_at from mailed_tokens") == [{"code_tries": MOST_CODE_TRIES, "used_at": None}]
    assert people.rows("select provider, reason, user_id from login_events") == [
        {"provider": "link", "reason": "wrong_code", "user_id": ada.user}
    ] * (MOST_CODE_TRIES + 1)
    # The link still works.
    await (await elsewhere.tab().open(link_in(mail).removeprefix(BASE_URL))).send()
    assert elsewhere.session is not None


async def test_many_wrong_tries_at_once_cannot_exceed_five(
    tabs: Tabs, ada: Person, people: People, postbox: Postbox, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.usecases.identity.account_mails.MAILED_CODES", replace(MAILED_CODES, burst=1000))
    tab = await wants_link(tabs, ada.email)
    code = code_in(await mail_of(postbox, log))
    form = tab.page.forms[0]
    compared: list[Secret] = []

    def counted(guess: Secret, link: bytes, flow: FlowId, email: Email, key: bytes) -> bytes:
        compared.append(guess)
        return code_digest(guess, link, flow, email, key)

    monkeypatch.setattr("core.usecases.identity.account_mails.code_digest", counted)

    async def guess(number: int) -> None:
        answer = await tabs.request("POST", form.action, {**form.fields, "code": wrong_for(code, number)})
        assert answer.status == 400

    async with trio.open_nursery() as nursery:
        for number in range(1, 51):
            nursery.start_soon(guess, number)
    assert len(compared) == MOST_CODE_TRIES
    assert people.rows("select code_tries from mailed_tokens") == [{"code_tries": MOST_CODE_TRIES}]
    await tab.send(code=code)
    assert (tab.status, tabs.session) == (400, None)


@pytest.mark.parametrize("asks", [wants_link, wants_reset])
async def test_of_fifty_at_once_one_wins(asks: Asks, tabs: Tabs, people: People, ada: Person, postbox: Postbox, log: CapturedLog) -> None:
    """Forty-five come by the link, each in a browser of its own, and five by the code, which is one form sent five times."""
    for _ in range(4):
        for table in ("rate_limit_buckets", "mailed_tokens", "jobs", "sessions", "login_events"):
            people.change(f"delete from {table}")
        tabs.cookies.clear()
        tab = await asks(tabs, ada.email)
        await race(tab, await mail_of(postbox, log), people)


async def race(tab: Tab, mail: Mail, people: People) -> None:
    tabs, form, sets_password = tab.tabs, tab.page.forms[0], tab.place.endswith("mail=reset")
    others = [await Tabs(tabs.client).tab().open(link_in(mail).removeprefix(BASE_URL)) for _ in range(45)]
    places: set[str] = set()
    # Another one in each round: to choose the password of a moment ago once more is no refusal.
    password = f"{NEW} {code_in(mail)}"
    chosen = {"new_password": password, "repeated": password} if sets_password else {}

    async def by_code() -> None:
        answer = await tabs.request("POST", form.action, {**form.fields, "code": code_in(mail)})
        if answer.status == 303:
            places.add(answer.header("location") or "")

    async def by_link(other: Tab) -> None:
        await other.send(**chosen)

    async with trio.open_nursery() as nursery:
        for other in others[:20]:
            nursery.start_soon(by_link, other)
        for _ in range(5):
            nursery.start_soon(by_code)
        for other in others[20:]:
            nursery.start_soon(by_link, other)
    assert len(places) <= 1
    if sets_password:
        # The token that the code was exchanged for is the only one that is left, or a link has set the password.
        assert len(people.rows("select from mailed_tokens where used_at is null")) == len(places)
        assert any(other.place == "/ui/password-chosen" for other in others) != bool(places)
    else:
        signed_in = [one for one in (tabs, *(other.tabs for other in others)) if one.session]
        assert len(signed_in) == len(people.rows("select from login_events where success")) == len(people.rows("select from sessions")) == 1
        assert bool(places) == (tabs.session is not None)


async def test_a_second_factor_is_asked_for(tabs: Tabs, people: People, ada: Person, postbox: Postbox, log: CapturedLog) -> None:
    totp = await enable_mfa(tabs.client, people, ada)
    await postbox.empty()
    tab = await wants_link(tabs, ada.email)
    code = code_in(await mail_of(postbox, log))
    form = tab.page.forms[0]
    await tab.send(code=code)
    assert (tab.place.startswith("/ui/sign-in/second-factor"), tabs.session) == (True, None)
    again = await tabs.request("POST", form.action, {**form.fields, "code": code})
    assert (again.header("location") or "").startswith("/ui/sign-in/second-factor")
    people.change("update mfa_secrets set last_step = last_step - 120")
    await tab.send(code=totp.now())
    assert tab.place == "/ui"


async def test_a_rule_of_an_organization_holds_alike(
    tabs: Tabs, people: People, postern: Postern, ada: Person, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_link(tabs, ada.email)
    code = code_in(await mail_of(postbox, log))
    tenants = Tenants(postern, people)
    tenants.join(ada, tenants.add("acme"), "member")
    people.change("update organizations set sign_in_links = false")
    await tab.send(code=code)
    assert (tab.status, tabs.session) == (400, None)
    assert "does not allow sign-in links" in tab.page.text
    # The try is counted, although its transaction was refused.
    assert people.rows("select code_tries, used_at from mailed_tokens") == [{"code_tries": 1, "used_at": None}]


@pytest.mark.parametrize(
    "change",
    [
        "update mailed_tokens set expires_at = now()",
        "update mailed_tokens set used_at = now() - interval '1 minute'",
        "update users set deactivated_at = now()",
        "update users set password_changed_at = now() + interval '1 minute'",
        "delete from users",
    ],
)
async def test_a_code_that_is_over_opens_nothing(
    change: str, tabs: Tabs, ada: Person, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_link(tabs, ada.email)
    code = code_in(await mail_of(postbox, log))
    people.change(change)
    await tab.send(code=code)
    assert (tab.status, tabs.session) == (400, None)


async def test_in_the_browser_that_registered_it_confirms_the_address(
    tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await registers(tabs)
    mail = await mail_of(postbox, log)
    form = tab.page.forms[0]
    await tab.send(code=code_in(mail))
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed")
    assert people.rows("select email_verified_at is not null as yes from users") == [{"yes": True}]
    again = await tabs.request("POST", form.action, {**form.fields, "code": code_in(mail)})
    assert (again.header("location") or "").startswith("/ui/verify-email/done?what=address_confirmed")
    assert (await tabs.client.post(LOGIN, {"email": ADA, "password": PASSWORD})).status == 200


async def test_a_link_that_ends_while_its_code_is_checked_confirms_nothing(
    tabs: Tabs, people: People, postern: Postern, postbox: Postbox, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = await registers(tabs)
    mail = await mail_of(postbox, log)
    expire = "update mailed_tokens set expires_at = now() - interval '1 second'"
    meanwhile(monkeypatch, postern.identity.mailed_codes, "check", lambda: people.change(expire))
    await tab.send(code=code_in(mail))
    assert (tab.status, "This link has expired" in tab.page.text) == (400, True)
    assert people.rows("select email_verified_at from users") == [{"email_verified_at": None}]
    assert used(people) == [False]


async def test_elsewhere_the_password_is_asked_for(tabs: Tabs, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    """The mail was asked for again, in a browser that did not register."""
    await registers(tabs)
    await postbox.empty()
    tab = await elsewhere.tab().open("/ui/sign-in")
    await tab.send(email=ADA)
    await tab.send(password=PASSWORD)
    await tab.send([form.action for form in tab.page.forms].index("/ui/check-mail/resend"))
    mail = await mail_of(postbox, log)
    form = tab.page.forms[0]
    await tab.send(code=code_in(mail))
    assert (tab.status, "password" in tab.page.inputs) == (200, True)
    again = await elsewhere.request("POST", form.action, {**form.fields, "code": code_in(mail)})
    assert again.header("location") == tab.place
    assert people.rows("select email_verified_at from users") == [{"email_verified_at": None}]
    assert (await tabs.tab().open(link_in(mail).removeprefix(BASE_URL))).status == 400
    log.remember(token_in(tab.place))
    await tab.send(password=PASSWORD)
    assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed")


async def test_it_leads_to_the_page_that_sets_a_password_once(
    tabs: Tabs, ada: Person, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_reset(tabs, ada.email)
    mail = await mail_of(postbox, log)
    form = tab.page.forms[0]
    await tab.send(code=code_in(mail))
    assert (tab.status, tab.place.startswith("/ui/reset-password?token=")) == (200, True)
    log.remember(token_in(tab.place))
    again = await tabs.request("POST", form.action, {**form.fields, "code": code_in(mail)})
    assert again.header("location") == tab.place
    # The mailed link is used up, and both end at the same moment.
    assert (await tabs.tab().open(link_in(mail).removeprefix(BASE_URL))).status == 400
    assert len(people.rows("select distinct expires_at from mailed_tokens")) == 1
    place = tab.place
    await tab.send(new_password=NEW, repeated=NEW)
    assert tab.place == "/ui/password-chosen"
    assert (await tabs.tab().open(place)).status == 400
    assert (await tabs.client.post(LOGIN, {"email": ADA, "password": NEW})).status == 200


@pytest.mark.parametrize("first", ["link", "code"])
async def test_a_code_whose_link_has_set_a_password_leads_nowhere(
    first: str, tabs: Tabs, ada: Person, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    tab = await wants_reset(tabs, ada.email)
    mail = await mail_of(postbox, log)
    form = tab.page.forms[0]
    if first == "link":
        other = await elsewhere.tab().open(link_in(mail).removeprefix(BASE_URL))
        await other.send(new_password=NEW, repeated=NEW)
        assert other.place == "/ui/password-chosen"
    else:
        await tab.send(code=code_in(mail))
        log.remember(token_in(tab.place))
        await tab.send(new_password=NEW, repeated=NEW)
        assert tab.place == "/ui/password-chosen"
    # However long this test takes, the link was used a moment ago.
    people.change("update mailed_tokens set used_at = now() + interval '1 minute'")
    again = await tabs.request("POST", form.action, {**form.fields, "code": code_in(mail)})
    assert (again.status, b"This link was already used or was replaced by a newer one" in again.body) == (400, True)
    assert used(people) == [True] * (1 if first == "link" else 2)


async def test_an_api_client_gets_no_code(tabs: Tabs, ada: Person, postbox: Postbox, people: People) -> None:
    """No browser asks there, so a code would be bound to nothing."""
    for path in ("/api/auth/magic-link", "/api/auth/forgot-password"):
        assert (await tabs.client.post(path, {"email": ada.email})).status == 200
    for mail in await postbox.empty():
        with pytest.raises(ValueError, match="unpack"):
            code_in(mail)
    assert people.rows("select distinct flow_id, code_digest from mailed_tokens") == [{"flow_id": None, "code_digest": None}]


async def test_the_code_is_kept_as_a_keyed_digest(tabs: Tabs, ada: Person, people: People, postbox: Postbox) -> None:
    await wants_link(tabs, ada.email)
    await wants_link(tabs, ada.email)
    code_in((await postbox.empty())[-1])
    rows = people.rows("select code_digest from mailed_tokens")
    assert len({bytes(row["code_digest"]) for row in rows}) == 2
    assert {len(row["code_digest"]) for row in rows} == {32}


async def test_an_address_has_a_limit_of_its_own(tabs: Tabs, ada: Person, people: People, postbox: Postbox) -> None:
    """However many mails somebody asks for: the known and the unknown address are told alike, and the other address goes on."""
    for email in (ada.email, "nobody@example.org"):
        tab = await wants_link(tabs, email)
        await postbox.empty()
        people.change("update rate_limit_buckets set tokens = 0, at = now() where limit_name = 'mailed_codes'")
        statuses = []
        for _ in range(MAILED_CODES.burst + 1):
            answer = await tabs.request("POST", "/ui/check-mail/code", {**tab.page.forms[0].fields, "code": WRONG})
            statuses.append(answer.status)
        assert statuses == [400] * MAILED_CODES.burst + [429]


@pytest.mark.parametrize("mail", ["sign_in_link", "reset", "verification"])
async def test_a_wrong_code_tells_nothing_of_the_address(
    mail: str, tabs: Tabs, ada: Person, people: People, postbox: Postbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same page, and the same statements, for an address that was mailed a code and for one that has no account."""
    if mail == "verification":
        people.change("update users set email_verified_at = null")
    ran: list[str] = []
    for where, name in ((Transaction, "tell"), (Transaction, "ask"), (rate_limits, "ask"), (sign_in, "ask")):
        real = getattr(where, name)

        async def recorded(*args: object, _real: Callable[..., Awaitable[object]] = real, **named: object) -> object:
            ran.append(next(argument for argument in args if isinstance(argument, str)))
            return await _real(*args, **named)

        monkeypatch.setattr(where, name, recorded)
    told, worked = {}, {}
    for email in ("first@example.org", ada.email, "bob@example.org"):
        browser = Tabs(tabs.client)
        tab = await (wants_link(browser, email) if mail == "sign_in_link" else wants_reset(browser, email))
        fields = {**tab.page.forms[0].fields, "mail": mail, "code": WRONG}
        if mail == "verification":
            await browser.request("POST", "/ui/check-mail/resend", {name: fields[name] for name in ("flow", "form_token")})
        await postbox.empty()
        before = people.rows("select xmin::text from flows where id = %s", fields["flow"])
        ran.clear()
        counted = TripCounter()
        round_trips.set(counted)
        answer = await browser.request("POST", "/ui/check-mail/code", fields)
        worked[email] = (list(ran), counted.count)
        body = answer.body.replace(b"<wbr>", b"")
        for own in (fields["flow"], fields["form_token"], email):
            body = body.replace(own.encode(), b"-")
        told[email] = (answer.status, body)
        # A commit that has nothing to write would be quicker.
        assert before != people.rows("select xmin::text from flows where id = %s", fields["flow"])
    assert people.rows("select max(code_tries) as tries from mailed_tokens") == [{"tries": 1}]
    assert told[ada.email] == told["bob@example.org"]
    assert worked[ada.email] == worked["bob@example.org"]
