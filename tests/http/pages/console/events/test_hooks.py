"""The page of the hook before a sign-in: an owner enters its address, tries it, reads what it would have done, and lets it count."""

from datetime import UTC, timedelta

import pytest

from adapters.postgres.backups.restored import OutgoingWork, hold
from core.domain.identity.guards.hook_verdicts import HookReason
from core.domain.tenancy.hooks import INVALID, REFUSED_STATUS, RESTING, TOO_LONG, UNREADABLE
from ports.outbound import Failure
from tests.http.pages.console.conftest import HOME, ConsoleScene
from tests.http.tenancy.hooks.scene import GO_ON, saying
from tests.receiver import Receiver, receiving

AT = "/events/hooks"


async def added(console: ConsoleScene, receiver: Receiver) -> str:
    """The secret, which the page shows once."""
    await console.at(AT)
    await console.submit(f"{AT}/change", address=f"http://127.0.0.1:{receiver.port}/", silence="go_on", seconds="2")
    (secret,) = [word for word in console.tab.page.text.split() if word.startswith("whsec_")]
    console.log.remember(secret)
    return secret


async def test_an_owner_adds_a_hook_tries_it_and_lets_it_count(console: ConsoleScene) -> None:
    async with receiving(saying(GO_ON)) as receiver:
        tab = await console.at(AT)
        assert "No sign-in hook" in tab.page.text
        assert f"{HOME}{AT}" in (await console.at("/sign-in")).page.links
        secret = await added(console, receiver)
        tab = await console.at(AT)
        assert secret not in tab.page.text
        assert "Report-only" in tab.page.text
        assert f"{HOME}{AT}/count" not in tab.page.links, "nobody has seen yet what it would do"
        (row,) = console.people.rows("select since from hooks")
        later = f"Enforcing this hook is possible from {row['since'].astimezone(UTC) + timedelta(hours=1):%H:%M} (UTC), or after"
        assert f"{later} 100 more requests." in tab.page.text
        console.people.change("update hooks set asked = 99")
        tab = await console.at(f"{AT}/count")
        assert f"{later} 1 more request." in tab.page.text
        assert not [form for form in tab.page.forms if form.action.endswith("/count")]
        console.people.change("update hooks set asked = 0")
        await console.at(AT)
        tab = await console.submit(f"{AT}/try")
        assert "Allowed, " in tab.page.text
        assert len(receiver.calls) == 1
        assert "Test" in (await console.at(f"{AT}/exchanges")).page.text
        console.people.change("update hooks set since = since - interval '1 hour'")
        assert "Enforcing this hook is possible" not in (await console.at(AT)).page.text
        await console.at(f"{AT}/count")
        assert f"http://127.0.0.1:{receiver.port}/" in console.tab.page.text
        tab = await console.submit(f"{AT}/count")
        assert "Its decisions apply from now on" in tab.page.text
        assert "Enforced" in tab.page.text
        await console.at(AT)
        # Each change puts it in shadow.
        await console.submit(f"{AT}/change", silence="refuse")
        tab = await console.at(AT)
        assert "Report-only" in tab.page.text
        assert "Deny the sign-in" in tab.page.text


async def test_what_has_changed_since_the_page_was_shown_does_not_count(console: ConsoleScene) -> None:
    async with receiving(saying(GO_ON)) as receiver:
        await added(console, receiver)
        console.people.change("update hooks set since = since - interval '1 hour'")
        await console.at(f"{AT}/count")
        console.people.change("update hooks set refused = 3, asked = 3")
        tab = await console.submit(f"{AT}/count")
        assert tab.status == 409
        assert "changed after you opened this page" in tab.page.text
        assert console.people.rows("select counts_as from hooks") == [{"counts_as": None}]


