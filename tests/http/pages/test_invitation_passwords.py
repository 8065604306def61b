"""The first password on the page of an invitation: whose link may choose it, once, and who is signed in by it."""

from functools import partial
from typing import Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Client, Received
from tests.http.inviting import Inviting
from tests.http.people import People
from tests.meanwhile import meanwhile

PAGE: Final = "/ui/invitations/accept"
HERE: Final = f"{PAGE}/password"
GOOD: Final = "a few good words in a row"
OTHER: Final = "some other words in a row"


@pytest.fixture
def scene(client: Client, postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, client, log)


async def invited(scene: Inviting, email: str = "bob@example.org") -> tuple[str, str]:
    """The token that the inviter was shown, and the one in the mail."""
    issued = await scene.invite(email)
    ((to, mailed),) = await scene.mailed()
    assert to == email
    return issued["token"], mailed


async def opened(scene: Inviting, token: str) -> Tab:
    return await Tabs(scene.client).tab().open(f"{PAGE}?token={token}")


def person(scene: Inviting, email: str = "bob@example.org") -> dict[str, object]:
    rows = scene.people.rows("select id, password_hash, email_verified_at, deactivated_at from users where email = %s", email)
    return rows[0] if rows else {}


def refuses_here(answer: Received) -> bool:
    return answer.status == 400 and b"You cannot choose a password here" in answer.body


