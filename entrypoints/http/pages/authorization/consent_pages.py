"""The page between sign-in and an application that asks for consent to the application's access."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_steps import AuthorizationStep
from core.domain.federation.oauth.client_documents import ClientRefused
from core.domain.federation.oauth.consents import DAYS_OFFERED, USUAL_DAYS, ConsentChoice, grant_end
from core.domain.federation.oauth.resources import OfferedResource, OfferedScope, Ticked
from core.domain.identifiers import ResourceServerId
from core.domain.identity.flows import Flow, FlowOver
from core.domain.services.services import LONGEST_NAME
from core.usecases.federation.authorizations import UnfinishedAuthorization
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization.authorization_pages import CONSENT, LEAVING, advice, form_of, left, settled
from entrypoints.http.pages.authorization.interim_pages import interim_page, leading_to
from entrypoints.http.pages.declaring import IN_POPUP, page
from entrypoints.http.pages.flows import FlowLink, Page, even_twice, flow_of, with_another_account
from entrypoints.http.refused_authorizations import refused_on_the_way

_MOST_SCOPES: Final = 500
_DIGEST: Final = 64
_REFUSES: Final = (FlowOver, OrganizationNotActive)


class ConsentForm(BoundForm, frozen=True, kw_only=True):
    """The form is bound to the session, and not to the flow: nobody else can allow what Ada was shown."""

    flow: str
    answer: Literal["allow", "deny", "another"]
    scopes: Annotated[Sequence[str], msgspec.Meta(max_length=_MOST_SCOPES)] = ()
    """The scopes of APIs that the person has left ticked, each behind the id of its API and a space."""
    document: Annotated[str, msgspec.Meta(max_length=_DIGEST)] = ""
    """What the page has shown of a metadata client's document, as a digest."""
    name: Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] = ""
    """The name that the page has shown of a client that nobody has allowed yet."""
    days: Literal["", "1", "7", "30", "90"] = ""
    """How long an agent may act."""


@page.get(CONSENT, caller=BROWSER, limit=PAGE_LOADS, policy=IN_POPUP, advice=advice, refuses=_REFUSES)
async def show_consent(call: Call[None, FlowLink], postern: Postern) -> Page:
    """Ask for consent to the access that an application wants"""
    flow = await flow_of(call, postern, call.query.flow)
    # The page shows the account, so a person who goes on has chosen this account. A person who still has time to set up a second factor was
    # asked before.
    outcome = await postern.federation.authorizations.resume(flow, call.caller, call.client, account_chosen=True, set_up_later=True)
    action = form_of(CONSENT, flow)
    match outcome:
        case UnfinishedAuthorization(step=AuthorizationStep.CONSENT, request=request):
            where = leading_to(request.recipient.redirect_uri, request.client_id)
            can_show = outcome.signed_in is not None and outcome.signed_in.has_second_factor
            more = {
                "named": outcome.application.name,
                "hidden": _hidden(outcome),
                "scopes": request.scopes,
                "resources": _shown(outcome),
                "has_second_factor": can_show,
                "days": _days(outcome, postern.foundation.clock.now()),
                **where,
            }
            return Answer(
                interim_page("authorization/consent.html", call, postern, flow, outcome, rule=BROWSER, action=action, **more), 200
            )
        case UnfinishedAuthorization(step=AuthorizationStep.TURN_AWAY):
            return Answer(interim_page("authorization/turned_away.html", call, postern, flow, outcome, rule=BROWSER, action=action), 403)
        case _:
            return await settled(call, postern, flow, outcome)


@page.post(CONSENT, caller=BROWSER, limit=PAGE_STEPS, policy=LEAVING, advice=advice, refuses=_REFUSES)
async def answer_consent(call: Call[ConsentForm], postern: Postern) -> Page:
    """Allow or deny the access that an application wants"""
    authorizations = postern.federation.authorizations

    async def answered(flow: Flow) -> Page:
        match call.body.answer:
            case "allow":
                days = int(call.body.days) if call.body.days else None
                choice = ConsentChoice(ticked(call.body.scopes), days, _digest(call.body.document), call.body.name)
                try:
                    outcome = await authorizations.allow(flow, call.caller, call.actor, call.client, choice)
                except ClientRefused as refusal:
                    refused_on_the_way(postern, flow.request, refusal)
                    raise
                return await settled(call, postern, flow, outcome)
            case "deny":
                return left(call, flow, await authorizations.deny(flow))
            case "another":
                return await with_another_account(call, postern, flow)

    return await even_twice(call, postern, call.body.flow, answered)


def _hidden(outcome: UnfinishedAuthorization) -> Mapping[str, str]:
    """What the form says that the page has shown."""
    document = next((one.document for one in outcome.resources), None)
    if document is None:
        return {}
    return {"document": document.hex(), **({} if outcome.application.unplaced is None else {"name": outcome.application.name})}


def _shown(outcome: UnfinishedAuthorization) -> list[Mapping[str, Any]]:
    """The APIs of the request, with the scopes that the person may allow there."""
    asked, is_agent = outcome.request.foreign_scopes, outcome.application.is_agent

    def held(resource: OfferedResource) -> Sequence[OfferedScope]:
        return resource.shown_for_agent(asked) if is_agent else resource.held(asked)

    return [
        {
            "name": resource.name,
            "identifier": resource.identifier,
            "scopes": [(f"{resource.id} {scope.name}", scope) for scope in held(resource)],
        }
        for resource in outcome.resources
    ]


def _days(outcome: UnfinishedAuthorization, now: datetime) -> Sequence[tuple[int, datetime, bool]]:
    """The choices of the end of an agent's grant, and which is chosen first. Empty for an application that is none."""
    return [(days, grant_end(days, now), days == USUAL_DAYS) for days in DAYS_OFFERED] if outcome.application.is_agent else ()


def ticked(sent: Sequence[str]) -> Ticked:
    ticked = set()
    for one in sent:
        resource, _, scope = one.partition(" ")
        try:
            ticked.add((ResourceServerId(UUID(resource)), scope))
        except ValueError:
            continue
    return ticked


def _digest(sent: str) -> bytes | None:
    try:
        return bytes.fromhex(sent) or None
    except ValueError:
        return None
