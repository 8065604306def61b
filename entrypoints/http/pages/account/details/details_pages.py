"""`/ui/details`: all that the installation and organizations keep of the person by fields. The person changes what they may write."""

from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.errors import BadRequest, NotFound, Refusal
from core.domain.tenancy.profile_fields import FieldWriter
from core.domain.tenancy.profile_values import KeptBy
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.account import DETAILS, NO_ERRORS, AnyCall, Done, Page, back_to, show
from entrypoints.http.pages.account.details import (
    MANY_VALUES,
    NO,
    YES,
    Control,
    ValuesForm,
    controls,
    labels_of,
    mistakes,
    named,
    read,
    shown,
)
from entrypoints.http.pages.declaring import WITH_FORM, page

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
    return _page(call, postern, kept, {}, done=_DONE.get(call.query.done, ""))


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
            return Answer(_page(call, postern, kept, typed, wrong), 400)
    return back_to(DETAILS, "kept")


def _page(
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