async def test_a_newcomer_chooses_a_password_and_is_in(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    assert (tab.page.forms[0].action, "new-password") == (HERE, tab.page.inputs["password"]["autocomplete"])
    assert person(scene) == {}
    await tab.send(password=GOOD)
    assert (tab.place, tab.status) == ("/ui/organizations/acme?done=joined", 200)
    assert "You joined the organization." in tab.page.text
    assert tab.tabs.session is not None
    bob = person(scene)
    assert bob["password_hash"] is not None
    assert bob["email_verified_at"] is not None
    assert scene.members()["bob@example.org"] == "member"
    (own,) = scene.people.rows("select own_since from memberships where user_id = %s", bob["id"])
    assert own["own_since"] is not None
    # The sign-in is one like any other: in the log, with a device. Nobody tells the person that a password was changed.
    assert [row["provider"] for row in scene.people.rows("select provider from login_events where success")] == ["password"]
    mails = [mail.subject for mail in await scene.postbox.empty()]
    assert not [subject for subject in mails if "password" in subject.lower()], mails
    changes = scene.people.rows("select details from audit_log where action = 'security.password.changed'")
    assert [one["details"]["how"] for one in changes] == ["set"]


async def test_a_newcomer_is_offered_a_passkey_once(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    await tab.send(password=GOOD, makes_passkeys="yes")
    assert tab.place.startswith("/ui/passkey-offer?flow=")
    offers = [form for form in tab.page.forms if form.action == "/ui/passkey-offer"]
    await tab._go("POST", offers[0].action, {**offers[0].fields, "answer": "later"})
    # Then they are where everybody else is, who cannot make one.
    assert (tab.place, tab.status) == ("/ui/organizations/acme?done=joined", 200)
    again = await Tabs(scene.client).tab().open("/ui/sign-in")
    await again.send(email="bob@example.org")
    await again.send(password=GOOD, makes_passkeys="yes")
    assert again.place == "/ui"


async def test_a_newcomer_whose_browser_makes_none_is_offered_none(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    assert tab.page.forms[0].fields["makes_passkeys"] == ""
    await tab.send(password=GOOD)
    assert tab.place == "/ui/organizations/acme?done=joined"
    assert scene.people.rows("select passkey_offered_at from users where email_key = 'bob@example.org'") == [{"passkey_offered_at": None}]


async def test_the_inviters_token_opens_no_account(scene: Inviting) -> None:
    shown, mailed = await invited(scene)
    tab = await opened(scene, shown)
    assert "password" not in tab.page.inputs
    # Not even if the inviter makes up the form of the other page.
    other = await opened(scene, mailed)
    refused = await tab.tabs.request("POST", HERE, {"token": shown, "password": GOOD, "form_token": await own_token(tab)})
    assert refuses_here(refused)
    assert (person(scene), scene.statuses()) == ({}, ["pending"])
    # Accepting makes the account, and mails the address a link. Nobody is signed in.
    await tab.send(answer="accept")
    assert tab.tabs.session is None
    assert "If you did not have an account" in tab.page.text
    assert (person(scene)["password_hash"], person(scene)["email_verified_at"]) == (None, None)
    assert [mail.subject for mail in await scene.postbox.empty()] == ["Choose a password for your account at Acme"]
    # The other token is used up by then, too.
    await other.send(password=GOOD)
    assert (other.status, other.tabs.session) == (400, None)
    assert person(scene)["password_hash"] is None


async def test_a_newcomer_says_their_name_and_hears_who_invites(scene: Inviting) -> None:
    scene.people.change("update users set name = 'Ada <b>Lovelace</b>' where id = %s", scene.ada.user)
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    assert "Invited by Ada <b>Lovelace</b> For bob@example.org" in tab.page.text
    assert tab.page.inputs["name"]["autocomplete"] == "name"
    # What is wrong with both fields is said at once, and the name stays in the form.
    await tab.send(name="Bob \u202e", password="short")
    assert (tab.status, scene.statuses(), person(scene)) == (400, ["pending"], {})
    assert tab.page.inputs["name"]["value"] == "Bob \u202e"
    assert tab.page.inputs["name"]["aria-invalid"] == tab.page.inputs["password"]["aria-invalid"] == "true"
    await tab.send(name="  Bob Bauer ", password=GOOD)
    assert tab.place == "/ui/organizations/acme?done=joined"
    (named,) = scene.people.rows("select name from users where email = 'bob@example.org'")
    assert named["name"] == "Bob Bauer"
    (told,) = scene.people.rows("select details from audit_log where action = 'user.profile.updated'")
    assert told["details"]["changed"] == ["name"]


async def test_only_the_mails_reader_names_a_newcomer(scene: Inviting) -> None:
    """The inviter has a token, too, and must not say who somebody is; nor does the mail of an account that is in use."""
    shown, _ = await invited(scene)
    (await scene.client.post("/api/invitations/accept", {"token": shown, "name": "Mallory"})).ok()
    assert scene.people.rows("select name from users where email = 'bob@example.org'") == [{"name": None}]
    await scene.postbox.empty()
    scene.verified("eve@example.org")
    scene.people.change("update users set password_hash = 'x' where email = 'eve@example.org'")
    _, mailed = await invited(scene, "eve@example.org")
    (await scene.client.post("/api/invitations/accept", {"token": mailed, "name": "Mallory"})).ok()
    assert scene.people.rows("select name from users where email = 'eve@example.org'") == [{"name": None}]
    _, mailed = await invited(scene, "mia@example.org")
    refused = await scene.client.post("/api/invitations/accept", {"token": mailed, "name": "\u0007"})
    assert (refused.status, refused.json()["error"]) == (400, "name: must not be empty; null removes it")
    (await scene.client.post("/api/invitations/accept", {"token": mailed, "name": "Mia Maier"})).ok()
    assert scene.people.rows("select name from users where email = 'mia@example.org'") == [{"name": "Mia Maier"}]


async def own_token(tab: Tab) -> str:
    """The form's token of this browser, from a page of a flow that has not begun."""
    return str((await tab.tabs.tab().open("/ui/sign-in")).page.forms[0].fields["form_token"])


async def test_a_mail_server_of_the_organizations_own_proves_nothing(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    scene.people.change("update invitations set mailed_digest = null, token_digest = sha256(%s)", mailed.encode())
    tab = await opened(scene, mailed)
    assert "password" not in tab.page.inputs
    refused = await tab.tabs.request("POST", HERE, {"token": mailed, "password": GOOD, "form_token": await own_token(tab)})
    assert refuses_here(refused)
    assert (person(scene), scene.statuses()) == ({}, ["pending"])


@pytest.mark.parametrize(
    "use",
    [
        "update users set password_hash = 'x' where id = %s",
        """
        insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)
        values (gen_random_uuid(), %s, 'x', 'browser', now(), now(), now())
        """,
        "update users set password_hash = 'x', email_verified_at = now() where id = %s",
    ],
)
async def test_an_account_in_use_keeps_its_ways_in(scene: Inviting, use: str) -> None:
    """Somebody has registered with the address, or has signed in with it."""
    bob = scene.people.add("bob@example.org")
    scene.people.change("update users set password_hash = null, email_verified_at = null where id = %s", bob.user)
    scene.people.change("delete from sessions where user_id = %s", bob.user)
    scene.people.change(use, bob.user)
    _, mailed = await invited(scene)
    before = person(scene)
    tab = await opened(scene, mailed)
    assert "password" not in tab.page.inputs
    refused = await tab.tabs.request("POST", HERE, {"token": mailed, "password": GOOD, "form_token": await own_token(tab)})
    assert refuses_here(refused)
    assert (person(scene), scene.statuses()) == (before, ["pending"])


async def test_an_account_that_comes_into_use_while_the_password_is_hashed_keeps_its_ways_in(
    scene: Inviting, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    meanwhile(monkeypatch, scene.postern.identity.passwords, "hash", lambda: scene.people.add("bob@example.org"))
    await tab.send(password=GOOD)
    assert (refuses_here(tab.shown), tab.tabs.session) == (True, None)
    assert (person(scene)["password_hash"], scene.statuses()) == (None, ["pending"])
    assert "bob@example.org" not in scene.members()


async def test_the_first_password_of_a_proved_account_ends_the_links_mailed_before(scene: Inviting) -> None:
    """The owner has proved the address, and has no way in: neither a password nor a session is left."""
    bob = scene.verified("bob@example.org")
    scene.people.change("delete from sessions where user_id = %s", bob.user)
    assert (await scene.client.post("/api/auth/forgot-password", {"email": bob.email})).status == 200
    earlier = await scene.postbox.token()
    _, mailed = await invited(scene)
    verified_at = person(scene)["email_verified_at"]
    tab = await opened(scene, mailed)
    await tab.send(password=GOOD)
    assert (tab.place, tab.tabs.session is not None) == ("/ui/organizations/acme?done=joined", True)
    assert (person(scene)["id"], person(scene)["email_verified_at"]) == (bob.user, verified_at)
    refused = await scene.client.post("/api/auth/reset-password", {"token": earlier, "new_password": OTHER})
    assert refused.status == 400


async def test_an_account_that_was_only_made_is_opened(scene: Inviting) -> None:
    """A directory made it, and nobody ever signed in to it."""
    bob = scene.people.add("bob@example.org")
    scene.people.change("update users set password_hash = null, email_verified_at = null where id = %s", bob.user)
    scene.people.change("delete from sessions where user_id = %s", bob.user)
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    await tab.send(password=GOOD)
    assert (tab.place, tab.tabs.session is not None) == ("/ui/organizations/acme?done=joined", True)
    assert person(scene)["id"] == bob.user


async def test_a_refused_password_leaves_the_invitation(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    await tab.send(password="short")
    assert (tab.status, scene.statuses(), person(scene)) == (400, ["pending"], {})
    # The error stands at the field alone, which has the focus.
    assert "There is a problem" not in tab.page.text
    assert "autofocus" in tab.page.inputs["password"]
    await tab.send(password=GOOD)
    assert tab.tabs.session is not None


async def test_a_form_that_is_sent_twice_signs_in_both_times_and_never_another_password(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    form = tab.page.forms[0]
    await tab.send(password=GOOD)
    again = await tab.tabs.request("POST", HERE, {**form.fields, "password": GOOD})
    assert again.status == 303
    thief = await Tabs(scene.client).tab().open("/ui/sign-in")
    for password in (OTHER, GOOD):
        refused = await thief.tabs.request("POST", HERE, {"token": mailed, "password": password, "form_token": await own_token(thief)})
        assert (refused.status, thief.tabs.session is not None) == ((400, False) if password == OTHER else (303, True))
    scene.people.change("update invitations set closed_at = closed_at - interval '11 seconds'")
    late = await tab.tabs.request("POST", HERE, {**form.fields, "password": GOOD})
    assert (late.status, b"already accepted" in late.body) == (400, True)
    assert len(scene.people.rows("select from memberships where user_id = %s", person(scene)["id"])) == 1


async def test_of_two_at_once_one_chooses(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tabs = [await opened(scene, mailed) for _ in range(4)]
    forms = [tab.page.forms[0] for tab in tabs]
    passwords = [f"{number} good words in a row" for number in range(4)]

    async def send(number: int) -> Received:
        return await tabs[number].tabs.request("POST", HERE, {**forms[number].fields, "password": passwords[number]})

    answers = await all_at_once(*(partial(send, number) for number in range(4)))
    assert sorted(answer.status for answer in answers) == [303, 400, 400, 400]
    assert [tab.tabs.session is not None for tab in tabs].count(True) == 1
    assert scene.statuses() == ["accepted"]
    assert len(scene.people.rows("select from sessions where user_id = %s", person(scene)["id"])) == 1


async def test_the_page_after_the_answer_is_the_organizations(scene: Inviting) -> None:
    scene.verified("bob@example.org")
    scene.people.change("update organizations set name = 'Acme Metals', primary_color = '#a01040'")
    shown, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    assert "sign in as usual" in tab.page.text
    await tab.send(answer="accept")
    assert "You are now a member of Acme Metals Sign in as bob@example.org to continue." in tab.page.text
    assert b"pages-a01040.css" in tab.shown.body
    # The inviter's token tells nothing about the account.
    other = await Tabs(scene.client).tab().open(f"/ui/invitations/accepted?token={shown}")
    assert "Sign in to continue. If you did not have an account" in other.page.text
    assert "bob@example.org" not in other.page.text
    # Without a token that is known, the page names nobody.
    assert "Acme" not in (await Tabs(scene.client).tab().open("/ui/invitations/accepted?token=x")).page.text
    assert "Acme" not in (await Tabs(scene.client).tab().open("/ui/invitations/accepted")).page.text


async def test_another_sites_form_and_another_browsers_are_refused(scene: Inviting) -> None:
    _, mailed = await invited(scene)
    tab = await opened(scene, mailed)
    fields = {**tab.page.forms[0].fields, "password": GOOD}
    for broken in ({"form_token": ""}, {"form_token": "x"}):
        refused = await tab.tabs.request("POST", HERE, {**fields, **broken})
        assert refused.status == 403
    assert (await Tabs(scene.client).request("POST", HERE, fields)).status == 403
    assert (person(scene), scene.statuses()) == ({}, ["pending"])
