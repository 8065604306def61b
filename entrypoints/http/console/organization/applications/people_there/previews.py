"""What would be sent of a person, on a page."""

from typing import Any, Final
from uuid import UUID

import msgspec

from core.domain.errors import NotFound
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit
from entrypoints.http.console.organization import applications
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import Line
from entrypoints.http.routes.federation.provisioning import get_provisioning, preview_provisioning
from entrypoints.http.routes.tenancy.members import list_members

PREVIEW: Final = f"{applications.PEOPLE_THERE}/preview"
# `person` is an address or an id.
PersonQuery: Final[Any] = msgspec.defstruct("PersonQuery", [("person", Line, "")], frozen=True)


async def _user(visit: PageVisit, person: str) -> UUID:
    """Raises `NotFound`."""
    try:
        return UUID(person)
    except ValueError:
        pass
    if visit.may(list_members):
        for one in (await visit.ask(list_members, query={"search": person})).members:
            if one.user.email.lower() == person.lower():
                found: UUID = one.user.id
                return found
    raise NotFound("The organization has no such member")


async def _show_preview(call: AnyCall, postern: Postern) -> Page:
    """Show what would be sent of a person, and why something would not."""
    visit, person = PageVisit(call, postern), call.query.person.strip()
    preview, errors, status = None, NO_ERRORS, 200
    found = await visit.ask(get_provisioning)
    if person and found.state:
        try:
            preview = await visit.ask(preview_provisioning, user_id=await _user(visit, person))
        except NotFound as problem:
            errors, status = {"person": visit.text("console.preview_there.nobody")}, status_of(problem)
    head = Head(
        title=visit.text("console.preview_there.title"),
        crumbs=(*applications.above(visit), (visit.text("console.people_there.title"), visit.here(applications.PEOPLE_THERE))),
        curl=visit.curl(get_provisioning),
        errors=errors,
    )
    page = visit.show(
        "organization/applications/people_there/preview.html",
        applications.ACCESS_POSITION,
        head,
        at=visit.here(PREVIEW),
        asked=person,
        preview=preview,
        why_not=visit.text(f"console.persons_there.why.{preview.why_not.value}") if preview is not None and preview.why_not else "",
    )
    return Answer(page, status)


show_preview: Final = console.get(PREVIEW, of=preview_provisioning.caller, also=(preview_provisioning, get_provisioning, list_members))(
    stated(_show_preview, "show_preview_there", PREVIEW, query=PersonQuery)
)
