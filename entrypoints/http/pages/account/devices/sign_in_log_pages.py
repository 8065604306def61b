"""`/ui/sign-ins`: the attempts to sign in to the account, and their outcomes."""

from typing import Final
from uuid import UUID

import msgspec

from core.domain.federation.afar_requests import PROVIDER as AFAR_PROVIDER
from core.domain.federation.oauth.device_flow import PROVIDER as DEVICE_PROVIDER
from core.domain.federation.saml.sign_in import PROVIDER as SAML_PROVIDER
from core.domain.identifiers import LoginEventId
from core.domain.identity.login_events import OwnLogin
from core.domain.identity.passkeys import PASSKEY_PROVIDER
from core.domain.identity.sign_in import LINK_PROVIDER, PASSWORD_PROVIDER, SESSION_PROVIDER
from core.domain.identity.upstream.providers import NAMES, OWN_PROVIDER
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import BROWSER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import ON_A_PAGE, SIGN_INS, show
from entrypoints.http.pages.declaring import WITH_FORM, page

NAMED: Final = {
    PASSWORD_PROVIDER: "sign_ins.by_password",
    LINK_PROVIDER: "sign_ins.by_link",
    PASSKEY_PROVIDER: "sign_ins.by_passkey",
    OWN_PROVIDER: "sign_ins.by_provider",
    DEVICE_PROVIDER: "sign_ins.by_device",
    AFAR_PROVIDER: "sign_ins.by_afar",
    SAML_PROVIDER: "sign_ins.by_saml",
    SESSION_PROVIDER: "sign_ins.by_session",
}


class Older(msgspec.Struct, frozen=True):
    before: UUID | None = None


@page.get(SIGN_INS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
async def show_sign_ins(call: Call[None, Older], postern: Postern) -> bytes:
    """List the attempts to sign in to your account, newest first"""
    before = None if call.query.before is None else LoginEventId(call.query.before)
    # The page asks for one entry more than it shows. If it gets that entry, there are older ones.
    found = await postern.identity.login_events.list_own(call.caller.user, before, ON_A_PAGE + 1)
    logins = found[:ON_A_PAGE]
    older = f"{SIGN_INS}?before={logins[-1].event.id}" if len(found) > ON_A_PAGE else ""
    newest = SIGN_INS if before is not None else ""
    return show(
        call,
        postern,
        "devices/sign_ins.html",
        SIGN_INS,
        logins=logins,
        failure=failure,
        named=NAMED,
        providers=NAMES,
        older=older,
        newest=newest,
    )


def failure(login: OwnLogin) -> str:
    """The text key of the reason why an attempt failed. Empty when the attempt succeeded."""
    reason = login.event.failure
    return "" if reason is None else f"sign_ins.failure.{reason.value}"
