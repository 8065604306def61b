"""`/ui`: where a person goes on, and the account at a glance."""

from typing import Final

from core.domain.errors import Unauthorized
from entrypoints.bootstrap import Postern
from entrypoints.first_start import FIRST_STEPS
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER_OR_ACTING, HOME
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import Page, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_PLATFORM: Final = "/ui/platform"


@page.get(HOME, caller=BROWSER_OR_ACTING, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def account_overview(call: Call, postern: Postern) -> Page:
    """See your applications, the organizations that you look after, and your account at a glance"""
    caller = call.caller
    summary, places = await postern.identity.account_summaries.start(caller.user, caller.session)
    governs = caller.is_platform_owner and caller.impersonator is None
    if governs and not summary.organizations and not (await postern.platform.installation.first_steps()).organization:
        # Nothing can happen here yet, so the first sign-in leads to what is to be done.
        return redirect(FIRST_STEPS)
    page = show(
        call,
        postern,
        "overview.html",
        HOME,
        summary=summary,
        places=places,
        platform=_PLATFORM if governs else "",
        unproved=not caller.email_is_verified,
        has_passkeys=postern.identity.passkeys.obstacle is None,
    )
    return Answer(page, 200)
