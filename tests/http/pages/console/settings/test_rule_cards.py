"""The cards of the sign-in rules: what they say of each value, that they share the record among them, and who may change two at once."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import Any, Final

import msgspec
import pytest

from core.domain.identity.passwords import BreachRule
from core.domain.identity.registering import RegistrationPolicy
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.outbound import MetadataClients, RegisteredClients
from core.domain.tenancy.sign_in_rules import AdminFactor, AfarRule, AgentRule, AllFactor, MfaPolicy
from entrypoints.http.console.organization.rules import CARDS, Card
from entrypoints.http.console.organization.rules.sentences import InForce
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.routes.tenancy.sign_in_rules import SignInRulesPatch, SignInRulesRecord
from tests.http.browsing import Tab
from tests.http.cast import all_at_once
from tests.http.pages.console.conftest import ConsoleScene

MOST_IN_SIGHT: Final = 7
PAGE: Final = "/ui/o/acme/sign-in"
_AT: Final = datetime(2026, 3, 1, 8, 15, tzinfo=UTC)
IN_FORCE: Final = InForce(lifetime="90 days", idle="30 days", most="no limit", shortest="8 characters", breached="no check")
# Of each field all values that it may have, or those that read differently.
VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "mfa_policy": [*MfaPolicy],
    "admin_factor": [*AdminFactor],
    "all_factor": [*AllFactor],
    "all_factor_role": [None, "billing/approver", "shop/chief"],
    "mfa_grace_days": [0, 1, 7],
    "device_trust_days": [0, 1, 30],
    "session_lifetime_hours": [None, 1, 12],
    "session_idle_minutes": [None, 5, 60],
    "most_sessions": [None, 1, 3],
    "shortest_password": [None, 8, 12],
    "breached_at_sign_in": [None, *BreachRule],
    "passkey_offers": [True, False],
    "sign_in_links": [True, False],
    "registration_policy": [*RegistrationPolicy],
    "registration_domains": [[], ["acme.example"], ["acme.example", "globex.example"]],
    "invitation_domains": [[], ["acme.example"], ["acme.example", "globex.example"]],
    "agents": [*AgentRule],
    "afar_requests": [*AfarRule],
    "metadata_clients": [*MetadataClients],
    "registered_clients": [*RegisteredClients],
    "metadata_hosts": [[], ["claude.ai"], ["apps.example", "claude.ai"]],
}


def fields_of(card: Card) -> list[str]:
    return [one.name for one in card.shape.inputs]


def records_of(card: Card) -> Iterator[SignInRulesRecord]:
    """All sets of rules that differ in what this card is about. A demand has a beginning; a role is one of a demand on a role."""
    first: dict[str, Any] = {name: values[0] for name, values in VALUES.items()}
    for values in product(*(VALUES[name] for name in fields_of(card))):
        rules = {**first, **dict(zip(fields_of(card), values, strict=True))}
        if rules["all_factor_role"] is not None and rules["all_factor"] is not AllFactor.ROLE_PASSKEY:
            continue
        if rules["registration_policy"] is RegistrationPolicy.DOMAINS and not rules["registration_domains"]:
            continue
        yield SignInRulesRecord(
            **rules,
            mfa_required_since=None if rules["mfa_policy"] is MfaPolicy.OPTIONAL else _AT,
            admin_required_since=None if rules["admin_factor"] is AdminFactor.OPTIONAL else _AT,
            all_required_since=None if rules["all_factor"] is AllFactor.OPTIONAL else _AT,
        )


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_rules_that_differ_read_differently(card: Card, language: Language) -> None:
    text = shipped_pages().text(language)
    said: dict[tuple[str, ...], SignInRulesRecord] = {}
    for rules in records_of(card):
        sentences = tuple(map(str, card.said(text, rules, IN_FORCE)))
        assert sentences not in said, (sentences, rules, said[sentences])
        said[sentences] = rules
        assert len(sentences) == len(set(sentences)), sentences
        for one in sentences:
            assert one.endswith("."), one
            assert "None" not in one, one
            assert "{" not in one, one
    names = fields_of(card)
    assert {name: {repr(getattr(one, name)) for one in said.values()} for name in names} == {
        name: {repr(value) for value in VALUES[name]} for name in names
    }


def test_demands_on_several_do_not_contradict_each_other() -> None:
    """A second step is optional for nobody whom another demand reaches."""
    text = shipped_pages().text(Language.ENGLISH)
    (card,) = (one for one in CARDS if one.name == "second-step")
    for rules in records_of(card):
        said = " ".join(map(str, card.said(text, rules, IN_FORCE)))
        reaches_all = rules.mfa_policy is MfaPolicy.REQUIRED or rules.all_factor is AllFactor.PASSKEY
        reaches_some = rules.admin_factor is not AdminFactor.OPTIONAL or rules.all_factor_role is not None
        assert ("optional" in said) is not reaches_all, said
        assert ("MFA is optional." in said) is not (reaches_all or reaches_some), said
        assert ("If you require MFA" in said) is ("MFA is optional." in said), said
        assert ("All members must" in said) is reaches_all, said
        assert ("dministrators" in said) is (rules.admin_factor is not AdminFactor.OPTIONAL), said


def test_each_field_of_the_record_is_in_exactly_one_form() -> None:
    asked = [name for card in CARDS for name in fields_of(card)]
    assert sorted(asked) == sorted(one.name for one in msgspec.structs.fields(SignInRulesPatch))
    assert sorted(asked) == sorted(VALUES)
    assert max(len(fields_of(card)) for card in CARDS) <= MOST_IN_SIGHT


async def test_each_form_has_its_own_fields_in_sight(console: ConsoleScene) -> None:
    for card in CARDS:
        tab = await console.at(f"/sign-in/change/{card.name}")
        (form,) = (one for one in tab.page.forms if one.action == f"{PAGE}/change/{card.name}")
        assert tab.answer is not None
        html = tab.answer.body.decode()
        assert [name for name in fields_of(card) if f'name="{name}"' not in html] == []
        assert set(form.fields) <= {"form_token", "was", *fields_of(card)}
        assert PAGE in tab.page.links


async def test_former_addresses_of_the_form_lead_to_the_cards(console: ConsoleScene) -> None:
    for former in ("/sign-in/change", "/sign-in/change/undo"):
        assert (await console.at(former)).place == PAGE


async def test_the_notice_says_which_card_was_saved(console: ConsoleScene) -> None:
    for at, sent, said in (
        ("sessions", {"session_lifetime_hours": "8"}, "Session rules updated."),
        ("passwords", {"shortest_password": "14"}, "Password and passkey rules updated."),
        ("registration", {"registration_policy": "invitation"}, "Registration rules updated."),
        ("programs", {"agents": "forbidden"}, "Rules for agents and clients updated."),
    ):
        await console.at(f"/sign-in/change/{at}")
        await console.submit(f"/sign-in/change/{at}", **sent)
        tab = await console.submit(f"/sign-in/change/{at}")
        assert tab.place.startswith(f"{PAGE}?done=")
        assert said in tab.page.text
    tab = await console.at("/sign-in")
    for now in (
        "Session lifetime: 8 hours.",
        "Minimum password length: 14 characters.",
        "Only invited people can register.",
        "AI agents are blocked from your APIs.",
    ):
        assert now in tab.page.text


async def _before_the_answer(tab: Tab, card: str, **fields: str) -> partial[Any]:
    """The person has seen what the change would do."""
    at = f"{PAGE}/change/{card}"
    await tab.open(at)
    await tab.send(_number(tab, at), **fields)
    return partial(tab.send, _number(tab, at))


def _number(tab: Tab, at: str) -> int:
    return next(number for number, one in enumerate(tab.page.forms) if one.action == at)


def _rules(console: ConsoleScene) -> dict[str, Any]:
    columns = "session_hours, most_sessions, shortest_password, passkey_offers"
    (row,) = console.people.rows(f"select {columns} from organizations where slug = 'acme'")
    return row


async def test_two_people_change_two_cards_at_once(console: ConsoleScene) -> None:
    other = console.colleague("admin")
    sessions = await _before_the_answer(console.tab, "sessions", session_lifetime_hours="8")
    passwords = await _before_the_answer(other, "passwords", shortest_password="14", passkey_offers="")
    await all_at_once(sessions, passwords)
    assert (console.tab.status, other.status) == (200, 200)
    assert (console.tab.place, other.place) == (f"{PAGE}?done=console.rules_change.sessions", f"{PAGE}?done=console.rules_change.passwords")
    assert _rules(console) == {"session_hours": 8, "most_sessions": None, "shortest_password": 14, "passkey_offers": False}
    # Each card goes back by itself, although the other was changed since.
    await console.at("/sign-in")
    await console.submit("/sign-in/change/sessions/undo")
    assert _rules(console) == {"session_hours": None, "most_sessions": None, "shortest_password": 14, "passkey_offers": False}
    await console.submit("/sign-in/change/passwords/undo")
    assert _rules(console) == {"session_hours": None, "most_sessions": None, "shortest_password": None, "passkey_offers": True}


async def test_the_second_of_two_who_change_one_card_is_told(console: ConsoleScene) -> None:
    other = console.colleague("admin")
    first = await _before_the_answer(console.tab, "sessions", session_lifetime_hours="8")
    second = await _before_the_answer(other, "sessions", session_lifetime_hours="12")
    await first()
    tab = await second()
    assert tab.status == 409
    assert "Someone else changed these values" in tab.page.text
    assert _rules(console)["session_hours"] == 8
