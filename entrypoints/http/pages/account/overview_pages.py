"""`/ui`: the account at a glance."""

from core.domain.errors import Unauthorized
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import BROWSER, HOME
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import show
from entrypoints.http.pages.declaring import WITH_FORM, page


@page.get(HOME, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def account_overview(call: Call, postern: Postern) -> bytes:
    """See your account at a glance"""
    summary = await postern.identity.account_summaries.of(call.caller.user)
    return show(call, postern, "overview.html", HOME, summary=summary, has_passkeys=postern.identity.passkeys.obstacle is None)
