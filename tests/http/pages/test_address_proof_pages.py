"""The page behind the link in mails that confirm an address. To open the page changes nothing, and its buttons ask the person for the
password that the owner knows.
"""

from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest

from core.domain.identity.sign_in import TRIES_FROM_ANYWHERE
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Client, Received
from tests.http.conftest import SETTINGS
from tests.http.federation.scim.directories import Directory
from tests.http.inviting import Inviting
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.routing import route
from tests.http.signing_in import LOGIN, PASSWORD, unlimited

PAGE = "/ui/verify-email"
NEW = "a fresh and lively password"
ADA = "ada@example.org"
CONFIRMED = f"{PAGE}/done?what=address_confirmed"
REFUSED = f"{PAGE}/done?what=registration_refused"


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


async def registered(tabs: Tabs, postbox: Postbox, log: CapturedLog, place: str = "/ui/register") -> str:
    """Registers on the page. Returns the path of the mailed link."""
    tab = await tabs.tab().open(place)
    await tab.send(email=ADA, password=PASSWORD)
    assert tab.place.startswith("/ui/check-mail")
    return await mailed(postbox, log)


async def registered_by_api(client: Client, postbox: Postbox, log: CapturedLog) -> str:
    assert (await client.post("/api/auth/register", {"email": ADA, "password": PASSWORD})).status == 200
    return await mailed(postbox, log)


async def mailed(postbox: Postbox, log: CapturedLog) -> str:
    link = await postbox.link()
    log.remember(token_in(link), PASSWORD, NEW)
    return link.removeprefix(BASE_URL)


async def wants_new_address(client: Client, people: People, person: Person, email: str = "new@example.org") -> str:
    """Asks for a new address. Returns the path of the link that is mailed there."""
    signed_in = people.session_of(person)
    answer = await client.request("PATCH", "/api/user", body={"email": email}, token=await people.token(signed_in))
    assert answer.status == 200
    mails = {mail.to: mail for mail in await Postbox(people._postern).empty()}
    return link_in(mails[email]).removeprefix(BASE_URL)


def is_verified(people: People) -> bool:
    (row,) = people.rows("select email_verified_at is not null as yes from users")
    return bool(row["yes"])


def recorded(people: People) -> list[tuple[str, dict[str, Any]]]:
    rows = people.rows("select action, details from audit_log where action <> 'user.signup.success' order by id")
    return [(row["action"], row["details"]) for row in rows]


async def signs_in(client: Client, password: str, email: str = ADA) -> bool:
    return (await client.post(LOGIN, {"email": email, "password": password})).status == 200


def asks(tab: Tab) -> set[str]:
    """The names of the fields that a person fills in."""
    return {name for name, given in tab.page.inputs.items() if given.get("type") != "hidden"}


async def test_in_the_browser_that_registered_a_button_is_enough(tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log)
    assert link.startswith(f"{PAGE}?token=")
    tab = await (await tabs.tab().open(link)).open(link)
    assert (tab.status, asks(tab), is_verified(people)) == (200, set(), False)
    assert (await tabs.client.request("HEAD", link)).status == 200
    assert "ada@example.org You registered with this email address in this browser" in tab.page.text
    await tab.send()
    assert (tab.status, tab.place.startswith(CONFIRMED), is_verified(people)) == (200, True, True)
    assert [mail.subject for mail in await postbox.empty()] == ["Welcome to Postern"]
    assert recorded(people) == [("user.email.verified", {})]
    assert people.rows("select registered_in from users") == [{"registered_in": None}]
    used = await tabs.tab().open(link)
    assert (used.status, "was already used" in used.page.text) == (400, True)
    assert await signs_in(tabs.client, PASSWORD)


async def test_it_goes_on_to_where_they_were_going(tabs: Tabs, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log, "/ui/register?to=/ui/devices")
    tab = await (await tabs.tab().open(link)).send()
    await tab.open(tab.page.links[-1])
    assert tab.page.inputs["email"]["value"] == ADA
    await tab.send(password=PASSWORD)
    assert tab.place == "/ui/devices"


