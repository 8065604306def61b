"""Acting as somebody: a platform owner's browser gets a session in that person's name beside its own, for an hour at most.

The session has a cookie of its own, and counts only beside the cookie of the platform owner's own session, which stays as it is. Pages that
act for people (their sign-in, flows of applications) never look at it.
"""

from typing import Any, Final

from core.domain.identity.callers import Caller
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browser_cookies import forget_acting, keep_acting
from entrypoints.http.machinery.browsers import HOME as START
from entrypoints.http.machinery.browsers import STOPS_ACTING, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages.console.forms import Asked, InputKind, shape
from entrypoints.http.pages.console.navigation import address
from entrypoints.http.pages.console.platform.people import ONE, PERSON_TAB, load, position_of, user_of
from entrypoints.http.pages.console.platform.platform_tabs import HOME
from entrypoints.http.pages.console.platform.questions import Question, QuestionSubject, question_pages
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.pages.declaring import page
from entrypoints.http.routes.identity.impersonation import impersonate_user

STOP: Final = "/ui/stop-acting"


async def _act_as(visit: PageVisit, _subject: QuestionSubject, body: Any) -> Answer[NoBody]:
    begun = await visit.postern.identity.impersonations.begin_in_browser(visit.person, user_of(visit), body.reason, visit.call.actor)
    answer = redirect(START)
    lasts = begun.ends_at - visit.postern.foundation.clock.now()
    cookies = keep_acting(begun.token, lasts, visit.postern.foundation.public_url)
    return Answer(answer.value, answer.status, (*answer.headers, *cookies))


@page.post(STOP, caller=STOPS_ACTING, limit=UNLIMITED)
async def stop_acting(call: Call[BoundForm, None, None, Caller | None], postern: Postern) -> Answer[NoBody]:
    """Stop acting in somebody's name

    Your own session goes on.
    """
    caller = call.presented
    onward = HOME
    if caller is not None:
        await postern.identity.impersonations.end_in_browser(caller, call.actor)
        onward = address(ONE, {"user_id": caller.user})
    answer = redirect(onward)
    return Answer(answer.value, answer.status, (*answer.headers, *forget_acting(postern.foundation.public_url)))


_QUESTION: Final = Question(
    name="act_as",
    texts="console.people",
    at=f"{ONE}/act-as",
    of=impersonate_user,
    position=position_of(PERSON_TAB),
    load=load,
    do=_act_as,
    shape=shape(impersonate_user, Asked("reason", kind=InputKind.LONG)),
)

# `stop_acting` belongs to the browser, not to the console: it has no place there, and anybody may send it.
PAGES: Final = (*question_pages(_QUESTION),)
