"""`/ui`: where a person goes on; and `/ui/first-steps`: what a platform owner does first in a new installation."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import NotFound, Unauthorized
from core.domain.identity.accounts import AccountSummary
from core.domain.platform.installation import FirstStepsDone
from core.frozen import Frozen
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.first_start import FIRST_STEPS
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BROWSER_OR_ACTING, HOME
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.page_addresses import PASSWORD
from entrypoints.http.pages.account import Page, show
from entrypoints.http.pages.development import mail_list
from entrypoints.http.pages.kit.declaring import WITH_FORM, page
from entrypoints.settings import Settings

SECOND_FACTOR: Final = "/ui/second-factor"
NEW_ORGANIZATION: Final = "/ui/organizations/~new"
HEALTH: Final = "/ui/platform/health"
SETTINGS: Final = "/ui/platform/settings"


class Step(Frozen):
    name: str
    """A part of its texts."""
    done: bool
    at: str
    """The address where the step is done. Empty if it cannot be done yet."""


def steps(summary: AccountSummary, done: FirstStepsDone, settings: Settings, console: str) -> Sequence[Step]:
    """`console` is the address of the console of an organization of the person's own; empty if there is none."""
    return (
        Step("organization", done.organization, NEW_ORGANIZATION),
        Step("application", done.application, f"{console}/applications/~new" if console else ""),
        Step("password", summary.password_changed_at is not None or (not summary.has_password and summary.passkeys > 0), PASSWORD),
        Step("two_step", summary.second_factor_since is not None, SECOND_FACTOR),
        Step("invitation", done.invitation, f"{console}/people/invitations" if console else ""),
        *steps_of_settings(settings),
    )


def steps_of_settings(settings: Settings) -> tuple[Step, ...]:
    return (
        Step("mail", settings.mail.startswith("smtp"), SETTINGS),
        Step("address", checks.is_public(settings), SETTINGS),
    )


async def steps_left(postern: Postern) -> bool:
    """Whether a step is left that concerns the whole installation."""
    done = await postern.platform.installation.first_steps()
    return not (done.organization and done.invitation and done.application and all(one.done for one in steps_of_settings(postern.settings)))


_PLATFORM: Final = "/ui/platform"


@page.get(HOME, caller=BROWSER_OR_ACTING, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def account_overview(call: Call, postern: Postern) -> Page:
    """See your applications, the organizations that you look after, and your account at a glance"""
    caller = call.caller
    summary, places = await postern.identity.account_summaries.start(caller.user, caller.session)
    governs = caller.is_platform_owner and caller.impersonator is None
    if governs and not summary.organizations and not (await postern.platform.installation.first_steps()).organization:
        # Nothing can happen here yet, so the first sign-in leads to what is to be done.
        return redirect(FIRST_STEPS)
    page = show(
        call,
        postern,
        "overview.html",
        HOME,
        summary=summary,
        places=places,
        issuer=postern.foundation.public_url,
        platform=_PLATFORM if governs else "",
        unproved=not caller.email_is_verified,
        has_passkeys=postern.identity.passkeys.obstacle is None,
    )
    return Answer(page, 200)


@page.get(FIRST_STEPS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_first_steps(call: Call, postern: Postern) -> bytes:
    """See what to set up first, as a platform owner"""
    if not call.caller.is_platform_owner:
        # Nobody else can do any of this.
        raise NotFound
    summary, places = await postern.identity.account_summaries.start(call.caller.user)
    done = await postern.platform.installation.first_steps()
    console = f"/ui/o/{places.organizations[0].slug}" if places.organizations else ""
    found = steps(summary, done, postern.settings, console)
    return show(
        call,
        postern,
        "first_steps.html",
        HOME,
        steps=[(one, f"first_steps.{one.name}") for one in found],
        left=sum(not one.done for one in found),
        founding=NEW_ORGANIZATION,
        embedded=postern.settings.embedded,
        mail=mail_list(call.request, postern.settings),
    )
