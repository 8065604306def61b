"""The decisions of hooks about a sign-in, as the session stores them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.claims import DescribedPerson
from core.domain.errors import Forbidden, RateLimited
from core.domain.formats import Json
from core.domain.identifiers import FlowId, HookId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.devices import Client
from core.frozen import Frozen

# How long a hook's yes opens doors that give something new. A session that is older is led to a way in, where hooks are asked. What a
# silence lets in ends after this time, too, and a refusal stands this long over a silence in other sessions of the person.
VERDICT_LIFETIME: Final = timedelta(hours=12)
# How long a silence that goes on opens what was asked about: a code is redeemed, a device comes for its tokens, calls follow `select`.
SILENCE_LIFETIME: Final = timedelta(minutes=5)


class HookReason(StrEnum):
    """Why a hook says no. People read our words for it, in their language, and none of the hook's own."""

    DEVICE = "device"
    PLACE = "place"
    HOUR = "hour"
    ACCOUNT = "account"
    TOO_MANY = "too_many"
    ADMINISTRATOR = "administrator"


class HookFactor(StrEnum):
    """What a hook asks for, as a rule for risk does."""

    SECOND_FACTOR = "second_factor"
    PASSKEY = "passkey"

    def is_shown(self, authenticated_by: tuple[str, ...]) -> bool:
        """A passkey states `hwk` or `swk` (RFC 8176)."""
        if self is HookFactor.SECOND_FACTOR:
            return "mfa" in authenticated_by
        return not _OF_PASSKEYS.isdisjoint(authenticated_by)


_OF_PASSKEYS: Final = frozenset({"hwk", "swk"})


Tells = Callable[[DescribedPerson, str], Mapping[str, Json]]
"""What an application learns of a person, by the rule that makes its tokens or assertions. The text is our address."""


class AskingDoor(Frozen, kw_only=True):
    """A way in of an organization, at which hooks are asked, and who comes there after every factor, terms and consent."""

    person: UserId
    organization: OrganizationId
    service: ServiceId | None = None
    """The application. Where none is named, a hook hears `sub`, way and factors alone."""
    unplaced: Mapping[str, Json] | None = None
    """How an application is called that nobody has placed yet, so that no row names it."""
    scopes: tuple[str, ...] = ()
    tells: Tells | None = None
    """What the application may see of the person. A function, because the person is looked up only where a hook is asked."""
    way: str
    authenticated_by: tuple[str, ...]
    consents: bool = False
    """The person is about to use the application by an act of theirs, which is not written yet."""
    session: SessionId | None = None
    """It keeps what the hooks say. None for a sign-in whose session does not exist yet."""
    flow: FlowId | None = None
    is_hidden: bool = False
    """No page may be shown. A tab that asks each minute must not fill the log of sign-ins."""
    came: Client | None = None
    """Who has just signed in, where the organization's own log shows it. None for what goes on from a session."""
    came_after: datetime | None = None
    """A device is known by sign-ins that led to the organization before this moment."""


def service_door(
    person: UserId,
    organization: OrganizationId | None,
    service: ServiceId | None,
    tells: Tells,
    *,
    way: str,
    authenticated_by: tuple[str, ...],
    scopes: Sequence[str] = (),
    session: SessionId | None = None,
) -> AskingDoor:
    """The door of a service. Each way in says more of it where it knows more."""
    assert organization is not None  # noqa: S101 - for the type checker: a service has an organization
    return AskingDoor(
        person=person,
        organization=organization,
        service=service,
        scopes=tuple(scopes),
        tells=tells,
        way=way,
        authenticated_by=authenticated_by,
        session=session,
    )


class HookWord(StrEnum):
    """What is kept of a question."""

    YES = "yes"
    NO = "no"
    OWED = "owed"
    """The hook asked for a factor that the sign-in has not shown."""
    SILENCE = "silence"
    """The hook did not answer, and its owner lets sign-ins go on then."""


class HookSaid(Frozen, kw_only=True):
    """The verdict of one hook about a session, for one organization. `counts_as` names the hook as its owner has let it count: a hook that
    was changed since counts as another, and has no verdicts.

    A no closes the whole organization. A yes, a demand and a silence are about what the hook was asked about: one application, or, where
    `service` is None, the console. A yes takes a no back there alone, if it is later.
    """

    hook: HookId
    counts_as: UUID
    organization: OrganizationId
    service: ServiceId | None = None
    at: datetime
    word: HookWord = HookWord.YES
    reason: HookReason | None = None
    """Of a no. None for one that a release before has kept."""
    owes: HookFactor | None = None
    """What is owed."""
    is_own: bool = True
    """The session itself, or one that it was opened from, keeps it; not another session, or the log of sign-ins."""

    def refuses(self, authenticated_by: tuple[str, ...]) -> bool:
        """Whether a silence does not stand over it."""
        if self.word is HookWord.OWED:
            return self.owes is None or not self.owes.is_shown(authenticated_by)
        return self.word is HookWord.NO