async def test_the_page_says_of_whom_the_hook_does_not_hear(console: ConsoleScene, database_url: str) -> None:
    assert "not confirmed their membership" not in (await console.at(AT)).page.text
    console.tenants.join(console.people.add(), console.acme, listed=True)
    assert "1 member has not confirmed their membership" in (await console.at(AT)).page.text, "before there is a hook"
    async with receiving(saying(GO_ON)) as receiver:
        await added(console, receiver)
        assert "1 member has not confirmed their membership" in (await console.at(AT)).page.text
        console.tenants.join(console.people.add(), console.acme, listed=True)
        shown = (await console.at(AT)).page.text
        assert (
            "2 members have not confirmed their membership and can sign in without a request to the hook. "
            "Postern calls the hook for these members after they confirm" in shown
        )
        assert "stay valid after a denial" not in shown, "nobody has a key"
        # And once more where the owner says yes.
        console.people.change("update hooks set since = since - interval '1 hour'")
        asked = (await console.at(f"{AT}/count")).page.text
        assert "Members who have not confirmed (hook not called)" in asked
        assert "User API keys (valid after a denial)" in asked
        await hold(database_url, [OutgoingWork.HOOKS])
        assert "The hook is not called until they are resumed" in (await console.at(AT)).page.text
        console.people.change("update hooks set sealed_secret = null, secret_made_at = null")
        assert "This hook was imported without its signing secret and is not called" in (await console.at(AT)).page.text


async def test_a_new_secret_and_the_end_ask_first(console: ConsoleScene) -> None:
    async with receiving(saying(GO_ON)) as receiver:
        former = await added(console, receiver)
        await console.at(f"{AT}/rotate-secret")
        tab = await console.submit(f"{AT}/rotate-secret")
        (secret,) = [word for word in tab.page.text.split() if word.startswith("whsec_")]
        console.log.remember(secret)
        assert secret != former
        await console.at(f"{AT}/end")
        tab = await console.submit(f"{AT}/end")
        assert "No sign-in hook" in tab.page.text


_REASONS = (
    *HookReason,
    *Failure,
    *(INVALID, REFUSED_STATUS, TOO_LONG, RESTING, UNREADABLE),
    # What a release before has recorded stays for a week.
    *("crowded", "asked_enough"),
)
# A reason of a no, a failed call and a silence of ours, each as one language says it.
_WORDS = {
    "en": ("Denied: Location, 1", "No response in time", "Status other than 200"),
    "de": ("Abgelehnt: Standort, 1", "Keine rechtzeitige Antwort", "Anderer Status als 200"),
    "fr": ("Refusé: Emplacement, 1", "Aucune réponse à temps", "Statut différent de 200"),
    "es": ("Denegado: Ubicación, 1", "Sin respuesta a tiempo", "Estado distinto de 200"),
}


@pytest.mark.parametrize("language", _WORDS)
async def test_answers_and_reasons_are_in_the_readers_language(console: ConsoleScene, language: str) -> None:
    said, slow, failed = _WORDS[language]
    async with receiving(saying({"decision": "no", "reason": "place"})) as receiver:
        await added(console, receiver)
        console.people.change("update users set language = %s", language)
        await console.at(AT)
        tab = await console.submit(f"{AT}/try")
        assert said.partition(",")[0] in tab.page.text
        for why in _REASONS:
            console.people.change(
                "insert into hook_exchanges (id, hook_id, at, milliseconds, outcome, why, counted, sent)"
                " select gen_random_uuid(), id, now(), 5, 'silent', %s, true, '{}' from hooks",
                why,
            )
        tab = await console.at(f"{AT}/exchanges")
        text = tab.page.text
        assert tab.status == 200
        assert not [why for why in _REASONS if "_" in why and why in text]
        assert slow in text
        assert failed in text
        assert said.partition(": ")[2].partition(",")[0] in text


@pytest.mark.parametrize("role", ["admin", "member"])
async def test_nobody_else_sees_a_button(console: ConsoleScene, role: str) -> None:
    async with receiving(saying(GO_ON)) as receiver:
        await added(console, receiver)
    tab = await console.colleague(role).open(f"{HOME}{AT}")
    assert tab.status == (200 if role == "admin" else 403)
    forms = [one.action for one in tab.page.forms if AT in (one.action or "")]
    assert forms == []
