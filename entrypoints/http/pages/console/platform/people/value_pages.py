"""What the installation keeps of a person by its fields. A platform owner writes the fields that administrators write."""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest, Refusal
from core.domain.tenancy.profile_fields import FieldWriter
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.pages.account import NO_ERRORS
from entrypoints.http.pages.account.details import MANY_VALUES, ValuesForm, controls, mistakes, named, read, shown
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.people import ONE, VALUES_TAB, above, load, position_of, user_of
from entrypoints.http.pages.console.visit import AnyCall, DoneLink, Head, Page, PageVisit
from entrypoints.http.pages.refusals import in_words
from entrypoints.http.routes.platform.platform_fields import change_platform_person_values, get_platform_person_values

_AT: Final = f"{ONE}/fields"


async def _show_values(call: AnyCall, postern: Postern) -> Page:
    return Answer(await _page(PageVisit(call, postern), {}, done=call.query.done), 200)


async def _save_values(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    typed = call.body.typed
    kept = await postern.tenancy.profile_values.of_installation(user_of(visit))
    asked = [("", field) for field in kept.written_by(FieldWriter.ADMINISTRATOR) if named("", field) in typed]
    wrong = dict(mistakes(asked, typed))
    if not wrong:
        given = {field.key: read(field, typed[named("", field)]) for _, field in asked}
        try:
            await postern.tenancy.profile_values.write_in_installation(user_of(visit), given, call.actor)
        except BadRequest as refusal:
            wrong[""] = refusal
    if wrong:
        return Answer(await _page(visit, typed, wrong), 400)
    return redirect(f"{visit.here(_AT)}?done=saved")


async def _page(visit: PageVisit, typed: Mapping[str, str], wrong: Mapping[str, Refusal] = NO_ERRORS, *, done: str = "") -> bytes:
    subject = await load(visit)
    kept = await visit.postern.tenancy.profile_values.of_installation(user_of(visit))
    own = [("", field) for field in kept.written_by(FieldWriter.ADMINISTRATOR)]
    texts = {named("", field): shown(kept.values.get(field.id)) for _, field in own}
    made = controls(1, own, {**texts, **{name: text for name, text in typed.items() if name in texts}}, wrong, visit.text)
    errors = {control.id: control.error for control in made if control.error}
    if "" in wrong:
        errors[""] = in_words(wrong[""], visit.text)
    return visit.show(
        "platform/people/values.html",
        position_of(VALUES_TAB),
        Head(title=subject.called, crumbs=above(visit), curl=visit.curl(get_platform_person_values), done=done, errors=errors),
        controls=made,
        others=[
            (field.label, shown(kept.values.get(field.id)).replace("\n", ", "))
            for field in kept.fields
            if not field.is_written_by(FieldWriter.ADMINISTRATOR)
        ],
        action=visit.here(_AT),
    )


PAGES: Final[tuple[Endpoint, ...]] = (
    console.get(_AT, of=get_platform_person_values)(stated(_show_values, "show_values_of_person", _AT, query=DoneLink)),
    console.post(_AT, of=change_platform_person_values, accepts=MANY_VALUES)(
        stated(_save_values, "save_values_of_person", _AT, body=ValuesForm)
    ),
)
