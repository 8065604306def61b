"""`/ui/password`: a first password, and a change of password."""

import pytest

from core.domain.secrets import Password
from tests.http.cast import all_at_once
from tests.http.pages.account.conftest import AccountPagesScene

OLD, NEW = "the moon over the harbour", "a lighthouse in the fog"


async def password_is(home: AccountPagesScene, password: str) -> bool:
    (user,) = home.people.rows("select password_hash from users where id = %s", home.ada.user)
    return await home.postern.identity.passwords.verify(user["password_hash"], Password(password))


async def test_a_first_password(home: AccountPagesScene) -> None:
    home.log.remember(NEW)
    elsewhere = home.elsewhere()
    tab = await home.open("/ui/password")
    assert "current" not in tab.page.inputs
    assert tab.page.inputs["new_password"]["autocomplete"] == "new-password"
    form = home.form
    await home.send(new_password=NEW, repeated=NEW)
    assert tab.place == "/ui/password?done=set"
    assert "Password set" in tab.page.text
    assert "current" in tab.page.inputs
    assert await password_is(home, NEW)
    assert (home.lives(home.ada), home.lives(elsewhere)) == (True, False)
    # The same form once more is harmless. Another password is not.
    again = await home.tabs.request("POST", form.action, {**form.fields, "new_password": NEW, "repeated": NEW})
    assert again.header("location") == "/ui/password?done=set"
    other = await home.tabs.request("POST", form.action, {**form.fields, "new_password": OLD, "repeated": OLD})
    assert other.status == 400
    assert b"already has a password" in other.body
    assert [entry["details"]["how"] for entry in home.audited("security.password.changed")] == ["set"]


async def test_a_first_password_needs_a_fresh_proof(home: AccountPagesScene) -> None:
    """The new password itself will count as a proof."""
    prove = "/ui/prove?to=/ui/password&need=account"
    await home.open("/ui/password")
    form = home.form
    home.grow_old()
    answer = await home.tabs.request("GET", "/ui/password")
    assert (answer.status, answer.header("location")) == (303, prove)
    answer = await home.tabs.request("POST", form.action, {**form.fields, "new_password": NEW, "repeated": NEW})
    assert (answer.status, answer.header("location")) == (303, prove)
    assert home.people.rows("select from users where password_hash is not null") == []
    # People without a passkey sign in again, and come back.
    answer = await home.tabs.request("GET", prove)
    assert answer.header("location") == "/ui/sign-in?to=/ui/password&again=yes"
    home.people.give_passkey(home.ada)
    assert "use a passkey to continue." in (await home.open("/ui/password")).page.text
    home.people.change("update sessions set proved_at = now()")
    assert (await home.open("/ui/password")).place == "/ui/password"


async def test_another_one_needs_the_current_one_and_no_more(home: AccountPagesScene) -> None:
    await home.has_password(OLD)
    home.grow_old()
    await home.open("/ui/password")
    await home.send(current=OLD, new_password=NEW, repeated=NEW)
    assert home.tab.place == "/ui/password?done=changed"


async def test_another_tab_has_set_the_first_password(home: AccountPagesScene) -> None:
    one, two = await home.tabs.tab().open("/ui/password"), await home.tabs.tab().open("/ui/password")
    last = len(one.page.forms) - 1
    await one.send(last, new_password=NEW, repeated=NEW)
    home.people.change("update users set password_changed_at = now() - interval '1 minute'")
    await two.send(last, new_password=OLD, repeated=OLD)
    assert (two.place, two.status) == ("/ui/password", 400)
    assert "already has a password" in two.page.text
    assert "sign in another way" not in two.page.text
    await two.send(last, current=NEW, new_password=OLD, repeated=OLD)
    assert two.place == "/ui/password?done=changed"
    assert await password_is(home, OLD)


async def test_another_password(home: AccountPagesScene) -> None:
    home.log.remember(OLD, NEW)
    await home.has_password(OLD)
    elsewhere = home.elsewhere()
    tab = await home.open("/ui/password")
    assert tab.page.inputs["current"]["autocomplete"] == "current-password"
    await home.send(current=OLD, new_password=NEW, repeated=NEW)
    assert tab.place == "/ui/password?done=changed"
    assert "Last changed just now" in tab.page.text
    assert await password_is(home, NEW)
    assert (home.lives(home.ada), home.lives(elsewhere)) == (True, False)


async def test_a_form_that_is_sent_twice_changes_the_password_once(home: AccountPagesScene) -> None:
    await home.has_password(OLD)
    await home.open("/ui/password")
    fields = {**home.form.fields, "current": OLD, "new_password": NEW, "repeated": NEW}

    async def send() -> str | None:
        return (await home.tabs.request("POST", "/ui/password", fields)).header("location")

    assert await all_at_once(send, send) == ["/ui/password?done=changed"] * 2
    assert await send() == "/ui/password?done=changed"
    changed = [entry for entry in home.audited("security.password.changed") if entry["details"].get("how")]
    assert len(changed) == 1
    # A little later the same form is a wrong guess at the current password.
    home.people.change("update users set password_changed_at = now() - interval '1 minute'")
    assert await send() is None


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"current": "wrong"}, "current", "current password is incorrect"),
        ({"current": ""}, "current", "current password is incorrect"),
        ({"new_password": "short", "repeated": "short"}, "new_password", "at least 8"),
        ({"new_password": "password1", "repeated": "password1"}, "new_password", "too common"),
        ({"new_password": "ada@example.org", "repeated": "ada@example.org"}, "new_password", "must not be your email address"),
        ({"repeated": OLD}, "repeated", "passwords do not match"),
    ],
)
async def test_what_is_refused_stands_beside_its_field(fields: dict[str, str], field: str, says: str, home: AccountPagesScene) -> None:
    await home.has_password(OLD)
    await home.open("/ui/password")
    await home.send(**{"current": OLD, "new_password": NEW, "repeated": NEW, **fields})
    assert home.tab.status == 400
    assert says in home.tab.page.text
    assert home.tab.page.inputs[field]["aria-invalid"] == "true"
    assert not any(one.get("value") for name, one in home.tab.page.inputs.items() if name in {"current", "new_password", "repeated"})
    assert await password_is(home, OLD)


async def test_a_wrong_current_password_is_told_with_the_other_errors_and_is_remembered(home: AccountPagesScene) -> None:
    await home.has_password(OLD)
    await home.open("/ui/password")
    await home.send(current="wrong", new_password="short", repeated="short")
    assert home.tab.status == 400
    assert "current password is incorrect" in home.tab.page.text
    assert "at least 8" in home.tab.page.text
    (entry,) = home.audited("security.password.changed")
    assert entry["details"] == {"reason": "wrong_password"}
    assert await password_is(home, OLD)


async def test_guessing_at_the_current_password_ends(home: AccountPagesScene) -> None:
    await home.has_password(OLD)
    await home.open("/ui/password")
    for _ in range(6):
        await home.send(current="wrong", new_password=NEW, repeated=NEW)
    assert home.tab.status == 429
    assert "Too many" in home.tab.page.text


async def test_a_form_for_another_state_of_the_account(home: AccountPagesScene) -> None:
    """The password was removed, or the account deactivated, while the page was open."""
    await home.open("/ui/password")
    await home.send(current=OLD, new_password=NEW, repeated=NEW)
    assert home.tab.status == 400
    assert "Set one first" in home.tab.page.text
    assert "current" not in home.tab.page.inputs
