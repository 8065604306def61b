"""`/ui/choose-organization`: a person of several organizations chooses the one to manage in this browser."""

from urllib.parse import quote

import msgspec

from core.domain.errors import Forbidden, SecondFactorRequired, TermsRequired
from core.domain.tenancy.organizations import LONGEST_SLUG
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, terms_page, token_for
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.account import set_up_first
from entrypoints.http.pages.declaring import WITH_FORM, page
from entrypoints.http.pages.flows import CHOOSE_ORGANIZATION, own_place


class ChoiceLink(msgspec.Struct, frozen=True):
    to: str = ""
    """The page of ours to come back to."""


class ChoiceForm(BoundForm, frozen=True, kw_only=True):
    organization: str = ""
    """The organization's slug; empty for none."""
    to: str = ""


@page.get(CHOOSE_ORGANIZATION, caller=BROWSER, limit=UNLIMITED, policy=WITH_FORM)
async def show_choice_of_organization(call: Call[None, ChoiceLink], postern: Postern) -> bytes:
    """Ask which organization to manage"""
    found = await postern.tenancy.organizations.list(call.caller.user)
    return shipped_pages().page(
        "sign_in/choose_organization.html",
        call.language,
        action=CHOOSE_ORGANIZATION,
        form_token=token_for(BROWSER, call.request, postern),
        place=own_place(call.query.to),
        organizations=[(one.organization.slug, one.organization.name) for one in found],
        chosen=call.caller.chosen_organization,
    )


@page.post(CHOOSE_ORGANIZATION, caller=BROWSER, limit=UNLIMITED, refuses=(Forbidden,))
async def choose_organization(call: Call[ChoiceForm], postern: Postern) -> Answer[NoBody]:
    """Choose the organization to manage

    An organization that is closed to members without a second factor leads to the set-up of a second factor, and back.
    """
    try:
        await postern.tenancy.organizations.choose(call.caller, call.body.organization[: LONGEST_SLUG + 1])
    except TermsRequired:
        return redirect(terms_page(own_place(call.body.to)))
    except SecondFactorRequired:
        return redirect(set_up_first(f"{CHOOSE_ORGANIZATION}?to={quote(own_place(call.body.to), safe='/')}"))
    return redirect(own_place(call.body.to))
