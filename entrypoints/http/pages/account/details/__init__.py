"""Fields on pages: the forms in which people see and write what the installation and organizations keep of them.

Every control of such a form sends one `fields`, the keeper's slug and the field's key, and one `values`, in the same order.

`/ui/answers`: a page after the sign-in that asks a person for fields of the installation, and of organizations. It asks for each field
once. A field that is required is asked for at every sign-in until there is an answer.

`/ui/details`: all that the installation and organizations keep of the person by fields. The person changes what they may write.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, NotFound, Refusal
from core.domain.formats import Json
from core.domain.identity.flows import Flow, FlowOver
from core.domain.tenancy.profile_fields import MOST_FIELDS, FieldKind, FieldValue, FieldWriter, ProfileField, checked_value, is_empty
from core.domain.tenancy.profile_values import AskedFields, KeptBy
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line, Lines
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.account import DETAILS, NO_ERRORS, Done, back_to, show
from entrypoints.http.pages.authorization.authorization_pages import LEAVING, advice, form_of
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import WITH_FORM, in_words, page
from entrypoints.http.pages.kit.flows import ANSWERS, AnyCall, FlowLink, Page, even_twice, flow_of, go_on
from ports.texts import Text

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,16}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,16}[.,][0-9]{1,16}")
MOST_SHOWN: Final = 2 * MOST_FIELDS
MANY_VALUES: Final = Form(limit=128 << 10, most_fields=2 * MOST_SHOWN + 10)
"""A form with the usual fields, and a pair for each of the fields of two keepers."""
YES: Final = "yes"
NO: Final = "no"


class ValuesForm(BoundForm, frozen=True, kw_only=True):
    flow: Line = ""
    fields: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_SHOWN)] = ()
    values: Annotated[Sequence[Lines], msgspec.Meta(max_length=MOST_SHOWN)] = ()
    answer: Line = ""

    @property
    def typed(self) -> Mapping[str, str]:
        """The typed texts, by the names of `Control`."""
        return dict(zip(self.fields, self.values, strict=False))


class Control(Frozen, kw_only=True):
    """One field on a page."""

    name: str
    """The keeper's slug, which is empty for the installation, and the field's key."""
    id: str
    """Names the control on its page."""
    field: ProfileField
    text: str
    """What the control shows."""
    error: str = ""


def named(slug: str, field: ProfileField) -> str:
    return f"{slug}/{field.key}"


def shown(value: FieldValue | None) -> str:
    """The value as the control of the field has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return YES if value else NO
    return "\n".join(value) if isinstance(value, tuple) else str(value)


def read(field: ProfileField, text: str) -> Json:
    """The value that a person typed. The domain checks it, and refuses what could not be read."""
    typed = text.strip()
    match field.kind:
        case FieldKind.LIST:
            return [line.strip() for line in text.splitlines() if line.strip()]
        case FieldKind.BOOLEAN if typed in {YES, NO}:
            return typed == YES
        case FieldKind.NUMBER if _INTEGER.fullmatch(typed):
            return int(typed)
        case FieldKind.NUMBER if _DECIMAL.fullmatch(typed):
            return float(typed.replace(",", "."))
        case _:
            return typed


def mistakes(asked: Sequence[tuple[str, ProfileField]], typed: Mapping[str, str]) -> Mapping[str, Refusal]:
    """The refusal of each wrong or missing value, by the control's name."""
    found: dict[str, Refusal] = {}
    for slug, field in asked:
        name = named(slug, field)
        value = read(field, typed.get(name, ""))
        if is_empty(field, value):
            if field.required:
                found[name] = BadRequest(f"{field.key}: this field is required", words="field_required")
            continue
        try:
            checked_value(field, value)
        except BadRequest as refusal:
            found[name] = refusal
    return found


def controls(
    keeper: int, asked: Sequence[tuple[str, ProfileField]], texts: Mapping[str, str], wrong: Mapping[str, Refusal], words: Text
) -> Sequence[Control]:
    """The controls of the page's keeper with this number. `texts` and `wrong` are by the names of the controls."""
    return [
        Control(
            name=(name := named(slug, field)),
            id=f"field-{keeper}-{number}",
            field=field,
            text=texts.get(name, ""),
            error=in_words(wrong[name], words) if name in wrong else "",
        )
        for number, (slug, field) in enumerate(asked, 1)
    ]


def labels_of(made: Iterable[Control]) -> Mapping[str, str]:
    """The labels of controls, by their ids: the refusals of two numbers read the same."""
    return {control.id: control.field.label for control in made}


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


_DONE: Final = {"kept": "details.done_kept"}


class KeeperOnPage(Frozen, kw_only=True):
    """What the page shows of one keeper. `others` are the labels and values that the person cannot write."""

    name: str
    controls: Sequence[Control]
    others: Sequence[tuple[str, str]]


@page.get(DETAILS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_details(call: Call[None, Done], postern: Postern) -> bytes:
    """See what the installation and organizations keep of you"""
    kept = await postern.tenancy.profile_values.of_person(call.caller)
    return _page_details_page(call, postern, kept, {}, done=_DONE.get(call.query.done, ""))


@page.post(DETAILS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, accepts=MANY_VALUES, refuses=(BadRequest, NotFound))
async def save_details(call: Call[ValuesForm], postern: Postern) -> Page:
    """Change what you may write of it

    A form is about one keeper.
    """
    typed, values = call.body.typed, postern.tenancy.profile_values
    kept = await values.of_person(call.caller)
    slugs = {name.partition("/")[0] for name in typed}
    for one in kept:
        if one.slug not in slugs:
            continue
        asked = [(one.slug, field) for field in one.kept.written_by(FieldWriter.PERSON) if named(one.slug, field) in typed]
        wrong = dict(mistakes(asked, typed))
        if not wrong:
            given = {field.key: read(field, typed[named(one.slug, field)]) for _, field in asked}
            try:
                await values.write_own(call.caller, one.slug or None, given, call.actor)
            except BadRequest as refusal:
                wrong[""] = refusal
        if wrong:
            return Answer(_page_details_page(call, postern, kept, typed, wrong), 400)
    return back_to(DETAILS, "kept")


def _page_details_page(
    call: AnyCall,
    postern: Postern,
    kept: Sequence[KeptBy],
    typed: Mapping[str, str],
    wrong: Mapping[str, Refusal] = NO_ERRORS,
    *,
    done: str = "",
) -> bytes:
    words = shipped_pages().text(call.language)
    keepers: list[KeeperOnPage] = []
    errors = {"": wrong[""]} if "" in wrong else {}
    for number, one in enumerate(kept, 1):
        own = [(one.slug, field) for field in one.kept.written_by(FieldWriter.PERSON)]
        texts = {named(one.slug, field): shown(one.kept.values.get(field.id)) for _, field in own}
        made = controls(number, own, {**texts, **{name: text for name, text in typed.items() if name in texts}}, wrong, words)
        errors |= {control.id: wrong[control.name] for control in made if control.name in wrong}
        told = {YES: words("details.yes"), NO: words("details.no")}
        others = [
            (field.label, told.get(text, text) if isinstance(value, bool) else text.replace("\n", ", "))
            for field in one.kept.fields
            if not field.is_written_by(FieldWriter.PERSON)
            for value in (one.kept.values.get(field.id),)
            for text in (shown(value),)
        ]
        keepers.append(KeeperOnPage(name=one.name, controls=made, others=others))
    return show(
        call,
        postern,
        "details/details.html",
        DETAILS,
        action=DETAILS,
        keepers=keepers,
        errors=errors,
        labels=labels_of(control for one in keepers for control in one.controls),
        done=done,
    )
