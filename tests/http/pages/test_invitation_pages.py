"""The built-in page of an invitation: its text, its two buttons, and its text for an invitation that nobody can answer any more."""

import re
from html import unescape
from uuid import uuid4

import pytest
from markupsafe import escape

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.limits import AUTH
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.inviting import Inviting
from tests.http.machinery.limited import until_refused
from tests.http.pages.test_password_pages import Form, is_page, send
from tests.http.people import BASE_URL, People

PAGE = "/ui/invitations/accept"


@pytest.fixture
def scene(client: Client, postern: Postern, people: People, log: CapturedLog) -> Inviting:
    return Inviting(postern, people, client, log)


def text_of(answer: Received) -> str:
    """The text that a person reads."""
    return PageReader(answer.body).text


async def test_a_person_sees_who_invites_them_to_what_and_accepts(scene: Inviting) -> None:
    token = (await scene.invite("Bob@example.org", "admin"))["token"]
    link = (await scene.client.get(f"/invitations/accept?token={token}")).header("location") or ""
    # To look at the page does not use the link up.
    shown, again = [await scene.client.get(link.removeprefix(BASE_URL)) for _ in range(2)]
    assert (shown.status, again.status, is_page(shown)) == (200, 200, True)
    assert scene.statuses() == ["pending"]
    read = text_of(shown)
    assert "You are invited to Acme" in read
    assert "For Bob@example.org Role Administrator Expires" in read
    form = Form(shown.body)
    assert (form.form["method"], form.form["action"], form.scripts) == ("post", PAGE, 0)
    assert form.inputs["token"]["value"] == token
    assert re.findall(rb'<button type="submit"[^>]* name="answer" value="(\w+)"', shown.body) == [b"accept", b"decline"]

    answer = await send(scene.client, PAGE, token=token, answer="accept")
    assert (answer.status, answer.header("location")) == (303, f"/ui/invitations/accepted?token={token}")
    assert scene.members()["Bob@example.org"] == "admin"
    done = await scene.client.get("/ui/invitations/accepted")
    assert done.status == 200
    assert is_page(done)
    # A form that is sent twice acts once. A moment later, the page tells the invitation's outcome.
    again = await send(scene.client, PAGE, token=token, answer="accept")
    assert (again.status, again.header("location")) == (303, f"/ui/invitations/accepted?token={token}")
    assert (await send(scene.client, PAGE, token=token, answer="decline")).status == 400
    scene.people.change("update invitations set closed_at = closed_at - interval '11 seconds'")
    for again in (await send(scene.client, PAGE, token=token, answer="accept"), await scene.client.get(f"{PAGE}?token={token}")):
        assert again.status == 400
        assert is_page(again)
        assert "already accepted" in text_of(again)


async def test_a_person_declines(scene: Inviting) -> None:
    token = (await scene.invite())["token"]
    answer = await send(scene.client, PAGE, token=token, answer="decline")
    assert (answer.status, answer.header("location")) == (303, f"/ui/invitations/declined?token={token}")
    assert scene.statuses() == ["rejected"]
    again = await send(scene.client, PAGE, token=token, answer="decline")
    assert (again.status, again.header("location")) == (303, f"/ui/invitations/declined?token={token}")
    assert (await send(scene.client, PAGE, token=token, answer="accept")).status == 400
    done = await scene.client.get("/ui/invitations/declined")
    assert (done.status, is_page(done)) == (200, True)
    assert "was declined" in text_of(await scene.client.get(f"{PAGE}?token={token}"))


async def test_a_token_of_ones_own_list_opens_it_too(scene: Inviting) -> None:
    bob = scene.verified("bob@example.org")
    await scene.invite()
    (own,) = await scene.own(bob)
    assert "You are invited to Acme" in text_of(await scene.client.get(f"{PAGE}?token={own['token']}"))
    assert (await send(scene.client, PAGE, token=own["token"], answer="accept")).status == 303


async def test_it_does_not_tell_whether_the_address_has_an_account(scene: Inviting) -> None:
    """The inviter has the token, too, and must not learn that."""
    scene.verified("bob@example.org")
    tokens = [(await scene.invite(email))["token"] for email in ("bob@example.org", "eve@example.org")]
    shown = [await scene.client.get(f"{PAGE}?token={token}") for token in tokens]
    one, other = (re.sub(r"(bob|eve)@|value=\"[^\"]*\"|, \d\d:\d\d UTC", "", answer.body.decode()) for answer in shown)
    assert one == other


@pytest.mark.parametrize("given", [{}, {"answer": ""}, {"answer": "yes"}, {"answer": "ACCEPT"}])
async def test_without_a_yes_or_no_nothing_happens(given: dict[str, str], scene: Inviting) -> None:
    token = (await scene.invite())["token"]
    refused = await send(scene.client, PAGE, (("sec-fetch-site", "same-origin"),), token=token, **given)
    assert refused.status == 400
    assert is_page(refused)
    assert scene.statuses() == ["pending"]


