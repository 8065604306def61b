"""Sign-in rules: five cards, each with what holds now in sentences, and a form of its own fields alone.

All cards are of one record: each form sends the endpoint a change with its own fields. So two people who change two cards do not meet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.effects import AskedChange, asking_form
from entrypoints.http.console.kit.forms import Asked, InputKind, Shape, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Resource
from entrypoints.http.console.kit.undo import Undoable
from entrypoints.http.console.kit.visit import AnyCall, Page, PageVisit, button
from entrypoints.http.console.organization import apis
from entrypoints.http.console.organization.organization_tabs import RULES_TAB, SECURITY_ENTRY, SIGN_IN, position
from entrypoints.http.console.organization.rules import sentences
from entrypoints.http.machinery.answers import redirect
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.routes.tenancy.sign_in_rules import SignInRulesRecord, change_of, change_sign_in_rules, get_sign_in_rules
from ports.texts import Text

_CHANGE: Final = f"{SIGN_IN}/change"
_POSITION: Final = position(SECURITY_ENTRY, RULES_TAB)


class Card(Frozen, kw_only=True):
    name: str
    """A part of the form's address and, with underscores, of the keys of its texts."""
    said: Callable[[Text, SignInRulesRecord, sentences.InForce], Iterator[str]]
    """The sentences about what holds now."""
    shape: Shape
    example: Mapping[str, Any]
    """The body of the command that the form shows."""

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")

    @property
    def at(self) -> str:
        """The template of the form's address."""
        return f"{_CHANGE}/{self.name}"

    @property
    def undoable(self) -> Undoable:
        return Undoable(
            name=self.name,
            page=SIGN_IN,
            at=self.at,
            shape=self.shape,
            find=lambda visit: visit.ask(get_sign_in_rules),
            position=_POSITION,
        )


def _in_force(visit: PageVisit) -> sentences.InForce:
    return sentences.in_force(visit.text, visit.postern.settings)


CARDS: Final = (
    Card(
        name="second-step",
        said=sentences.second_step,
        shape=shape(
            change_sign_in_rules,
            "mfa_policy",
            Asked("admin_factor", hint="console.rules.admin_hint"),
            Asked("all_factor", kind=InputKind.CARDS, hint="console.rules.all_hint"),
            Asked("all_factor_role", hint="console.rules.all_role_hint", under=("all_factor", "role_passkey")),
            Asked("mfa_grace_days", hint="console.rules.grace_hint"),
            Asked("device_trust_days", hint="console.rules.trust_hint"),
        ),
        example={"mfa_policy": "required"},
    ),
    Card(
        name="sessions",
        said=sentences.sessions,
        shape=shape(
            change_sign_in_rules,
            Asked("session_lifetime_hours", hint="console.rules.hours_hint", in_force=lambda visit: _in_force(visit).lifetime),
            Asked("session_idle_minutes", hint="console.rules.idle_hint", in_force=lambda visit: _in_force(visit).idle),
            Asked("most_sessions", hint="console.rules.most_hint", in_force=lambda visit: _in_force(visit).most),
        ),
        example={"session_lifetime_hours": 12},
    ),
    Card(
        name="passwords",
        said=sentences.passwords,
        shape=shape(
            change_sign_in_rules,
            Asked("shortest_password", hint="console.rules.shortest_hint", in_force=lambda visit: _in_force(visit).shortest),
            Asked("breached_at_sign_in", hint="console.rules.breached_hint", in_force=lambda visit: _in_force(visit).breached),
            Asked("passkey_offers", hint="console.rules.offers_hint"),
            "sign_in_links",
        ),
        example={"shortest_password": 12},
    ),
    Card(
        name="registration",
        said=sentences.registration,
        shape=shape(
            change_sign_in_rules,
            Asked("registration_policy", hint="console.rules.registration_hint"),
            Asked("registration_domains", hint="console.rules.registration_domains_hint"),
            Asked("invitation_domains", hint="console.rules.domains_hint"),
        ),
        example={"registration_policy": "invitation"},
    ),
    Card(
        name="programs",
        said=sentences.programs,
        shape=shape(
            change_sign_in_rules,
            Asked("agents", hint="console.rules.agents_hint"),
            Asked("afar_requests", hint="console.rules.afar_requests_hint"),
            apis.METADATA_CLIENTS,
            apis.REGISTERED_CLIENTS,
            apis.METADATA_HOSTS,
        ),
        example={"agents": "forbidden"},
    ),
)


