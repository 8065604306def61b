"""The sign-in rules of the organization, and whom a change of them would reach."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import Conflict, Refusal
from core.domain.pages import MOST_COUNTED
from core.domain.tenancy.members import Member
from core.domain.tenancy.sign_in_rules import RulesEffects
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.cells import listed, number, when, words, yes_or_no
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.forms import WAS, Asked, Input, shape
from entrypoints.http.pages.console.organization import metadata_clients
from entrypoints.http.pages.console.organization.organization_tabs import RULES_TAB, SIGN_IN, SIGN_IN_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.pages.console.sent_forms import (
    WrongInput,
    body_of,
    changed,
    drawn,
    explained,
    moved,
    said_back,
    sealed,
    sent_texts,
    texts_of,
)
from entrypoints.http.pages.console.undo.undo_pages import Undoable, changing, noted
from entrypoints.http.pages.console.visit import NO_ERRORS, Head, Page, PageVisit
from entrypoints.http.routes.tenancy.sign_in_rules import change_of, change_sign_in_rules, get_sign_in_rules

_CHANGE: Final = f"{SIGN_IN}/change"
_SHAPE: Final = shape(
    change_sign_in_rules,
    "mfa_policy",
    Asked("admin_factor", hint="console.rules.admin_hint"),
    Asked("mfa_grace_days", hint="console.rules.grace_hint"),
    Asked("device_trust_days", hint="console.rules.trust_hint"),
    Asked("session_lifetime_hours", hint="console.rules.hours_hint"),
    Asked("session_idle_minutes", hint="console.rules.idle_hint"),
    Asked("most_sessions", hint="console.rules.most_hint"),
    Asked("shortest_password", hint="console.rules.shortest_hint"),
    Asked("breached_at_sign_in", hint="console.rules.breached_hint"),
    Asked("registration_policy", hint="console.rules.registration_hint"),
    Asked("registration_domains", hint="console.rules.registration_domains_hint"),
    Asked("invitation_domains", hint="console.rules.domains_hint"),
    "sign_in_links",
    metadata_clients.CLIENTS,
    metadata_clients.REGISTERED,
    metadata_clients.HOSTS,
    Asked("agents", hint="console.rules.agents_hint"),
)

_POSITION: Final = position(SIGN_IN_ENTRY, RULES_TAB)
_UNDOABLE: Final = Undoable(
    name="rules",
    page=SIGN_IN,
    at=_CHANGE,
    shape=_SHAPE,
    find=lambda visit: visit.ask(get_sign_in_rules),
    position=_POSITION,
)

RULES: Final = Resource(
    name="rules",
    position=_POSITION,
    at=SIGN_IN,
    is_single=True,
    listed=get_sign_in_rules,
    columns=(
        words("mfa_policy"),
        when("mfa_required_since"),
        words("admin_factor"),
        when("admin_required_since"),
        number("mfa_grace_days"),
        number("device_trust_days"),
        number("session_lifetime_hours"),
        number("session_idle_minutes"),
        number("most_sessions"),
        number("shortest_password"),
        words("breached_at_sign_in"),
        words("registration_policy"),
        listed("registration_domains"),
        listed("invitation_domains"),
        yes_or_no("sign_in_links"),
        *metadata_clients.SHOWN,
        words("agents"),
    ),
    below=(("console.rules.change", _CHANGE, change_sign_in_rules),),
    undone=(_UNDOABLE,),
)

_RulesForm: Any = msgspec.defstruct("SignInRulesForm", [("sure", str, "")], bases=(_SHAPE.form,), frozen=True, kw_only=True)


@console.get(_CHANGE, of=change_sign_in_rules, also=(get_sign_in_rules,))
async def ask_for_sign_in_rules(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Ask for the sign-in rules of an organization"""
    visit = PageVisit(call, postern)
    texts = texts_of(_SHAPE.inputs, await visit.ask(get_sign_in_rules))
    return Answer(await _form(visit, texts, texts), 200)


@console.post(_CHANGE, of=change_sign_in_rules, also=(get_sign_in_rules,))
async def send_sign_in_rules(call: Call[_RulesForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Change the sign-in rules of an organization

    The first answer says whom the change would reach, and asks. The second form changes the rules.
    """
    visit, form = PageVisit(call, postern), call.body
    own, onward = changed(_SHAPE.inputs, form), visit.here(SIGN_IN)
    if not own:
        return redirect(f"{onward}?done=unchanged")
    record = await visit.ask(get_sign_in_rules)
    present, texts = texts_of(_SHAPE.inputs, record), sent_texts(_SHAPE.inputs, form)
    if others := moved(_SHAPE.inputs, form, record):
        meanwhile = [(visit.text(one.label), said_back(visit, one, present[one.field])) for one in others]
        return Answer(await _form(visit, texts, present, meanwhile=meanwhile), status_of(Conflict()))
    try:
        body = body_of(_SHAPE, form, only=own)
        if form.sure != "yes":
            effects = await postern.tenancy.sign_in_rules.effects(call.caller, change_of(body))
            return Answer(_question(visit, own, present, texts, effects), 200)
        async with changing(visit, noted(_UNDOABLE, visit, own, record, form)):
            await visit.ask(change_sign_in_rules, body=body)
    except (WrongInput, Refusal) as problem:
        errors, status = explained(visit, problem, _SHAPE.inputs)
        return Answer(await _form(visit, texts, present, errors=errors), status)
    return redirect(f"{onward}?done=saved")


async def _form(
    visit: PageVisit,
    texts: Mapping[str, Any],
    present: Mapping[str, Any],
    *,
    errors: Mapping[str, str] = NO_ERRORS,
    meanwhile: Sequence[tuple[str, str]] = (),
) -> bytes:
    head = Head(
        title=visit.text("console.rules.change"),
        crumbs=((RULES.text(visit, "title"), visit.here(SIGN_IN)),),
        curl=visit.curl(change_sign_in_rules, body={"mfa_policy": "required"}),
        errors=errors,
    )
    return visit.show(
        "organization/settings/rules_form.html",
        RULES.position,
        head,
        inputs=await drawn(visit, _SHAPE.inputs, texts),
        hidden={WAS: sealed(present)},
        meanwhile=meanwhile,
        action=visit.here(_CHANGE),
        back=visit.here(SIGN_IN),
    )


def _question(visit: PageVisit, own: Sequence[Input], present: Mapping[str, Any], texts: Mapping[str, Any], effects: RulesEffects) -> bytes:
    reach = effects.sessions
    counts = (
        *(effects.without_second_factor, effects.uninvitable, effects.administrators_without),
        *(reach.outlasted_sessions, reach.people_beyond),
    )
    return visit.show(
        "organization/settings/rules_effects.html",
        RULES.position,
        Head(
            title=visit.text("console.rules.sure"),
            crumbs=((RULES.text(visit, "title"), visit.here(SIGN_IN)), (visit.text("console.rules.change"), visit.here(_CHANGE))),
        ),
        changes=[
            (visit.text(one.label), said_back(visit, one, present[one.field]), said_back(visit, one, texts[one.field])) for one in own
        ],
        effects=effects,
        any=any(counts),
        at_least=MOST_COUNTED if MOST_COUNTED in counts else 0,
        hidden={WAS: sealed(present), **texts},
        action=visit.here(_CHANGE),
        back=visit.here(SIGN_IN),
    )


PAGES: Final = (*pages(RULES), ask_for_sign_in_rules, send_sign_in_rules)