BAD_LINKS = ["", "?token=", "?token=x", "?token=%3Cscript%3Ealert(1)%3C/script%3E", "?token=%00%ff", "?token=" + "x" * 5000]


@pytest.mark.parametrize("query", BAD_LINKS)
async def test_without_a_good_link_there_is_a_page_that_says_so(query: str, client: Client) -> None:
    answer = await client.get(PAGE + query)
    assert answer.status == 400
    assert is_page(answer)
    assert "not valid" in text_of(answer)
    assert b"<script" not in answer.body


async def test_one_whose_time_has_passed_says_what_can_be_done(scene: Inviting) -> None:
    token = (await scene.invite())["token"]
    scene.overdue()
    for answer in (await scene.client.get(f"{PAGE}?token={token}"), await send(scene.client, PAGE, token=token, answer="accept")):
        assert answer.status == 400
        assert "has expired" in text_of(answer)
        assert "another invitation" in text_of(answer)
    assert scene.happened() == ["user.invited", "invitation.expired"]


async def test_what_stands_against_it_is_said_in_words(scene: Inviting) -> None:
    token = (await scene.invite())["token"]
    scene.people.change("update organizations set max_users = 1")
    answer = await send(scene.client, PAGE, token=token, answer="accept")
    assert (answer.status, is_page(answer)) == (400, True)
    assert "The invitation stays valid until it expires" in text_of(answer)
    scene.people.change("update organizations set status = 'suspended'")
    answer = await send(scene.client, PAGE, token=token, answer="accept")
    assert (answer.status, is_page(answer)) == (403, True)
    assert "not active" in text_of(answer)
    assert scene.statuses() == ["pending"]


async def test_a_role_is_told_by_its_name(scene: Inviting) -> None:
    scene.role("rev-1", Capability.MEMBERS_VIEW)
    token = (await scene.invite(role="rev-1"))["token"]
    for name in ("Revisionsabteilung Nord", "<b>\u202eadmin</b> {{ 77 * 77 }}"):
        scene.people.change("update roles set name = %s", name)
        shown = await scene.client.get(f"{PAGE}?token={token}")
        assert f"<bdi>{escape(name)}</bdi>".encode() in shown.body
        assert "rev-1" not in text_of(shown)
        assert "5929" not in text_of(shown)
    member = (await scene.invite("eve@example.org"))["token"]
    german = await scene.client.get(f"{PAGE}?token={member}", headers=[("accept-language", "de")])
    assert "Rolle Mitglied" in text_of(german)


async def test_one_whose_role_is_not_known_any_longer_still_shows(scene: Inviting) -> None:
    """A role that an invitation offers cannot be deleted. Its row may go all the same, when the organization's rows are removed."""
    scene.role("rev-1", Capability.MEMBERS_VIEW)
    token = (await scene.invite(role="rev-1"))["token"]
    scene.people.change("update invitations set role_id = null")
    assert "rev-1" in text_of(await scene.client.get(f"{PAGE}?token={token}"))


async def test_hostile_names_stay_names(scene: Inviting) -> None:
    name = "<script>alert(1)</script>\" onload='x' {{ 777 * 777 }}"
    scene.people.change("update organizations set name = %s", name)
    answer = await scene.client.get(f"{PAGE}?token={(await scene.invite())['token']}")
    assert f"You are invited to <bdi>{name}</bdi>" in unescape(answer.body.decode())
    assert Form(answer.body).scripts == 0
    assert b"603729" not in answer.body


@pytest.mark.parametrize(
    "headers", [(("sec-fetch-site", "cross-site"),), (("sec-fetch-site", "none"),), (("origin", "https://evil.example"),)]
)
async def test_another_sites_form_is_refused(headers: tuple[tuple[str, str], ...], scene: Inviting) -> None:
    token = (await scene.invite())["token"]
    answer = await send(scene.client, PAGE, headers=headers, token=token, answer="accept")
    assert answer.status == 403
    assert is_page(answer)
    assert scene.statuses() == ["pending"]


async def test_nobody_tries_links_without_end(client: Client) -> None:
    statuses, refused = await until_refused(AUTH, lambda: send(client, PAGE, token=f"guess{uuid4()}", answer="accept"))
    assert set(statuses) == {400}
    assert is_page(refused)
    assert refused.header("retry-after") is not None


async def test_without_a_database_a_page_says_to_come_back(lonely_client: Client) -> None:
    answer = await lonely_client.get(f"{PAGE}?token=x")
    assert answer.status == 503
    assert is_page(answer)
    assert "Try again later" in text_of(answer)
