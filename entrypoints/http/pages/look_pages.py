"""`/ui/look`: light or dark pages in this browser, or as the system has it."""

from typing import Final, Literal

import msgspec

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import keep_look
from entrypoints.http.machinery.browsers import BROWSER_OR_ACTING, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.kit.declaring import page
from entrypoints.http.pages.kit.flows import own_place

LOOK: Final = "/ui/look"


class LookForm(BoundForm, frozen=True, kw_only=True):
    look: Literal["light", "dark", "system"]


class LookLink(msgspec.Struct, frozen=True):
    to: Line = ""
    """The page to go back to."""


@page.post(LOOK, caller=BROWSER_OR_ACTING, limit=PAGE_LOADS)
async def choose_look(call: Call[LookForm, LookLink], postern: Postern) -> Answer[NoBody]:
    """Choose light or dark pages in this browser"""
    chosen = "" if call.body.look == "system" else call.body.look
    answer = redirect(own_place(call.query.to))
    return Answer(answer.value, answer.status, (*answer.headers, *keep_look(chosen, postern.foundation.public_url)))
