"""The list of invitations in the console, with the buttons of its rows, and the form that invites."""

from core.domain.tenancy.invitations import MOST_TO_ONE_ADDRESS
from tests.http.pages.console.conftest import ConsoleScene

INVITATIONS = "/people/invitations"
BOB = "bob@people.example"


async def invited(console: ConsoleScene, email: str = BOB, role: str = "member") -> str:
    """Invites by the form. Returns the id of the invitation."""
    await console.at(f"{INVITATIONS}/~new")
    await console.submit(f"{INVITATIONS}/~new", emails=email, role=role)
    return latest(console)


def latest(console: ConsoleScene) -> str:
    return str(console.people.rows("select id from invitations order by id desc limit 1")[0]["id"])


def states(console: ConsoleScene) -> list[str]:
    return [one["status"] for one in console.people.rows("select status from invitations order by id")]


def buttons(console: ConsoleScene) -> list[str]:
    """The addresses of the buttons in the rows of the list."""
    body = console.tab.shown.body.decode()
    return [one for one in body.split('"') if INVITATIONS in one and one.endswith(("/resend", "/cancel"))]


async def pressed(console: ConsoleScene, address: str) -> None:
    """Presses a button of a row, which sends a form of the page to an address of its own."""
    await console.at(INVITATIONS)
    token = next(one.fields["form_token"] for one in console.tab.page.forms if one.action == "")
    answer = await console.tab.tabs.request("POST", address, {"form_token": token})
    assert answer.status == 303
    await console.tab.open(answer.header("location") or "")


async def test_a_row_sends_an_invitation_again_and_withdraws_it(console: ConsoleScene) -> None:
    first = await invited(console, role="admin")
    tab = await console.at(INVITATIONS)
    assert f"{BOB} Administrator Pending" in tab.page.text
    resend = f"/ui/o/acme{INVITATIONS}/{first}/resend"
    assert buttons(console) == [resend, f"/ui/o/acme{INVITATIONS}/{first}/cancel"]
    mails = len(console.people.rows("select from jobs"))
    await pressed(console, resend)
    assert "Invitation resent" in console.tab.page.text
    assert states(console) == ["cancelled", "pending"]
    assert [one["role"] for one in console.people.rows("select role from invitations")] == ["admin", "admin"]
    assert len(console.people.rows("select from jobs")) == mails + 1
    # Sent twice, it sends one mail.
    await pressed(console, resend)
    assert states(console) == ["cancelled", "pending"]
    assert len(console.people.rows("select from jobs")) == mails + 1
    assert buttons(console)[0] == f"/ui/o/acme{INVITATIONS}/{latest(console)}/resend"
    withdrawal = f"{INVITATIONS}/{latest(console)}/cancel"
    await console.at(withdrawal)
    await console.submit(withdrawal)
    assert console.tab.place.startswith(f"/ui/o/acme{INVITATIONS}?done=")
    assert states(console) == ["cancelled", "cancelled"]
    assert buttons(console) == []


async def test_an_invitation_that_has_ended_is_sent_again(console: ConsoleScene) -> None:
    first = await invited(console)
    console.people.change("update invitations set expires_at = now() - interval '1 hour', created_at = created_at - interval '8 days'")
    await pressed(console, f"/ui/o/acme{INVITATIONS}/{first}/resend")
    assert states(console) == ["expired", "pending"]


async def test_a_refused_repetition_leaves_the_link_as_it_was(console: ConsoleScene) -> None:
    for _ in range(MOST_TO_ONE_ADDRESS - 1):
        first = await invited(console)
        await console.at(f"{INVITATIONS}/{first}/cancel")
        await console.submit(f"{INVITATIONS}/{first}/cancel")
    first = await invited(console)
    await console.at(INVITATIONS)
    token = next(one.fields["form_token"] for one in console.tab.page.forms if one.action == "")
    answer = await console.tab.tabs.request("POST", f"/ui/o/acme{INVITATIONS}/{first}/resend", {"form_token": token})
    assert answer.status == 429
    assert states(console)[-1] == "pending"


async def test_who_may_not_invite_sends_nothing_again(console: ConsoleScene) -> None:
    first = await invited(console)
    _, stranger = console.stranger()
    await stranger.open(f"/ui/o/globex{INVITATIONS}/~new")
    token = stranger.page.forms[-1].fields["form_token"]
    for home in ("acme", "globex"):
        answer = await stranger.tabs.request("POST", f"/ui/o/{home}{INVITATIONS}/{first}/resend", {"form_token": token})
        assert answer.status in {403, 404}, home
    assert states(console) == ["pending"]


async def test_the_form_asks_for_addresses_and_folds_the_role(console: ConsoleScene) -> None:
    tab = await console.at(f"{INVITATIONS}/~new")
    body = tab.shown.body.decode()
    assert "Role: Member" in tab.page.text
    assert body.index('id="emails"') < body.index('<details class="curl chosen">') < body.index('id="role"')
    tab = await console.submit(f"{INVITATIONS}/~new", emails="no address", role="admin")
    assert tab.status == 400
    assert '<details class="curl chosen" open>' in tab.shown.body.decode()
    assert "Role: Administrator" in tab.page.text
