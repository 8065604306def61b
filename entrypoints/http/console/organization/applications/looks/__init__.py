"""The logo of an application: as people see it beside its name, and a form for another one."""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import Refusal
from core.domain.tenancy.branding import LOGO_BOUNDS
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.organization import applications
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.routes.services.services import get_service, remove_service_logo, upload_service_logo

_NO_LOGO: Final = f"{applications.LOGO}/remove"
_UPLOADED: Final = button("console.application_logo.upload")
_REMOVED: Final = button("console.application_logo.remove")


class ApplicationLogoForm(BoundForm, frozen=True, kw_only=True):
    logo: bytes = b""


@console.get(applications.LOGO, of=upload_service_logo, also=(get_service,))
async def show_application_logo(call: Call[None, DoneLink, ServicePath, Member], postern: Postern) -> Page:
    """See the logo of an application"""
    return Answer(await _page(PageVisit(call, postern), done=call.query.done), 200)


@console.post(applications.LOGO, of=upload_service_logo, also=(get_service,), accepts=FormWithFile(2 * LOGO_BOUNDS.largest))
async def send_application_logo(call: Call[ApplicationLogoForm, None, ServicePath, Member], postern: Postern) -> Page:
    """Upload the logo of an application"""
    visit = PageVisit(call, postern)
    try:
        # The bytes say what the picture is.
        await postern.services.services.put_logo(call.caller, call.path.service_slug, call.body.logo, call.actor)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _page(visit, errors={"logo": next(iter(said.values()))}), status)
    return redirect(f"{visit.here(applications.LOGO)}?done={_UPLOADED}")


@console.post(_NO_LOGO, of=remove_service_logo)
async def send_application_logo_removal(call: Call[BoundForm, None, ServicePath, Member], postern: Postern) -> Page:
    """Remove the logo of an application"""
    visit = PageVisit(call, postern)
    await visit.ask(remove_service_logo)
    return redirect(f"{visit.here(applications.LOGO)}?done={_REMOVED}")


async def _page(visit: PageVisit, *, errors: Mapping[str, str] = NO_ERRORS, done: str = "") -> bytes:
    application = await visit.ask(get_service)
    return visit.show(
        "organization/applications/looks/application_logo.html",
        applications.SETTINGS_POSITION,
        Head(
            title=visit.text("console.application_logo.title"),
            crumbs=applications.above(visit),
            curl=visit.curl(get_service),
            done=done,
            errors=errors,
        ),
        logo=application.logo,
        name=application.name,
        upload=visit.here(applications.LOGO),
        remove=visit.here(_NO_LOGO) if application.logo else "",
        picture_types=", ".join(LOGO_BOUNDS.types),
        kib=LOGO_BOUNDS.largest >> 10,
        pixels=LOGO_BOUNDS.most_pixels,
    )


PAGES: Final = (show_application_logo, send_application_logo, send_application_logo_removal)
