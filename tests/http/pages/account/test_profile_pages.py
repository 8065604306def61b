"""`/ui/profile`: what a person says of themselves, and the address of the account."""

import pytest

from tests.changed_fields import put
from tests.http.pages.account.conftest import AccountPagesScene
from tests.meanwhile import meanwhile
from tests.pictures import drawn_png

EMAIL = "/ui/profile/email"
DETAILS, PICTURE = "/ui/profile/details", "/ui/profile/picture"


async def test_another_address_by_a_mailed_link(home: AccountPagesScene) -> None:
    await home.open("/ui/profile")
    await home.open(EMAIL)
    assert home.tab.page.inputs["email"]["autocomplete"] == "email"
    await home.send(email=" new@example.org ")
    assert home.tab.place == "/ui/profile?done=mailed"
    assert "A verification link was sent to your new email address" in home.tab.page.text
    assert "verification link was sent to new@example.org" in home.tab.page.text
    (user,) = home.people.rows("select email, pending_email from users where id = %s", home.ada.user)
    assert user == {"email": "ada@example.org", "pending_email": "new@example.org"}
    assert [entry["action"] for entry in home.audited("user.email%")] == ["user.email.change_requested"]


async def test_a_change_that_waits_is_withdrawn(home: AccountPagesScene) -> None:
    await home.open(EMAIL)
    await home.send(email="new@example.org")
    await home.tab.send(1)
    assert home.tab.place == "/ui/profile?done=kept"
    assert "new@example.org" not in home.tab.page.text
    (user,) = home.people.rows("select pending_email from users where id = %s", home.ada.user)
    assert user["pending_email"] is None


@pytest.mark.parametrize("wrong", ["", "nobody", "a@b", "x" * 400 + "@example.org", "taken@example.org"])
async def test_an_address_that_cannot_be_used_brings_the_form_back(wrong: str, home: AccountPagesScene) -> None:
    home.people.add("taken@example.org")
    await home.open(EMAIL)
    await home.send(email=wrong)
    assert home.tab.status == 400
    given = home.tab.page.inputs["email"]
    assert given["aria-invalid"] == "true"
    assert (given["aria-describedby"] or "").split()[0] == "email-error"
    assert (given.get("value") or "") == wrong
    # The form has one field, so its error stands there alone, and the field has the focus.
    assert "There is a problem" not in home.tab.page.text
    assert "autofocus" in home.tab.page.inputs["email"]
    assert home.people.rows("select from users where pending_email is not null") == []


async def test_too_many_changes_wait(home: AccountPagesScene) -> None:
    await home.open(EMAIL)
    form = home.form
    answers = [await home.tabs.request("POST", form.action, {**form.fields, "email": f"new{number}@example.org"}) for number in range(6)]
    assert answers[-1].status == 429
    assert b"Too many" in answers[-1].body


async def test_at_once_where_the_installation_says_so(home: AccountPagesScene) -> None:
    put(home.postern.identity.accounts, immediate_email_changes=True)
    await home.open(EMAIL)
    form = home.form
    await home.send(email="new@example.org")
    assert home.tab.place == "/ui/profile?done=moved"
    assert "Email address new@example.org" in home.tab.page.text
    # The second of two clicks finds that the address is changed already.
    again = await home.tabs.request("POST", form.action, {**form.fields, "email": "new@example.org"})
    assert again.header("location") == "/ui/profile?done=moved"
    await home.open(EMAIL)
    await home.send(email="new@example.org")
    assert home.tab.place == "/ui/profile?done=kept"


