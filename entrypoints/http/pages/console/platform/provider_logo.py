"""The logo of a further provider: uploaded from a file, shown, and removed."""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import Refusal
from core.domain.identity.profiles import LARGEST_PICTURE, MOST_PIXELS, PICTURE_TYPES
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.platform.platform_tabs import PROVIDERS, PROVIDERS_ENTRY, PROVIDERS_TAB, position
from entrypoints.http.pages.console.sent_forms import explained
from entrypoints.http.pages.console.visit import NO_ERRORS, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.routes.platform.further_providers import (
    FurtherProviderPath,
    get_further_provider,
    remove_further_logo,
    upload_further_logo,
)

_ONE: Final = f"{PROVIDERS}/{{key}}"
LOGO: Final = f"{_ONE}/logo"
_NO_LOGO: Final = f"{LOGO}/remove"
_UPLOADED: Final = button("console.provider_logo.upload")
_REMOVED: Final = button("console.provider_logo.remove")


class ProviderLogoForm(BoundForm, frozen=True, kw_only=True):
    logo: bytes = b""


@console.get(LOGO, of=upload_further_logo, also=(get_further_provider,))
async def show_provider_logo(call: Call[None, DoneLink, FurtherProviderPath], postern: Postern) -> Page:
    """See the logo of a further provider"""
    return Answer(await _page(PageVisit(call, postern), done=call.query.done), 200)


@console.post(LOGO, of=upload_further_logo, also=(get_further_provider,), accepts=FormWithFile(2 * LARGEST_PICTURE))
async def send_provider_logo(call: Call[ProviderLogoForm, None, FurtherProviderPath], postern: Postern) -> Page:
    """Upload the logo of a further provider"""
    visit = PageVisit(call, postern)
    try:
        # The bytes say what the picture is.
        await postern.platform.further_providers.put_logo(call.path.key, call.body.logo, call.actor)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _page(visit, errors={"logo": next(iter(said.values()))}), status)
    return redirect(f"{visit.here(LOGO)}?done={_UPLOADED}")


@console.post(_NO_LOGO, of=remove_further_logo)
async def send_provider_logo_removal(call: Call[BoundForm, None, FurtherProviderPath], postern: Postern) -> Page:
    """Remove the logo of a further provider"""
    visit = PageVisit(call, postern)
    await visit.ask(remove_further_logo)
    return redirect(f"{visit.here(LOGO)}?done={_REMOVED}")


async def _page(visit: PageVisit, *, errors: Mapping[str, str] = NO_ERRORS, done: str = "") -> bytes:
    provider = await visit.ask(get_further_provider)
    return visit.show(
        "platform/provider_logo.html",
        position(PROVIDERS_ENTRY, PROVIDERS_TAB),
        Head(
            title=visit.text("console.provider_logo.title"),
            crumbs=((visit.text("console.platform_providers.title"), PROVIDERS), (provider.name, visit.here(_ONE))),
            done=done,
            errors=errors,
        ),
        logo=provider.logo,
        name=provider.name,
        upload=visit.here(LOGO),
        remove=visit.here(_NO_LOGO) if provider.logo else "",
        picture_types=", ".join(PICTURE_TYPES),
        kib=LARGEST_PICTURE >> 10,
        pixels=MOST_PIXELS,
    )


PAGES: Final = (show_provider_logo, send_provider_logo, send_provider_logo_removal)
