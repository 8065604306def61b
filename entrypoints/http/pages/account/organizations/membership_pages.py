"""`/ui/confirm-membership`: a page after sign-in, for people whom an organization lists as members, and who have not yet confirmed the
membership.

Anybody can list anybody as a member. So going on confirms nothing. A person who does not answer goes on all the same, and sees the page
again at the next sign-in.
"""

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive
from core.domain.identifiers import OrganizationId
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose
from core.domain.tenancy.members import MOST_ASKED, ListedMembership
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.page_addresses import ORGANIZATIONS
from entrypoints.http.pages.authorization.authorization_pages import LEAVING, advice, form_of
from entrypoints.http.pages.kit import account_of, shipped_pages
from entrypoints.http.pages.kit.declaring import page
from entrypoints.http.pages.kit.flows import CONFIRM_MEMBERSHIP, AnyCall, FlowLink, Page, even_twice, flow_of, go_on

YES: Final = "yes"
LEAVE: Final = "leave"
DISOWN: Final = "disown"
_REFUSES: Final = (FlowOver, BadRequest, Forbidden, NotFound, OrganizationNotActive)
MANY_ANSWERS: Final = Form(most_fields=2 * MOST_ASKED)
"""A form with the usual fields, and an answer for each organization."""
_Answer = Annotated[Line, msgspec.Meta(pattern=rf"^(later|({YES}|{LEAVE}|{DISOWN}):[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})$")]


class MembershipsForm(BoundForm, frozen=True, kw_only=True):
    """The form is bound to the session, and not to the flow: nobody else can confirm what Ada was shown."""

    flow: Line = ""
    answers: Annotated[Sequence[_Answer], msgspec.Meta(max_length=MOST_ASKED)] = ()
    """One answer for each organization, by the organization's id. A slug may belong to another organization by now."""


@page.get(CONFIRM_MEMBERSHIP, caller=BROWSER, limit=PAGE_LOADS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def show_memberships_to_confirm(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask a person to confirm the memberships that others have given them"""
    flow = await flow_of(call, postern, call.query.flow)
    listed = await postern.tenancy.members.listed(call.caller, _only(flow), most=MOST_ASKED + 1)
    if not listed:
        return await go_on(call, postern, _asked(flow), call.caller)
    return Answer(_page(call, postern, flow, listed), 200)


@page.post(CONFIRM_MEMBERSHIP, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, accepts=MANY_ANSWERS, advice=advice, refuses=_REFUSES)
async def answer_memberships(call: Call[MembershipsForm], postern: Postern) -> Page:
    """Confirm memberships, leave organizations, decline their ownership, or put the answer off, and go on"""

    async def answered(flow: Flow) -> Page:
        members, answers = postern.tenancy.members, call.body.answers
        for organization in _named(answers, LEAVE):
            await members.leave(call.caller, organization)
        for organization in _named(answers, DISOWN):
            await postern.tenancy.ownerships.decline(call.caller, organization)
        if confirmed := _named(answers, YES):
            await members.confirm(call.caller, confirmed)
        return await go_on(call, postern, _asked(flow), call.caller)

    return await even_twice(call, postern, call.body.flow, answered)


def _only(flow: Flow) -> str | None:
    """The organization that the flow leads to. None when the flow leads to the account pages."""
    return None if flow.purpose is FlowPurpose.ACCOUNT else flow.wanted.organization


def _asked(flow: Flow) -> Flow:
    return replace(flow, asked_memberships=True)


def _named(answers: Sequence[str], answer: str) -> list[OrganizationId]:
    return [OrganizationId(UUID(one.partition(":")[2])) for one in answers if one.startswith(f"{answer}:")]


def _page(call: AnyCall, postern: Postern, flow: Flow, listed: Sequence[ListedMembership]) -> bytes:
    return shipped_pages().page(
        "sign_in/confirm_membership.html",
        call.language,
        brand=flow.branding,
        action=form_of(CONFIRM_MEMBERSHIP, flow),
        flow=str(flow.id),
        form_token=token_for(BROWSER, call.request, postern),
        listed=listed[:MOST_ASKED],
        more=ORGANIZATIONS if len(listed) > MOST_ASKED else "",
        **account_of(call.caller),
        now=postern.foundation.clock.now(),
    )
