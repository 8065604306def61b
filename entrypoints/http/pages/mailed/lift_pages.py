"""`/ui/lift-rules`: the page behind the mail to a platform owner whom a rule of the installation refuses. Opening the link changes nothing,
since programs open links, too. The form puts the rules that refuse back in shadow, without a sign-in, which they would refuse.
"""

from typing import Final

import msgspec

from core.domain.errors import BadRequest, Forbidden, RateLimited
from core.domain.identity.account_mails import LinkRefused
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.browsers import SIGN_IN
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.error_shapes import Refused
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.declaring import WITH_FORM, Advised, WayOn, page

LIFT_RULES: Final = "/ui/lift-rules"


class LiftRules(msgspec.Struct, frozen=True):
    token: Token = Token("")


def _advice(refused: Refused) -> str | Advised:
    return Advised("lift_rules.refused", WayOn(SIGN_IN, "lift_rules.sign_in")) if isinstance(refused, LinkRefused) else ""


@page.get(LIFT_RULES, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, Forbidden))
async def show_lift_rules(call: Call[None, LiftRules], postern: Postern) -> bytes:
    """See the rules for risk of the installation that refuse sign-ins, by a mailed link"""
    lifts = await postern.identity.installation_way_back.look(call.query.token)
    return shipped_pages().page(
        "mailed/lift_rules.html",
        call.language,
        action=LIFT_RULES,
        token=call.query.token.reveal(),
        names=[one.name for one in lifts],
    )


@page.post(
    LIFT_RULES,
    caller=ANYONE,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, Forbidden, RateLimited),
)
async def send_lift_rules(call: Call[LiftRules], postern: Postern) -> bytes:
    """Put the rules for risk of the installation that refuse back in shadow

    The same form, sent twice, finds no such rule from before the mail, and says that the link was used.
    """
    await postern.identity.installation_way_back.lift(call.body.token, call.actor)
    return shipped_pages().outcome("lifted_rules", call.language, good=True)
