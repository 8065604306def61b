"""`/ui/confirm-address`: people whose address nobody has proved ask for the mail that proves it. Mostly they came through the directory of
an organization, which only vouches for the address.
"""

from typing import Final

from core.domain.errors import Unauthorized
from core.domain.identity.account_mails import AccountMail
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import BROWSER, HOME, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS
from entrypoints.http.pages.account import Done, Page, show
from entrypoints.http.pages.declaring import WITH_FORM, page

CONFIRM_ADDRESS: Final = "/ui/confirm-address"


@page.get(CONFIRM_ADDRESS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
def show_address_confirmation(call: Call[None, Done], postern: Postern) -> Page:
    """See whether your address is confirmed, and ask for the mail that confirms it"""
    if call.caller.email_is_verified:
        return redirect(HOME)
    sent = "confirm_address.sent" if call.query.done == "sent" else ""
    return Answer(show(call, postern, "confirm_address.html", HOME, action=CONFIRM_ADDRESS, done=sent), 200)


@page.post(CONFIRM_ADDRESS, caller=BROWSER, limit=AUTH, policy=WITH_FORM, refuses=(Unauthorized,))
async def send_address_confirmation(call: Call[BoundForm], postern: Postern) -> Answer[NoBody]:
    """Ask for the mail that confirms your address"""
    await postern.identity.accounts.ask_for_mail(AccountMail.VERIFICATION, call.caller.email, "", call.language)
    return redirect(f"{CONFIRM_ADDRESS}?done=sent")
