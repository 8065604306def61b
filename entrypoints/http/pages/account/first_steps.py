"""The first steps of a new installation: each is done when the state shows it."""

from collections.abc import Sequence
from typing import Final

from core.domain.identity.accounts import AccountSummary
from core.domain.platform.installation import FirstStepsDone
from core.frozen import Frozen
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.settings import Settings

PASSWORD: Final = "/ui/password"  # noqa: S105 - the address of a page
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
        Step("password", summary.password_changed_at is not None or (not summary.has_password and summary.passkeys > 0), PASSWORD),
        Step("two_step", summary.second_factor_since is not None, SECOND_FACTOR),
        Step("organization", done.organization, NEW_ORGANIZATION),
        Step("invitation", done.invitation, f"{console}/people/invitations" if console else ""),
        Step("application", done.application, f"{console}/applications" if console else ""),
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