async def test_elsewhere_it_asks_for_the_password(tabs: Tabs, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log)
    # A browser in which another person has signed in is not the browser that registered.
    await elsewhere.tab().open("/ui/sign-in")
    tab = await elsewhere.tab().open(link)
    assert (tab.status, asks(tab)) == (200, {"password"})
    for wrong, says in (("", "Enter your password"), ("not it", "not the password"), ("x" * 129, "not the password")):
        await tab.send(password=wrong)
        assert (tab.status, tab.page.inputs["password"]["aria-invalid"]) == (400, "true"), wrong
        assert says.lower() in tab.page.text.lower(), (wrong, tab.page.text)
    assert not is_verified(people)
    await tab.send(password=PASSWORD)
    assert (tab.place, is_verified(people)) == (CONFIRMED, True)
    # They have no flow to go on with.
    assert tab.page.links == [f"{BASE_URL}/ui/sign-in"]
    assert recorded(people) == [("user.email.verified", {})]
    reasons = [row["reason"] for row in people.rows("select reason from login_events order by id")]
    assert reasons == ["wrong_password", "wrong_password"]


async def test_whoever_registers_by_the_api_is_asked_in_every_browser(
    tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    """The cookies of an API request prove nothing: another site sends none, and an application may send those of any user."""
    await tabs.tab().open("/ui/sign-in")
    cookies = "; ".join(f"{name}={value}" for name, value in tabs.cookies.items())
    body = {"email": ADA, "password": PASSWORD}
    assert (await tabs.client.post("/api/auth/register", body, headers=[("cookie", cookies)])).status == 200
    tab = await tabs.tab().open(await mailed(postbox, log))
    assert asks(tab) == {"password"}
    await tab.send(password=PASSWORD)
    assert is_verified(people)


async def test_a_mail_that_another_browser_asks_for_does_not_make_it_the_one_that_registered(
    tabs: Tabs, elsewhere: Tabs, postbox: Postbox, log: CapturedLog
) -> None:
    """A second registration of the same address there, which is refused, does not either."""
    await registered(tabs, postbox, log)
    tab = await elsewhere.tab().open("/ui/register")
    await tab.send(email=ADA, password=NEW)
    assert tab.status == 400
    tab = await elsewhere.tab().open("/ui/sign-in")
    await tab.send(email=ADA)
    await tab.open(f"/ui/check-mail?flow={tab.place.partition('flow=')[2]}")
    await tab.send([form.action for form in tab.page.forms].index("/ui/check-mail/resend"))
    link = await mailed(postbox, log)
    assert asks(await elsewhere.tab().open(link)) == {"password"}
    assert asks(await tabs.tab().open(link)) == set()


async def test_a_new_password_takes_the_place_of_what_was_registered(
    tabs: Tabs, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    link = await registered(tabs, postbox, log)
    tab = await elsewhere.tab().open(link)
    (choose,) = [place for place in tab.page.links if place.startswith(f"{PAGE}/new-password")]
    await tab.open(choose)
    assert asks(tab) == {"new_password", "repeated"}
    for new, repeated, wrong in (("short", "short", "new_password"), (NEW, PASSWORD, "repeated"), ("", "", "new_password")):
        await tab.send(new_password=new, repeated=repeated)
        assert (tab.status, tab.page.inputs[wrong]["aria-invalid"], is_verified(people)) == (400, "true", False)
    await tab.send(new_password=NEW, repeated=NEW)
    assert (tab.place, is_verified(people)) == (CONFIRMED, True)
    assert [await signs_in(tabs.client, password) for password in (PASSWORD, NEW)] == [False, True]
    assert recorded(people)[:3] == [
        ("security.password.changed", {"how": "removed_unverified"}),
        ("security.password.changed", {"how": "set"}),
        ("user.email.verified", {}),
    ]
    assert [mail.subject for mail in await postbox.empty()] == ["Welcome to Postern"]


async def test_everything_goes_that_nobody_has_proved(
    tabs: Tabs, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    link = await registered(tabs, postbox, log)
    (row,) = people.rows("select id from users")
    person = people.session_of(Person(row["id"], row["id"], ADA))
    people.connect(person)
    people.give_passkey(person)
    people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 's', now(), now())", person.user)
    people.change("insert into backup_codes (user_id, digest) values (%s, 'd')", person.user)
    people.change("update users set language = 'fr', pending_email = 'x@example.org', pending_email_key = 'x@example.org'")
    tab = await elsewhere.tab().open(link.replace(PAGE, f"{PAGE}/new-password"))
    await tab.send(new_password=NEW, repeated=NEW)
    assert is_verified(people)
    for table in ("identities", "passkeys", "mfa_secrets", "backup_codes", "sessions where revoked_at is null"):
        assert people.rows(f"select from {table}") == [], table
    assert people.rows("select language, pending_email from users") == [{"language": None, "pending_email": None}]


async def test_an_account_without_a_password_gets_its_first_one(tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log)
    people.change("update users set password_hash = null")
    tab = await tabs.tab().open(link)
    assert asks(tab) == {"new_password", "repeated"}
    # An earlier password does not help.
    assert (await tabs.request("POST", PAGE, {"token": token_in(link), "password": PASSWORD})).status == 400
    await tab.send(new_password=NEW, repeated=NEW)
    assert (is_verified(people), await signs_in(tabs.client, NEW)) == (True, True)


async def test_a_change_of_address_needs_the_button_and_keeps_the_password(
    client: Client, tabs: Tabs, people: People, log: CapturedLog
) -> None:
    ada = await people.with_password(PASSWORD, ADA)
    link = await wants_new_address(client, people, ada)
    log.remember(token_in(link))
    tab = await tabs.tab().open(link)
    assert (asks(tab), people.rows("select email from users")) == (set(), [{"email": ADA}])
    assert "new@example.org" in tab.page.text
    assert ADA not in tab.page.text  # the reader of the mail may be a stranger to the account
    # The link cannot choose a password for the account.
    beside = await tabs.tab().open(link.replace(PAGE, f"{PAGE}/new-password"))
    assert asks(beside) == set()
    fields = {"token": token_in(link), "new_password": NEW, "repeated": NEW}
    assert (await tabs.request("POST", f"{PAGE}/new-password", fields)).status == 400
    await tab.send()
    assert "Your new email address is verified" in tab.page.text
    assert people.rows("select email from users") == [{"email": "new@example.org"}]
    assert await signs_in(tabs.client, PASSWORD, "new@example.org")


async def test_a_new_address_that_somebody_else_was_quicker_to_take(client: Client, tabs: Tabs, people: People, log: CapturedLog) -> None:
    ada = await people.with_password(PASSWORD, ADA)
    link = await wants_new_address(client, people, ada)
    log.remember(token_in(link))
    people.add("new@example.org")
    tab = await (await tabs.tab().open(link)).send()
    assert (tab.status, "cannot be used" in tab.page.text) == (400, True)
    assert len(people.rows("select from mailed_tokens where used_at is null")) == 1


async def test_not_me_drops_a_change_of_address(client: Client, tabs: Tabs, people: People, log: CapturedLog) -> None:
    ada = await people.with_password(PASSWORD, ADA)
    link = await wants_new_address(client, people, ada)
    log.remember(token_in(link))
    tab = await tabs.tab().open(link)
    await tab.open(tab.page.links[-1])
    assert people.rows("select pending_email from users") == [{"pending_email": "new@example.org"}]
    form = tab.page.forms[0]
    await tab.send()
    assert "Change canceled" in tab.page.text
    assert people.rows("select email, pending_email from users") == [{"email": ADA, "pending_email": None}]
    assert recorded(people)[-1] == ("user.email.change_refused", {})
    (entry,) = people.rows("select actor_id, target_id from audit_log where action = 'user.email.change_refused'")
    assert (entry["actor_id"], entry["target_id"]) == (None, str(ada.user))
    assert await signs_in(tabs.client, PASSWORD)
    # A double click, and then a confirmation.
    assert (await tabs.request("POST", form.action, form.fields)).status == 303
    assert (await tabs.request("POST", PAGE, form.fields)).status == 400
    assert len([one for one, _ in recorded(people) if one == "user.email.change_refused"]) == 1


async def test_not_me_removes_an_account_that_was_never_anybodys(
    tabs: Tabs, elsewhere: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    link = await registered(tabs, postbox, log)
    tab = await elsewhere.tab().open(link)
    await tab.open(tab.page.links[-1])
    assert (tab.status, len(people.rows("select from users"))) == (200, 1)
    form = tab.page.forms[0]
    await tab.send()
    assert (tab.place, "Registration canceled" in tab.page.text) == (REFUSED, True)
    assert people.rows("select from users") == []
    assert ("user.registration.refused", {"account": "removed"}) in recorded(people)
    # Others' data about the person are forgotten by the same job as with every deletion.
    assert len(people.rows("select from jobs where kind = 'privacy.forget'")) == 1
    # A double click; the address is free then.
    again = await elsewhere.request("POST", form.action, form.fields)
    assert (again.status, again.header("location")) == (303, REFUSED)
    assert (await elsewhere.tab().open(link)).status == 400
    assert (await elsewhere.tab().open("/ui/register")).status == 200
    await registered(elsewhere, postbox, log)


@pytest.mark.parametrize(
    "tie",
    [
        "insert into memberships (id, org_id, user_id, role, created_at) values (gen_random_uuid(), %s, %s, 'member', now())",
        "insert into provisioned_users (org_id, user_id, is_member, created_at, updated_at) values (%s, %s, false, now(), now())",
        "update organizations set owner_user_id = users.id from users where organizations.id = %s and users.id = %s",
        "update users set is_platform_owner = (%s is not null) where id = %s",
        "insert into former_addresses select id, coalesce(%s::text, 'old@example.org'), now() from users where id = %s",
    ],
)
async def test_not_me_leaves_an_account_that_something_holds(
    tie: str, tabs: Tabs, people: People, postern: Postern, postbox: Postbox, log: CapturedLog
) -> None:
    scene = Inviting(postern, people, tabs.client, log)
    link = await registered(tabs, postbox, log)
    (row,) = people.rows("select id from users where email = %s", ADA)
    people.change(tie, scene.acme.id, row["id"])
    tab = await tabs.tab().open(link.replace(PAGE, f"{PAGE}/not-me"))
    await tab.send()
    assert tab.place == REFUSED
    kept = people.rows("select password_hash, registered_in, email_verified_at from users where id = %s", row["id"])
    assert kept == [{"password_hash": None, "registered_in": None, "email_verified_at": None}]
    assert ("user.registration.refused", {"account": "kept"}) in recorded(people)
    again = await tabs.request("POST", f"{PAGE}/not-me", {"token": token_in(link)})
    assert (again.status, again.header("location")) == (303, REFUSED)
    # The link is used up, also for the person who registered.
    assert (await tabs.tab().open(link)).status == 400


async def test_not_me_does_nothing_to_an_account_that_is_proved(tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log)
    people.change("update users set email_verified_at = now()")
    fields = {"token": token_in(link)}
    for place in ("", "/new-password", "/not-me"):
        assert (await tabs.tab().open(link.replace(PAGE, PAGE + place))).status == 400
        assert (await tabs.request("POST", PAGE + place, {**fields, "new_password": NEW, "repeated": NEW})).status == 400
    assert await signs_in(tabs.client, PASSWORD)
    # The person has confirmed, and then presses the other button.
    people.change("update users set email_verified_at = null")
    assert (await (await tabs.tab().open(link)).send()).place.startswith(CONFIRMED)
    assert (await tabs.request("POST", f"{PAGE}/not-me", fields)).status == 400
    assert await signs_in(tabs.client, PASSWORD)


async def test_a_form_that_is_sent_twice_is_answered_twice(tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    """After a double click, a browser drops the first answer."""
    link = await registered(tabs, postbox, log)
    fields = {"token": token_in(link)}

    async def send(place: str = "", **more: str) -> Received:
        return await tabs.request("POST", PAGE + place, {**fields, **more})

    first, second = await all_at_once(send, send)
    for answer in (first, second, await send()):
        assert (answer.status, answer.header("location")) == (303, CONFIRMED)
    assert recorded(people) == [("user.email.verified", {})]
    assert len(await postbox.empty()) == 1
    # The other button's form is refused, since it is not the form that succeeded.
    assert (await send("/new-password", new_password=NEW, repeated=NEW)).status == 400
    people.change("update mailed_tokens set used_at = used_at - interval '11 seconds'")
    assert (await send()).status == 400


async def test_of_two_who_choose_a_password_at_once_one_does(tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log)

    async def choose(new: str) -> Received:
        return await tabs.request("POST", f"{PAGE}/new-password", {"token": token_in(link), "new_password": new, "repeated": new})

    answers = await all_at_once(partial(choose, NEW), partial(choose, "another lively password"))
    assert sorted(answer.status for answer in answers) == [303, 400]
    assert sum([await signs_in(tabs.client, password) for password in (PASSWORD, NEW, "another lively password")]) == 1
    # The same form once more.
    (winner,) = [new for new in (NEW, "another lively password") if await signs_in(tabs.client, new)]
    assert (await choose(winner)).status == 303
    assert len([one for one, _ in recorded(people) if one == "user.email.verified"]) == 1


async def test_of_one_who_confirms_and_one_who_refuses_one_has_their_way(
    tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    link = await registered(tabs, postbox, log)

    async def send(place: str) -> Received:
        return await tabs.request("POST", PAGE + place, {"token": token_in(link)})

    answers = await all_at_once(partial(send, ""), partial(send, "/not-me"))
    is_there = len(people.rows("select from users where email_verified_at is not null")) == 1
    assert len(people.rows("select from users")) == int(is_there)
    assert sorted(answer.status for answer in answers) == [303, 400]
    (winner,) = [answer.header("location") for answer in answers if answer.status == 303]
    assert winner == (CONFIRMED if is_there else REFUSED)


async def test_guesses_at_the_password_are_limited_as_at_the_sign_in(
    tabs: Tabs, people: People, postern: Postern, postbox: Postbox, log: CapturedLog
) -> None:
    """The tries count by account, over all addresses, in the sign-in's own bucket, so this page gives no further tries."""
    link = await registered_by_api(tabs.client, postbox, log)
    statuses = []
    for number in range(30):
        client = unlimited(postern, SETTINGS, f"198.51.100.{number}")
        browser = Tabs(client)
        statuses.append((await browser.request("POST", PAGE, {"token": token_in(link), "password": "a guess"})).status)
    assert statuses[0] == 400
    assert statuses[-1] == 429
    tried = statuses.index(429)
    # The sign-in refuses then, too.
    late = Tabs(unlimited(postern, SETTINGS, "198.51.100.99"))
    assert (await late.client.post(LOGIN, {"email": ADA, "password": PASSWORD})).status == 429
    assert (await late.request("POST", PAGE, {"token": token_in(link), "password": PASSWORD})).status == 429
    assert not is_verified(people)
    assert tried <= 20
    # A holder of a reset link can choose another password all the same, since that is no guess.
    fields = {"token": token_in(link), "new_password": NEW, "repeated": NEW}
    assert (await late.request("POST", f"{PAGE}/new-password", fields)).status == 303


async def test_a_right_password_is_no_guess(tabs: Tabs, people: People, postern: Postern, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered_by_api(tabs.client, postbox, log)
    browser = Tabs(unlimited(postern, SETTINGS))
    assert (await browser.request("POST", PAGE, {"token": token_in(link), "password": PASSWORD})).status == 303
    (bucket,) = people.rows("select tokens from rate_limit_buckets where limit_name = %s", TRIES_FROM_ANYWHERE.name)
    assert bucket["tokens"] > TRIES_FROM_ANYWHERE.burst - 1


@pytest.mark.parametrize("place", ["", "/new-password", "/not-me"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=x", "?token=%3Cscript%3E", "?token=%00%ff", "?token=" + "x" * 5000])
async def test_without_a_good_link_there_is_a_page_that_says_so(place: str, query: str, client: Client) -> None:
    answer = await client.get(PAGE + place + query)
    assert (answer.status, answer.header("content-type")) == (400, "text/html; charset=utf-8")
    assert b"not valid" in answer.body
    assert b"<script" not in answer.body


@pytest.mark.parametrize("place", ["", "/new-password", "/not-me"])
async def test_an_old_link_does_nothing(place: str, tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog) -> None:
    link = await registered(tabs, postbox, log)
    people.change("update mailed_tokens set expires_at = now()")
    tab = await tabs.tab().open(link.replace(PAGE, PAGE + place))
    assert (tab.status, "has expired" in tab.page.text) == (400, True)
    fields = {"token": token_in(link), "new_password": NEW, "repeated": NEW}
    assert (await tabs.request("POST", PAGE + place, fields)).status == 400
    assert people.rows("select email_verified_at, password_hash is not null as kept from users") == [
        {"email_verified_at": None, "kept": True}
    ]


@pytest.mark.parametrize("place", ["", "/new-password", "/not-me"])
@pytest.mark.parametrize("headers", [[("sec-fetch-site", "cross-site")], [("origin", "https://evil.example")]])
async def test_another_sites_form_is_refused(
    place: str, headers: list[tuple[str, str]], tabs: Tabs, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    link = await registered(tabs, postbox, log)
    cookies = "; ".join(f"{name}={value}" for name, value in tabs.cookies.items())
    given = [("content-type", "application/x-www-form-urlencoded"), ("cookie", cookies), *headers]
    body = urlencode({"token": token_in(link), "new_password": NEW, "repeated": NEW}).encode()
    assert (await tabs.client.request("POST", PAGE + place, body=body, headers=given)).status == 403
    assert not is_verified(people)


async def test_where_only_the_provider_will_do_no_password_is_asked_for(
    tabs: Tabs, elsewhere: Tabs, people: People, postern: Postern, postbox: Postbox, log: CapturedLog
) -> None:
    scene = Inviting(postern, people, tabs.client, log)
    route(people, scene.acme, "example.org")
    link = await registered(tabs, postbox, log)
    for place in ("", "/new-password"):
        tab = await elsewhere.tab().open(link.replace(PAGE, PAGE + place))
        assert (tab.status, "sign in with their organization" in tab.page.text) == (403, True)
        fields = {"token": token_in(link), "password": PASSWORD, "new_password": NEW, "repeated": NEW}
        assert (await elsewhere.request("POST", PAGE + place, fields)).status == 403
    assert (await elsewhere.tab().open(link.replace(PAGE, f"{PAGE}/not-me"))).status == 200
    # In the browser that registered, no password is asked for; but nobody is signed in.
    await (await tabs.tab().open(link)).send()
    assert people.rows("select email_verified_at is not null as yes from users where email = %s", ADA) == [{"yes": True}]
    assert not await signs_in(tabs.client, PASSWORD)


async def test_a_directory_that_lists_the_address_meanwhile_leaves_only_the_new_password(
    tabs: Tabs, people: People, postern: Postern, postbox: Postbox, log: CapturedLog
) -> None:
    await registered(tabs, postbox, log)
    directory = await Directory(postern, tabs.client, people, "initech").connect()
    log.remember(directory.token)
    await directory.create(ADA)
    await postbox.empty()
    await tabs.client.post("/api/auth/resend-verification", {"email": ADA})
    link = await mailed(postbox, log)
    # The same in the browser that registered, since the record of that is removed.
    assert asks(await tabs.tab().open(link)) == {"new_password", "repeated"}


async def test_what_is_said_in_the_end_cannot_be_made_up(client: Client) -> None:
    assert (await client.get(f"{PAGE}/done?what=anything")).status == 400
    assert (await client.get(f"{PAGE}/done?flow=x")).status == 400
