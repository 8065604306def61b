"""`/ui/first-steps`: what a platform owner does first in a new installation. The link that the first start prints ends here, as the first
sign-in does.
"""

from core.domain.errors import NotFound
from entrypoints.bootstrap import Postern
from entrypoints.first_start import FIRST_STEPS
from entrypoints.http.machinery.browsers import BROWSER, HOME
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import show
from entrypoints.http.pages.account.first_steps import NEW_ORGANIZATION, steps
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.development.mail_pages import mail_list


@page.get(FIRST_STEPS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_first_steps(call: Call, postern: Postern) -> bytes:
    """See what to set up first, as a platform owner"""
    if not call.caller.is_platform_owner:
        # Nobody else can do any of this.
        raise NotFound
    summary, places = await postern.identity.account_summaries.start(call.caller.user)
    done = await postern.platform.installation.first_steps()
    console = f"/ui/o/{places.organizations[0].slug}" if places.organizations else ""
    found = steps(summary, done, postern.settings, console)
    return show(
        call,
        postern,
        "first_steps.html",
        HOME,
        steps=[(one, f"first_steps.{one.name}") for one in found],
        left=sum(not one.done for one in found),
        founding=NEW_ORGANIZATION,
        embedded=postern.settings.embedded,
        mail=mail_list(call.request, postern.settings),
    )