async def test_not_in_a_session_that_ends_meanwhile(home: AccountPagesScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await home.open(EMAIL)
    ends = "update sessions set revoked_at = now()"
    meanwhile(monkeypatch, home.postern.identity.accounts.buckets, "take", lambda: home.people.change(ends))
    await home.send(email="new@example.org")
    assert home.tab.status == 401
    assert "Your session has ended. Sign in again." in home.tab.page.text
    assert home.people.rows("select from users where pending_email is not null") == []


async def test_without_a_fresh_proof_it_is_asked_for_first(home: AccountPagesScene) -> None:
    await home.has_password("the moon over the harbour")
    await home.open(EMAIL)
    form = home.form
    home.grow_old()
    answer = await home.tabs.request("POST", form.action, {**form.fields, "email": "new@example.org"})
    assert (answer.status, answer.header("location")) == (303, "/ui/prove?to=/ui/profile/email&need=account")
    await home.open(EMAIL)
    assert home.tab.place == "/ui/prove?to=/ui/profile/email&need=account"
    await home.send(password="the moon over the harbour")
    assert (home.tab.place, home.tab.status) == (EMAIL, 200)


async def test_a_language_of_ones_own(home: AccountPagesScene) -> None:
    await home.open("/ui/profile")
    form = home.form
    assert form.action == "/ui/profile/language"
    for language in ("de", "", "fr", "pl"):
        answer = await home.tabs.request("POST", form.action, {**form.fields, "language": language})
        assert answer.header("location") == "/ui/profile?done=language"
        shown = await home.open("/ui/profile?done=language")
        assert f'<html lang="{language or "en"}"'.encode() in shown.shown.body
        assert (
            f'value="{language}"'.encode() + (f' lang="{language}" dir="ltr"'.encode() if language else b"") + b" selected"
            in shown.shown.body
        )
    for wrong in ("sv", "EN", "x"):
        answer = await home.tabs.request("POST", form.action, {**form.fields, "language": wrong})
        assert answer.status == 400


class TestDetails:
    async def test_a_person_fills_them_in_and_empties_them(self, home: AccountPagesScene) -> None:
        shown = await home.open("/ui/profile")
        assert "Not set" in shown.page.text
        assert ">A</span>" in shown.shown.body.decode(), "the initial of the address"
        await home.open(DETAILS)
        given = {"name": " Ada Lovelace", "given_name": "Ada", "family_name": "Lovelace", "username": "ada", "zoneinfo": "Europe/Vienna"}
        await home.send(**given)
        assert home.tab.place == "/ui/profile?done=details"
        assert "Profile saved" in home.tab.page.text
        assert "Europe/Vienna" in home.tab.page.text
        body = home.tab.shown.body.decode()
        assert "<bdi>Ada Lovelace</bdi> <bdi>ada@example.org</bdi>" in body, "the name beside the address, on top of each page"
        assert ">AL</span>" in body
        await home.open(DETAILS)
        assert {field: home.form.fields[field] for field in given} == {**given, "name": "Ada Lovelace"}
        await home.send(**dict.fromkeys(given, ""))
        assert "Not set" in home.tab.page.text

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("name", "x" * 201, "at most 200 characters"),
            ("family_name", "a\u202eb", "cannot be displayed"),
            ("username", "Ada", "3 to 40 lowercase letters"),
            ("username", "admin", "is reserved"),
            ("username", "taken", "is taken or was used before"),
            ("zoneinfo", "Vienna", "Unknown time zone"),
        ],
    )
    async def test_a_wrong_field_brings_the_form_back(self, home: AccountPagesScene, field: str, value: str, says: str) -> None:
        eve = await home.browser(home.people.add("eve@example.org")).tab().open(DETAILS)
        await eve.send(1, username="taken")
        await home.open(DETAILS)
        await home.send(**{"given_name": "Ada", field: value})
        assert home.tab.status == (409 if value == "taken" else 400)
        assert says in home.tab.page.text
        assert (home.form.fields[field], home.form.fields["given_name"]) == (value, "Ada")
        assert home.tab.page.inputs[field]["aria-invalid"] == "true"
        assert home.people.rows("select given_name from users where id = %s", home.ada.user) == [{"given_name": None}]


class TestPicture:
    async def test_a_person_sends_a_file_and_removes_it(self, home: AccountPagesScene) -> None:
        await home.open(PICTURE)
        await home.send(picture=drawn_png())
        assert home.tab.place == "/ui/profile?done=picture"
        (row,) = home.people.rows("select id, content from pictures")
        assert bytes(row["content"]) == drawn_png()
        assert f'<img class="likeness" src="/pictures/{row["id"]}" alt="">' in home.tab.shown.body.decode()
        await home.open(PICTURE)
        await home.send()
        assert home.tab.place == "/ui/profile?done=no-picture"
        assert home.people.rows("select from pictures") == []

    @pytest.mark.parametrize(
        ("content", "status", "says"),
        [
            (b"", 400, "Choose a PNG, JPEG or WebP file"),
            (b"GIF89a" + b"\0" * 20, 400, "Choose a PNG, JPEG or WebP file"),
            (drawn_png()[:-4], 400, "The picture is damaged"),
            (drawn_png(2049, 1), 400, "at most 2048 pixels"),
            (b"\0" * (257 << 10), 413, "The file is too large"),
            (b"\0" * (1 << 20), 413, "Choose a smaller picture"),
        ],
        ids=["none", "gif", "damaged", "wide", "large", "huge"],
    )
    async def test_a_wrong_file_brings_the_form_back(self, home: AccountPagesScene, content: bytes, status: int, says: str) -> None:
        await home.open(PICTURE)
        await home.send(picture=content)
        assert home.tab.status == status
        assert says in home.tab.page.text
        assert home.people.rows("select from pictures") == []
