"""`/ui/lock`: a person locks their own account, because somebody else may be in it."""

from core.domain.errors import BadRequest
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import BROWSER, HOME, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.account import LOCK, ask
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.mailed.lock_pages import locked_page


@page.get(LOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def ask_to_lock_own_account(call: Call, postern: Postern) -> bytes:
    """Ask before your account is locked"""
    text = shipped_pages().text(call.language)
    ends = [text(f"lock_own.ends.{one}") for one in ("sessions", "keys", "password")]
    return ask(
        call, postern, LOCK, LOCK, name="lock_own", button="lock_own.button", back=HOME, ends=ends, afterwards=text("lock_own.stays")
    )


@page.post(LOCK, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(BadRequest,))
async def send_lock_of_own_account(call: Call[BoundForm], postern: Postern) -> bytes:
    """Lock your account

    It needs no fresh proof: whoever finds a stranger in the account has no time for one, and the mailbox opens it again.
    """
    return locked_page(call, postern, await postern.identity.account_locks.lock_own(call.caller, call.actor))
