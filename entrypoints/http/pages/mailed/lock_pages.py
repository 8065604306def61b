"""`/ui/lock-account`: the page behind "Was this not you?" in our mails. Opening the link changes nothing, since programs open links,
too. The form locks the account that the mail went to, without a sign-in: whoever broke in may have changed the password.
"""

from typing import Final

import msgspec

from core.domain.errors import BadRequest, RateLimited
from core.domain.identity.account_locks import AddressGivenUp, LockedAccount
from core.domain.identity.account_mails import LinkRefused
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, Advised, WayOn, page
from entrypoints.http.pages.flows import FORGOTTEN, AnyCall

LOCK_BY_MAIL: Final = "/ui/lock-account"


class LockByMail(msgspec.Struct, frozen=True):
    token: Token = Token("")


def _advice(refused: Refused) -> str | Advised:
    if isinstance(refused, AddressGivenUp):
        return "lock.moved"
    return Advised("lock.refused", WayOn(FORGOTTEN, "lock.choose")) if isinstance(refused, LinkRefused) else ""


@page.get(LOCK_BY_MAIL, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest,))
async def show_lock(call: Call[None, LockByMail], postern: Postern) -> bytes:
    """Ask whether to lock the account that a mail went to

    This looks up the link and leaves it usable, however often a program opens it.
    """
    email, is_locked = await postern.identity.account_locks.look_at_link(call.query.token)
    if is_locked:
        return shipped_pages().outcome("locked", call.language, good=True)
    return shipped_pages().page(
        "mailed/lock_account.html", call.language, action=LOCK_BY_MAIL, token=call.query.token.reveal(), email=email.address
    )


@page.post(
    LOCK_BY_MAIL,
    caller=ANYONE,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, RateLimited),
)
async def send_lock(call: Call[LockByMail], postern: Postern) -> bytes:
    """Lock the account that a mail went to

    The link works once. The same form, sent twice, says that the account is locked.
    """
    return locked_page(call, postern, await postern.identity.account_locks.lock_by_mail(call.body.token, call.actor))


def locked_page(call: AnyCall, postern: Postern, done: LockedAccount) -> bytes:
    """What ended. A repeated request finds the account locked, and only says so."""
    if not done.changed:
        return shipped_pages().outcome("locked", call.language, good=True)
    text = shipped_pages().text(call.language)
    counted = (("sessions", done.sessions), ("devices", done.devices), ("consents", done.consents))
    ended = [
        *([text("locked.password")] if done.had_password else []),
        *(text(f"locked.{name}", count=count) for name, count in counted if count),
        *([text("locked.keys", keys=text.listed(done.keys))] if done.keys else []),
    ]
    return shipped_pages().page("mailed/locked.html", call.language, ended=ended, recent=done.recent, now=postern.foundation.clock.now())
