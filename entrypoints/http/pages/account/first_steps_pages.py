"""`/ui/first-steps`: what the first platform owner does next. The link that the first start prints ends here."""

from core.domain.errors import NotFound
from entrypoints.bootstrap import Postern
from entrypoints.first_start import FIRST_STEPS
from entrypoints.http.machinery.browsers import BROWSER, HOME
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import show
from entrypoints.http.pages.declaring import WITH_FORM, page


@page.get(FIRST_STEPS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
def show_first_steps(call: Call, postern: Postern) -> bytes:
    """See what to set up first, as a platform owner"""
    if not call.caller.is_platform_owner:
        # Nobody else can do any of this.
        raise NotFound
    return show(call, postern, "first_steps.html", HOME)
