"""`/ui/answers`: a page after the sign-in that asks a person for fields of the installation, and of organizations. It asks for each field
once. A field that is required is asked for at every sign-in until there is an answer.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest, NotFound, Refusal
from core.domain.identity.flows import Flow, FlowOver
from core.domain.tenancy.profile_values import AskedFields
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.account.details import MANY_VALUES, Control, ValuesForm, controls, labels_of, mistakes, named, read
from entrypoints.http.pages.authorization.authorization_pages import LEAVING, advice, form_of
from entrypoints.http.pages.declaring import page
from entrypoints.http.pages.flows import ANSWERS, AnyCall, FlowLink, Page, even_twice, flow_of, go_on
from entrypoints.http.pages.refusals import in_words

_LATER: Final = "later"
_REFUSES: Final = (FlowOver, BadRequest, NotFound)


class AskingKeeper(Frozen):
    """What the page shows of one keeper. The name is empty for the installation."""

    name: str
    controls: Sequence[Control]


@page.get(ANSWERS, caller=BROWSER, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def show_asked_fields(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask a person for fields"""
    flow = await flow_of(call, postern, call.query.flow)
    asked = await postern.tenancy.profile_values.asked(call.caller.user, flow)
    if not asked:
        return await go_on(call, postern, _answered(flow), call.caller)
    return Answer(_page(call, postern, flow, asked), 200)


@page.post(ANSWERS, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, accepts=MANY_VALUES, advice=advice, refuses=_REFUSES)
async def answer_fields(call: Call[ValuesForm], postern: Postern) -> Page:
    """Give the answers, or none, and go on

    A form that is sent twice finds nothing left to ask, and goes on.
    """
    form, values = call.body, postern.tenancy.profile_values

    async def answered(flow: Flow) -> Page:
        asked = await values.asked(call.caller.user, flow)
        typed = form.typed
        if form.answer == _LATER:
            typed = {name: text for name, text in typed.items() if name in _required(asked)}
        wrong = dict(mistakes([(one.slug, field) for one in asked for field in one.fields], typed))
        given = {one.slug: {field.key: read(field, typed.get(named(one.slug, field), "")) for field in one.fields} for one in asked}
        if asked and not wrong:
            try:
                await values.answer(call.caller.user, flow, asked, given, call.actor)
            except BadRequest as refusal:
                wrong[""] = refusal
        if wrong:
            return Answer(_page(call, postern, flow, asked, typed=typed, wrong=wrong), 400)
        return await go_on(call, postern, _answered(flow), call.caller)

    return await even_twice(call, postern, form.flow, answered)


def _required(asked: Sequence[AskedFields]) -> frozenset[str]:
    return frozenset(named(one.slug, field) for one in asked for field in one.fields if field.required)


def _answered(flow: Flow) -> Flow:
    """Memberships were asked for before this page."""
    return replace(flow, owes_answers=False, asked_memberships=True)


def _page(
    call: AnyCall,
    postern: Postern,
    flow: Flow,
    asked: Sequence[AskedFields],
    *,
    typed: Mapping[str, str] = MappingProxyType({}),
    wrong: Mapping[str, Refusal] = MappingProxyType({}),
) -> bytes:
    words = shipped_pages().text(call.language)
    keepers = [
        AskingKeeper(one.name, controls(number, [(one.slug, field) for field in one.fields], typed, wrong, words))
        for number, one in enumerate(asked, 1)
    ]
    errors = {"": in_words(wrong[""], words)} if "" in wrong else {}
    return shipped_pages().page(
        "account/details/answers.html",
        call.language,
        brand=flow.branding,
        action=form_of(ANSWERS, flow),
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
        keepers=keepers,
        insists=any(one.insists for one in asked),
        labels=labels_of(control for one in keepers for control in one.controls),
        errors=errors | {control.id: control.error for one in keepers for control in one.controls if control.error},
    )
