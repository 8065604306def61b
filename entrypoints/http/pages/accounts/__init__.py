"""`/ui/choose-account`, where a person says which of several accounts an application gets, and `/ui/accounts`, which lists the accounts of
this browser. Only an act of the person on one of these pages, or a sign-in, changes the account in use.

The forms are bound to the browser and not to an account: they show all accounts, and each button names its own. So they still mean the same
after another tab has changed the account in use.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from core.domain.errors import Conflict, OrganizationNotActive
from core.domain.federation.oauth.authorization_steps import named_account
from core.domain.federation.oauth.authorizations import restored
from core.domain.identifiers import SessionId
from core.domain.identity.browser_sessions import BrowserAccount
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose, form_token
from core.domain.identity.profiles import portrait
from core.domain.mail import Email
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browser_cookies import acting_token, forget_acting
from entrypoints.http.machinery.browsers import (
    ACCOUNTS,
    ANOTHER,
    IN_FLOW,
    SIGN_IN,
    SIGNING_ALL_OUT,
    FlowForm,
    bound_to,
    sign_in_again,
    token_for,
)
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.limits import PAGE_LOADS, PAGE_STEPS
from entrypoints.http.pages.authorization import authorization_pages
from entrypoints.http.pages.authorization.authorization_pages import LEAVING, form_of, settled
from entrypoints.http.pages.kit import account_of, shipped_pages
from entrypoints.http.pages.kit.declaring import IN_POPUP, Advised, WayOn, page
from entrypoints.http.pages.kit.flows import (
    CHOOSE_ACCOUNT,
    PASSWORD,
    AnyCall,
    FlowLink,
    Page,
    accounts_here,
    browser_secret,
    even_twice,
    first_to_end,
    flow_of_any_account,
    go_on,
    named_before_consent,
    own_place,
    place_in,
    to,
    use_account,
    with_another_account,
    with_headers,
)
from entrypoints.http.pages.saml.logout_pages import SIGNED_OUT, sign_out_here

_SIGN_OUT: Final = f"{ACCOUNTS}/sign-out"
_NOBODY: Final = UUID(int=0)
_LongPlace = Annotated[str, msgspec.Meta(max_length=2000)]


class AccountGone(Conflict):
    """The account was signed out, or its session has ended, since the page showed it."""

    text = "That account is no longer signed in in this browser"

    def __init__(self, place: str) -> None:
        """`place` is the address of the page that shows the accounts as they are now."""
        super().__init__(words="account_gone")
        self.place = place


class AccountsLink(msgspec.Struct, frozen=True):
    to: _LongPlace = ""
    """The page of ours to go to with the chosen account."""


class AccountForm(FlowForm, frozen=True, kw_only=True):
    answer: Literal["", "current", "another"] = ""
    current: UUID = _NOBODY
    """The session of the account that the page has shown as the one in use."""
    account: UUID = _NOBODY
    """The session of another account that the person has chosen."""


class AccountsForm(FlowForm, frozen=True, kw_only=True):
    account: UUID = _NOBODY
    to: _LongPlace = ""


def _advice(refused: Refused) -> str | Advised:
    if isinstance(refused, AccountGone):
        return Advised(onward=WayOn(refused.place, "accounts.choose"))
    return authorization_pages.advice(refused)


@page.get(CHOOSE_ACCOUNT, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP, advice=_advice, refuses=(FlowOver, OrganizationNotActive))
async def show_choice(call: Call[None, FlowLink, None, Caller | None], postern: Postern) -> Page:
    """Ask which account to use for an application"""
    flow = await flow_of_any_account(call, postern, call.query.flow)
    accounts = [one.caller for one in accounts_here(call, postern)]
    if not accounts:
        return to(SIGN_IN, flow)
    named = _named(flow, accounts)
    content = shipped_pages().page(
        "sign_in/choose_account.html",
        call.language,
        brand=flow.branding,
        action=form_of(CHOOSE_ACCOUNT, flow),
        flow=str(flow.id),
        form_token=token_for(IN_FLOW, call.request, postern, str(flow.id)),
        service=named_before_consent(flow),
        accounts=_shown(call, sorted(accounts, key=lambda one: one is not named)),
        current="" if call.presented is None else str(call.presented.session),
        ends=first_to_end(call, postern),
    )
    return Answer(content, 200)


@page.post(
    CHOOSE_ACCOUNT, caller=IN_FLOW, limit=PAGE_STEPS, policy=LEAVING, advice=_advice, refuses=(FlowOver, AccountGone, OrganizationNotActive)
)
async def choose_account(call: Call[AccountForm, None, None, Caller | None], postern: Postern) -> Page:
    """Go on with an account that is signed in, or with another one"""
    form = call.body

    async def answered(flow: Flow) -> Page:
        if not accounts_here(call, postern):
            return to(SIGN_IN, flow)
        if form.answer == "another":
            return await with_another_account(call, postern, flow, signs_in=True)
        session = form.current if form.answer == "current" else form.account
        return await _gone_on(call, postern, flow, _chosen(call, postern, session, place_in(flow, CHOOSE_ACCOUNT)))

    return await even_twice(call, postern, form.flow, answered, find=flow_of_any_account)


@page.get(ACCOUNTS, caller=IN_FLOW, limit=PAGE_LOADS, policy=IN_POPUP)
async def show_accounts(call: Call[None, AccountsLink, None, Caller | None], postern: Postern) -> Page:
    """List the accounts that are signed in in this browser"""
    accounts, place = [one.caller for one in accounts_here(call, postern)], own_place(call.query.to)
    if not accounts:
        return redirect(f"{SIGN_IN}?{urlencode({'to': place})}")
    browser, headers = browser_secret(call, postern)
    content = shipped_pages().page(
        "accounts/accounts.html",
        call.language,
        action=ACCOUNTS,
        sign_out=_SIGN_OUT,
        form_token=form_token(browser, bound_to("")),
        all_token=token_for(SIGNING_ALL_OUT, call.request, postern),
        place=place,
        another=sign_in_again(place, ANOTHER),
        accounts=_shown(call, accounts),
        ends=first_to_end(call, postern),
    )
    return Answer(content, 200, headers)


@page.post(ACCOUNTS, caller=IN_FLOW, limit=PAGE_STEPS, policy=IN_POPUP, advice=_advice, refuses=(AccountGone,))
async def switch_account(call: Call[AccountsForm, None, None, Caller | None], postern: Postern) -> Page:
    """Use another account that is signed in in this browser"""
    form = call.body
    use_account(call, postern, _chosen(call, postern, form.account, _list(form.to)))
    return redirect(own_place(form.to))


@page.post(_SIGN_OUT, caller=IN_FLOW, limit=PAGE_STEPS, policy=IN_POPUP, advice=_advice, refuses=(AccountGone,))
async def sign_account_out(call: Call[AccountsForm, None, None, Caller | None], postern: Postern) -> Page:
    """Sign out of one of the accounts, and of the applications that it has signed in to from this browser"""
    form, accounts = call.body, accounts_here(call, postern)
    leaving = _chosen(call, postern, form.account, _list(form.to))
    rest = _list(form.to) if len(accounts) > 1 else None
    onward, headers = await sign_out_here(call, postern, rest, (leaving,))
    base_url = postern.foundation.public_url
    if call.presented is leaving.caller and acting_token(call.request, base_url) is not None:
        # The end of the session has ended the session in somebody's name, which was opened from it.
        headers = (*headers, *forget_acting(base_url))
    return with_headers(headers, redirect(onward or rest or SIGNED_OUT))


def _list(place: str) -> str:
    return f"{ACCOUNTS}?{urlencode({'to': own_place(place)})}"


def _named(flow: Flow, accounts: Sequence[Caller]) -> Caller:
    """The account that stands first: the one that the request names, or else the one in use."""
    if flow.purpose is FlowPurpose.AUTHORIZE:
        named = named_account(restored(flow.request), accounts)
    else:
        hint = Email(flow.wanted.login_hint).key
        named = next((one for one in accounts if one.email.key == hint), None)
    return named or accounts[0]


def _shown(call: AnyCall, accounts: Sequence[Caller]) -> Sequence[Mapping[str, Any]]:
    present: Caller | None = call.request.caller
    return [
        {
            **account_of(one),
            "session": str(one.session),
            "portrait": portrait(one.user, one.profile, one.email),
            "in_use": present is not None and one.user == present.user,
        }
        for one in accounts
    ]


def _chosen(call: AnyCall, postern: Postern, session: UUID, place: str) -> BrowserAccount:
    """Raises `AccountGone`."""
    chosen = next((one for one in accounts_here(call, postern) if one.caller.session == SessionId(session)), None)
    if chosen is None:
        raise AccountGone(place)
    return chosen


async def _gone_on(call: AnyCall, postern: Postern, flow: Flow, account: BrowserAccount) -> Page:
    caller = account.caller
    if flow.completed_at is not None and not flow.repeats:
        raise FlowOver
    use_account(call, postern, account)
    if flow.signed_in_at is not None and flow.user != caller.user:
        # A flow takes one sign-in, and this one has had another person's.
        browser, _ = browser_secret(call, postern)
        flow = await postern.identity.flows.begin(
            browser, flow.purpose, flow.request, replace(flow.wanted, prompt=None), service=flow.service, account=caller.user
        )
    elif not flow.repeats:
        flow = await postern.identity.flows.choose(flow, caller.user, caller.email)
    if flow.purpose is FlowPurpose.AUTHORIZE:
        outcome = await postern.federation.authorizations.resume(flow, caller, call.client, account_chosen=True)
        return await settled(call, postern, flow, outcome)
    if flow.wanted.is_met(caller.proved, flow.created_at, postern.foundation.clock.now()):
        return await go_on(call, postern, flow, caller)
    return to(PASSWORD, flow)