def refusal_under_silence(kept: Sequence[HookSaid], door: AskingDoor, now: datetime) -> HookSaid | None:
    """The no, or the unmet demand, that stands although the hook is silent now. `kept` is what the hook has said of the person in this
    organization. In other sessions and in the log of sign-ins it counts for twelve hours; what this session keeps itself stands until the
    hook says something else of it. A later yes about the same application, or about the console, takes it back there.
    """
    counted = [one for one in kept if one.is_own or one.at > now - VERDICT_LIFETIME]
    yeses = [one for one in counted if one.word is HookWord.YES and one.service == door.service]
    opened_at = max((one.at for one in yeses), default=None)
    # A yes of another session does not take back what this one keeps: every other door would go on to close.
    own_opened_at = max((one.at for one in yeses if one.is_own), default=None)
    refusals = [
        one
        for one in counted
        if one.refuses(door.authenticated_by)
        and ((taken_back_at := own_opened_at if one.is_own else opened_at) is None or one.at >= taken_back_at)
    ]
    # A no is said before a demand: nothing that the person shows would meet it.
    return max(refusals, key=lambda one: (one.word is HookWord.NO, one.at), default=None)


class HookVerdict(Frozen, kw_only=True):
    """What all hooks together say of one sign-in.

    A hook only makes a sign-in stricter: its approval opens nothing that a risk policy has closed, so its decisions are separate from those
    of policies.
    """

    said: tuple[HookSaid, ...] = ()
    """What the session keeps."""
    no: HookReason | None = None
    owes: HookFactor | None = None
    """What the sign-in has not shown."""
    can_show: bool = False
    """The person has what the hook asks for, so a sign-in can show it."""
    is_silent: bool = False
    """A hook did not answer, and its owner wants nobody let in then."""

    @property
    def lets_in(self) -> bool:
        return self.no is None and self.owes is None and not self.is_silent

    def require_let_in(self) -> None:
        """Raises `RefusedByHook`."""
        if not self.lets_in:
            raise RefusedByHook(self)


NO_HOOKS: Final = HookVerdict()


class RefusedByHook(Forbidden):
    """A hook of the organization, or of the installation, keeps this sign-in out of the organization."""

    def __init__(self, verdict: HookVerdict) -> None:
        message, words = _said(verdict)
        super().__init__(message, words=words)
        self.verdict = verdict


class HooksBusy(RateLimited):
    """Nobody is asked: too many questions are under way, or those about this person have failed too often. It is no silence, whatever the
    hook's owner has chosen for one: otherwise whoever makes it busy would come in, or shut others out.
    """

    text = "Too many sign-ins to this organization are being checked: try again in a few seconds"

    def __init__(self, *, retry_after: float, detail: str) -> None:
        super().__init__(retry_after=retry_after, detail=detail)


class FlowAskedEnough(Forbidden):
    """Hooks have been asked as often as one flow may ask them. The flow ends, and the application may begin another."""

    text = "The organization has checked this sign-in three times: start again from the application"

    def __init__(self) -> None:
        super().__init__(words="hook_asked_enough", detail="the flow has asked as often as it may")


class NotAskedYet(Forbidden):
    """The organization has a hook, and it has not let this session in, or not lately: a way in asks it."""

    text = "This organization checks each sign-in: use POST /api/organizations/SLUG/select, or sign in to its application again"

    def __init__(self, slug: str = "") -> None:
        self.slug = slug
        super().__init__(words="hook_unasked")


class KeptOutByHook(Forbidden):
    """A hook has said no about the sign-in that a session goes back to. Nobody is asked here, so nobody says why."""

    text = "The organization has refused this sign-in: sign in again"

    def __init__(self) -> None:
        super().__init__(words="hook_kept_out")


def _said(verdict: HookVerdict) -> tuple[str, str]:
    if verdict.no is not None:
        return f"The organization has refused this sign-in: {_REASONS[verdict.no]}", f"hook_refused_{verdict.no}"
    if verdict.owes is not None:
        return _OWED[verdict.owes], f"hook_{verdict.owes}"
    return "The organization checks each sign-in, and the check does not answer: try again later", "hook_silent"


_REASONS: Final = {
    HookReason.DEVICE: "sign-in is not allowed from this device",
    HookReason.PLACE: "sign-in is not allowed from this location",
    HookReason.HOUR: "sign-in is not allowed at this time",
    HookReason.ACCOUNT: "sign-in is not allowed for this account",
    HookReason.TOO_MANY: "there were too many sign-ins",
    HookReason.ADMINISTRATOR: "contact your administrator",
}
_OWED: Final = {
    HookFactor.SECOND_FACTOR: "The organization requires MFA for this sign-in",
    HookFactor.PASSKEY: "The organization requires a passkey for this sign-in: sign in with your passkey",
}


def stricter(one: HookVerdict, other: HookVerdict) -> HookVerdict:
    """Both together. The first is the installation's, and its reason is said where both say no."""
    owing = other if other.owes is HookFactor.PASSKEY or one.owes is None else one
    return HookVerdict(
        said=one.said + other.said,
        no=one.no or other.no,
        owes=owing.owes,
        can_show=owing.can_show,
        is_silent=one.is_silent or other.is_silent,
    )
