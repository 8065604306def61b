"""The sign-in rules of the organization, and whom a change of them would reach."""

from collections.abc import Mapping
from typing import Any, Final

from core.domain.identity.passwords import BreachRule
from core.domain.identity.registering import RegistrationPolicy
from core.domain.requests import MOST_ROWS_COUNTED
from core.domain.tenancy.members import Member
from core.domain.tenancy.sign_in_rules import AdminFactor, AfarRule, AgentRule, AllFactor, MfaPolicy
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.pages.console.cells import listed, number, plain, when, words, yes_or_no
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.effects.asked_changes import AskedChange, asking_form
from entrypoints.http.pages.console.forms import Asked, shape
from entrypoints.http.pages.console.organization import metadata_clients
from entrypoints.http.pages.console.organization.organization_tabs import RULES_TAB, SIGN_IN, SIGN_IN_ENTRY, position
from entrypoints.http.pages.console.resource_pages import pages
from entrypoints.http.pages.console.resources import Resource
from entrypoints.http.pages.console.undo.undo_pages import Undoable
from entrypoints.http.pages.console.visit import Page, PageVisit
from entrypoints.http.routes.tenancy.sign_in_rules import change_of, change_sign_in_rules, get_sign_in_rules

_CHANGE: Final = f"{SIGN_IN}/change"
_SHAPE: Final = shape(
    change_sign_in_rules,
    "mfa_policy",
    Asked("admin_factor", hint="console.rules.admin_hint"),
    Asked("all_factor", hint="console.rules.all_hint"),
    Asked("all_factor_role", hint="console.rules.all_role_hint", under=("all_factor", "role_passkey")),
    Asked("mfa_grace_days", hint="console.rules.grace_hint"),
    Asked("device_trust_days", hint="console.rules.trust_hint"),
    Asked("session_lifetime_hours", hint="console.rules.hours_hint"),
    Asked("session_idle_minutes", hint="console.rules.idle_hint"),
    Asked("most_sessions", hint="console.rules.most_hint"),
    Asked("passkey_offers", hint="console.rules.offers_hint"),
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
    Asked("afar_requests", hint="console.rules.afar_requests_hint"),
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
        words("mfa_policy", MfaPolicy),
        when("mfa_required_since"),
        words("admin_factor", AdminFactor),
        when("admin_required_since"),
        words("all_factor", AllFactor),
        plain("all_factor_role"),
        when("all_required_since"),
        yes_or_no("passkey_offers"),
        number("mfa_grace_days"),
        number("device_trust_days"),
        number("session_lifetime_hours"),
        number("session_idle_minutes"),
        number("most_sessions"),
        number("shortest_password"),
        words("breached_at_sign_in", BreachRule),
        words("registration_policy", RegistrationPolicy),
        listed("registration_domains"),
        listed("invitation_domains"),
        yes_or_no("sign_in_links"),
        *metadata_clients.SHOWN,
        words("agents", AgentRule),
        words("afar_requests", AfarRule),
    ),
    below=(("console.rules.change", _CHANGE, change_sign_in_rules),),
    undone=(_UNDOABLE,),
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


_ASKED: Final = AskedChange(
    undoable=_UNDOABLE,
    change=change_sign_in_rules,
    example={"mfa_policy": "required"},
    title="console.rules.change",
    question="console.rules.sure",
    effects=_reach,
    template="organization/settings/rules_effects.html",
    crumbs=lambda visit: ((RULES.text(visit, "title"), visit.here(SIGN_IN)),),
)
_RulesForm: Any = asking_form(_SHAPE)


@console.get(_CHANGE, of=change_sign_in_rules, also=(get_sign_in_rules,))
async def ask_for_sign_in_rules(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Ask for the sign-in rules of an organization"""
    return await _ASKED.ask(PageVisit(call, postern))


@console.post(_CHANGE, of=change_sign_in_rules, also=(get_sign_in_rules,))
async def send_sign_in_rules(call: Call[_RulesForm, None, OrganizationPath, Member], postern: Postern) -> Page:
    """Change the sign-in rules of an organization

    The first answer says whom the change would reach, and asks. The second form changes the rules.
    """
    return await _ASKED.send(PageVisit(call, postern), call.body)


PAGES: Final = (*pages(RULES), ask_for_sign_in_rules, send_sign_in_rules)