async def _shown(visit: PageVisit, record: SignInRulesRecord) -> Mapping[str, Any]:
    may, in_force = visit.may(change_sign_in_rules), _in_force(visit)
    return {
        "cards": [
            (
                card.name,
                visit.text(f"console.rules_card.{card.key}"),
                [*card.said(visit.text, record, in_force)],
                visit.here(card.at) if may else "",
            )
            for card in CARDS
        ]
    }


RULES: Final = Resource(
    name="rules",
    position=_POSITION,
    at=SIGN_IN,
    is_single=True,
    listed=get_sign_in_rules,
    columns=(),
    undone=tuple(card.undoable for card in CARDS),
    template="organization/rules/rules.html",
    more=_shown,
)


async def _reach(visit: PageVisit, body: Any) -> Mapping[str, Any]:
    effects = await visit.postern.tenancy.sign_in_rules.effects(visit.call.caller, change_of(body))
    reach = effects.sessions
    counts = (
        *(effects.without_second_factor, effects.uninvitable, effects.administrators_without, effects.members_without),
        *(reach.outlasted_sessions, reach.people_beyond),
    )
    return {
        "effects": effects,
        "reaches": any(counts) or effects.due or effects.administrators_due or effects.members_due,
        "at_least": MOST_ROWS_COUNTED if MOST_ROWS_COUNTED in counts else 0,
    }


def _pages_of(card: Card) -> Sequence[Endpoint]:
    """The first answer to the form says whom the change would reach, and asks. The second form changes the rules."""
    title = f"console.rules_change.{card.key}"
    asked = AskedChange(
        undoable=card.undoable,
        change=change_sign_in_rules,
        example=card.example,
        title=title,
        question="console.rules.sure",
        effects=_reach,
        template="organization/rules/effects.html",
        crumbs=lambda visit: ((RULES.text(visit, "title"), visit.here(SIGN_IN)),),
        done=button(title),
    )

    async def ask(call: AnyCall, postern: Postern) -> Page:
        return await asked.ask(PageVisit(call, postern))

    async def send(call: AnyCall, postern: Postern) -> Page:
        return await asked.send(PageVisit(call, postern), call.body)

    console.asked_for(f"console.rules_card.{card.key}", SIGN_IN, change_sign_in_rules.caller, _POSITION)
    name = f"{card.key}_of_rules"
    return (
        console.get(card.at, of=change_sign_in_rules, also=(get_sign_in_rules,))(stated(ask, f"ask_for_{name}", card.at)),
        console.post(card.at, of=change_sign_in_rules, also=(get_sign_in_rules,))(
            stated(send, f"send_{name}", card.at, body=asking_form(card.shape))
        ),
    )


@console.get(_CHANGE, of=get_sign_in_rules)
async def leave_for_rules(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Leave for the page with the rules: one form had all of them before each card had its own"""
    return redirect(PageVisit(call, postern).here(SIGN_IN))


@console.get(f"{_CHANGE}/undo", of=get_sign_in_rules)
async def leave_for_changed_rules(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Leave for the page with the rules, which puts each card back"""
    return redirect(PageVisit(call, postern).here(SIGN_IN))


PAGES: Final = (*pages(RULES), *(page for card in CARDS for page in _pages_of(card)), leave_for_rules, leave_for_changed_rules)
