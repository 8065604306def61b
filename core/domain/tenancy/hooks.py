"""Hooks: a URL of an organization, or of the installation, that Postern calls before a sign-in completes."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Conflict
from core.domain.formats import Json
from core.domain.identifiers import HookId, OrganizationId
from core.domain.identity.guards.hook_verdicts import AskingDoor, HookFactor, HookReason
from core.domain.outbound import NotADestination, OutboundDestination, destination, is_public
from core.domain.record.events import Actor, Event, Target, differences
from core.frozen import Frozen, replace, values_of

DEFAULT_SECONDS: Final = 2
MOST_SECONDS: Final = 5
LONGEST_ANSWER: Final = 64 * 1024
# What an owner has to see before a hook may count: so many questions, or this time.
ENOUGH_QUESTIONS: Final = 100
HELD_SINCE: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Work that goes out is held after a restore. Of a hook that is held, `since` says so, and it is asked only while it counts."""
ENOUGH_TIME: Final = timedelta(hours=1)
MOST_EXCHANGES: Final = 50
# How often one flow asks a hook. A hook that always asks for another factor must not hold anybody in a circle.
MOST_ASKED_IN_FLOW: Final = 3


class HookPoint(StrEnum):
    """When the hook is called."""

    SIGN_IN = "sign_in"


class HookSilence(StrEnum):
    """What happens if the hook does not respond, responds too late, or sends an invalid response."""

    GO_ON = "go_on"
    REFUSE = "refuse"


class HookStands(StrEnum):
    """Whether the hook's decisions are enforced."""

    SHADOW = "shadow"
    COUNTS = "counts"


class HookPeople(StrEnum):
    """How an organization knows the person. Each kind has places and rests of its own, so that whoever comes from outside makes no hook
    silent, or full, for those who are here.
    """

    MEMBERS = "members"
    KNOWN = "known"
    """People who are no members, and whose own tie to the organization is older than `KNOWN_AFTER`."""
    OTHERS = "others"


KNOWN_AFTER: Final = timedelta(days=1)


class HookDraft(Frozen, kw_only=True):
    """What an owner says of a hook."""

    address: str
    silence: HookSilence
    seconds: int = DEFAULT_SECONDS


class Hook(HookDraft, kw_only=True):
    """A hook can only make a sign-in stricter. It begins in report-only mode: it is called, its decisions are recorded, and none is
    enforced. Each change sets it back to report-only. An owner enforces it, after they have seen for a while what it would do.
    """

    id: HookId
    organization: OrganizationId | None
    """None for the installation's."""
    point: HookPoint = HookPoint.SIGN_IN
    counts_as: UUID | None = None
    """New each time that an owner lets the hook count, so that verdicts from before a change count no more. None in shadow."""
    since: datetime
    """When the current settings of the hook took effect."""
    secret_made_at: datetime | None
    """None for one that has arrived from another installation: nobody asks it before an owner gives it a secret."""
    created_at: datetime
    updated_at: datetime

    @property
    def is_held(self) -> bool:
        return self.since == HELD_SINCE

    @property
    def stands(self) -> HookStands:
        return HookStands.SHADOW if self.counts_as is None else HookStands.COUNTS

    @property
    def digest(self) -> str:
        """Of what an owner says yes to when they let the hook count."""
        settled = (self.id, self.organization, self.point, self.address, self.silence, self.seconds, self.since, self.secret_made_at)
        return _digest([str(one) for one in settled])


class HookReport(Frozen, kw_only=True):
    """What a hook has said since it stands as it is."""

    asked: int = 0
    silent: int = 0
    refused: int = 0
    factors: int = 0
    """How often it asked for a factor."""
    milliseconds: int = 0
    """All questions together."""
    slowest: int = 0

    @property
    def mean(self) -> int:
        return self.milliseconds // self.asked if self.asked else 0

    @property
    def digest(self) -> str:
        """By the length of each number: a hook is asked again while its owner reads, and that alone must not refuse the owner's word. What
        the report has not shown at all, or is ten times as much by now, does.
        """
        return _digest([str(_length(one)) for one in (self.silent, self.refused, self.factors)])


NOTHING_ASKED: Final = HookReport()


def _length(count: int) -> int:
    return len(str(count)) if count else 0


def _digest(parts: list[str]) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


class HookTooNew(Conflict):
    text = "The hook must be report-only for 1 hour, or for 100 requests, before it can be enforced"

    def __init__(self) -> None:
        super().__init__(words="hook_too_new")


class HookSeenDiffers(Conflict):
    text = "The hook or its report has changed since you read it: read it again"

    def __init__(self) -> None:
        super().__init__(words="hook_seen_differs")


class HookWithoutSecret(Conflict):
    text = "The hook has no secret, so it is not called: rotate its secret first"

    def __init__(self) -> None:
        super().__init__(words="hook_without_secret")


def checked_draft(draft: HookDraft) -> HookDraft:
    """Raises `BadRequest`."""
    hook_destination(draft.address)
    hook_seconds(draft.seconds)
    return draft


def hook_seconds(seconds: int) -> int:
    """Raises `BadRequest`."""
    if not 1 <= seconds <= MOST_SECONDS:
        raise BadRequest(f"seconds: from 1 to {MOST_SECONDS}", words="field_bounds", values={"least": 1, "most": MOST_SECONDS})
    return seconds


def hook_destination(text: str) -> OutboundDestination:
    """Plain http is for an address that the operator has allowed, with no name server and no foreign wire between. Raises `BadRequest`."""
    try:
        found = destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"address: the URL {refusal}", words="web_address") from None
    if found.scheme != "https" and (found.address is None or is_public(found.address)):
        raise BadRequest("address: the URL must start with https://", words="web_address")
    return found


def changed(before: Hook, draft: HookDraft, now: datetime) -> Hook:
    """Any change puts the hook in shadow. The same settings change nothing."""
    after = replace(before, **values_of(draft))
    # An owner's new settings are asked, whatever is held.
    return before if after == before else in_shadow(replace(after, since=now), now)


def in_shadow(hook: Hook, now: datetime) -> Hook:
    """Its verdicts count no more, and its report begins anew. What is held stays held: it is not asked any more."""
    return replace(hook, counts_as=None, since=hook.since if hook.is_held else now, updated_at=now)


def may_count(hook: Hook, report: HookReport, now: datetime) -> bool:
    return hook.secret_made_at is not None and (report.asked >= ENOUGH_QUESTIONS or now - hook.since >= ENOUGH_TIME)


def let_count(hook: Hook, report: HookReport, *, seen: str, seen_report: str, counts_as: UUID, now: datetime) -> Hook:
    """The owner's word, about the hook and the report that the owner has seen (docs/decisions/0109-the-owners-word.md). Raises
    `HookSeenDiffers`, `HookWithoutSecret`, `HookTooNew`.
    """
    if seen != hook.digest or seen_report != report.digest:
        raise HookSeenDiffers
    if hook.stands is HookStands.COUNTS:
        return hook
    if hook.secret_made_at is None:
        raise HookWithoutSecret
    if not may_count(hook, report, now):
        raise HookTooNew
    return replace(hook, counts_as=counts_as, updated_at=now)


class HookQuestion(Frozen, kw_only=True):
    """What a hook hears. Each part is what the application, or the organization, may know anyhow."""

    door: AskingDoor
    organization_slug: str
    application: Mapping[str, Json] | None = None
    told: Mapping[str, Json] = {}
    """What the application may see of the person."""
    address: str | None = None
    country: str | None = None
    new_device: bool | None = None
    """None where the organization has not seen the sign-in."""

    def body(self, hook: Hook, id: UUID, at: datetime) -> bytes:  # noqa: A002 - the field's own name
        door = self.door
        said: dict[str, Json] = {
            "point": hook.point.value,
            "id": str(id),
            "at": at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "hook": str(hook.id),
            "organization": {"id": str(door.organization), "slug": self.organization_slug},
            "application": self.application,
            "scopes": list(door.scopes),
            "user": {**self.told, "sub": str(door.person)},
            "way": door.way,
            "factors": list(door.authenticated_by),
        }
        if self.application is not None and self.address is not None:
            said["network"] = {"address": self.address, "country": self.country}
        if self.application is not None and self.new_device is not None:
            said["device"] = {"is_new": self.new_device}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


class HookAnswer(Frozen):
    """Go on, unless one of them is there."""

    no: HookReason | None = None
    owes: HookFactor | None = None

    @property
    def word(self) -> str:
        if self.no is not None:
            return "no"
        return "go_on" if self.owes is None else self.owes.value


class HookSilent(Exception):
    """A hook gave no answer that counts. `why` is a word of a closed list, for the report and metrics."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


# Why a hook is silent, besides the words of `ports.outbound.Failure`.
INVALID: Final = "invalid_answer"
REFUSED_STATUS: Final = "status"
TOO_LONG: Final = "answer_too_long"
RESTING: Final = "resting"
UNREADABLE: Final = "secret_unreadable"


def answer_of(status: int, content_type: str, body: bytes) -> HookAnswer:
    """Whatever is not said exactly as the guide has it is no answer: a hook that we understand by half could let in whom it means to
    refuse. Raises `HookSilent`.
    """
    if status != 200:
        raise HookSilent(REFUSED_STATUS)
    if len(body) > LONGEST_ANSWER:
        raise HookSilent(TOO_LONG)
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HookSilent(INVALID)
    try:
        # Of bytes, `json.loads` would guess the encoding. A text with a byte order mark is no JSON (RFC 8259, section 8.1).
        said = json.loads(body.decode(), object_pairs_hook=_each_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise HookSilent(INVALID) from None
    if not isinstance(said, dict) or not isinstance(said.get("decision"), str):
        raise HookSilent(INVALID)
    decision = said.pop("decision")
    if decision == "no":
        return _refusal(said)
    if said:
        raise HookSilent(INVALID)
    if decision == "go_on":
        return HookAnswer()
    try:
        return HookAnswer(owes=HookFactor(decision))
    except ValueError:
        raise HookSilent(INVALID) from None


def _refusal(said: dict[str, Json]) -> HookAnswer:
    if set(said) != {"reason"} or not isinstance(said["reason"], str):
        raise HookSilent(INVALID)
    try:
        return HookAnswer(no=HookReason(said["reason"]))
    except ValueError:
        raise HookSilent(INVALID) from None


def _each_once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError
    return said


def _no_constant(constant: str) -> Json:
    raise ValueError(constant)


class HookExchange(Frozen, kw_only=True):
    """One question and its answer, as the recorder keeps it: with every text masked, so that it shows the form and no person."""

    id: UUID
    hook: HookId
    at: datetime
    milliseconds: int
    outcome: str
    """`go_on`, `second_factor`, `passkey`, `no` or `silent`."""
    why: str = ""
    """The reason of a no, or of a silence."""
    counted: bool
    is_test: bool = False
    sent: str
    answered: str = ""


LONGEST_KEPT: Final = 2000
# Texts of ours that name nobody, by the field that they stand in.
_KEPT_FIELDS: Final = frozenset({"point", "way", "decision", "reason", "factors", "scopes"})


def masked(body: bytes) -> str:
    """The body with each text replaced by its length, but for the words of this interface. Nothing of a body that is no JSON."""
    try:
        said = json.loads(body)
        text = json.dumps(_masked(said, keeps=False), ensure_ascii=False)
    except (ValueError, RecursionError):
        return f"… ({len(body)} bytes)"
    return text if len(text) <= LONGEST_KEPT else text[: LONGEST_KEPT - 1] + "…"


def _masked(said: Json, *, keeps: bool) -> Json:
    if isinstance(said, Mapping):
        # A name is a text, too: an answer may carry an address there.
        return {name if name in _NAMES else _hidden(name): _masked(one, keeps=name in _KEPT_FIELDS) for name, one in said.items()}
    if isinstance(said, list):
        return [_masked(one, keeps=keeps) for one in said]
    if isinstance(said, str):
        return said if keeps and said in _WORDS else _hidden(said)
    return said if isinstance(said, bool) or said is None else 0


def _hidden(text: str) -> str:
    return f"***{len(text)}"


_NAMES: Final = frozenset(
    [
        *(
            "point",
            "id",
            "at",
            "hook",
            "organization",
            "slug",
            "application",
            "client_id",
            "name",
            "scopes",
            "user",
            "sub",
            "way",
            "factors",
        ),
        *("network", "address", "country", "device", "is_new", "decision", "reason"),
        # what an application learns by the standard scopes, and by an assertion
        *("email", "email_verified", "given_name", "family_name", "preferred_username", "picture", "zoneinfo", "locale", "updated_at"),
        *("role", "roles", "permissions", "groups", "attributes"),
    ]
)
_WORDS: Final = frozenset(
    [
        *(*HookPoint, *HookReason, *HookFactor, "go_on", "no", "password", "passkey", "sign_in_link", "pwd", "mfa", "otp", "hwk", "swk"),
        *("user", "openid", "email", "profile", "offline_access", "session", "provider", "link", "code"),
    ]
)


def hook_created(hook: Hook, actor: Actor) -> Event:
    return _event(("hook.created", "platform.hook.created"), hook, actor, _facts(hook))


def hook_updated(before: Hook, after: Hook, actor: Actor) -> Event:
    details: dict[str, Json] = {"host": _host(after), **differences(_facts(before), _facts(after)), "stands": after.stands.value}
    if before.address != after.address:
        details["address_changed"] = True
    return _event(("hook.updated", "platform.hook.updated"), after, actor, details)


def hook_secret_rotated(hook: Hook, actor: Actor) -> Event:
    return _event(("hook.secret_rotated", "platform.hook.secret_rotated"), hook, actor, {"host": _host(hook)})


def hook_counts(hook: Hook, report: HookReport, actor: Actor) -> Event:
    """It tells what the owner has said yes to."""
    shown = {name: getattr(report, name) for name in ("asked", "silent", "refused", "factors")}
    return _event(("hook.counts", "platform.hook.counts"), hook, actor, {**_facts(hook), "digest": hook.digest, **shown})


def hook_in_shadow(hook: Hook, actor: Actor) -> Event:
    return _event(("hook.in_shadow", "platform.hook.in_shadow"), hook, actor, _facts(hook))


def hook_deleted(hook: Hook, actor: Actor) -> Event:
    return _event(("hook.deleted", "platform.hook.deleted"), hook, actor, _facts(hook))


def hook_tested(hook: Hook, actor: Actor) -> Event:
    return _event(("hook.tested", "platform.hook.tested"), hook, actor, {"host": _host(hook)})


def _facts(hook: Hook) -> Mapping[str, Json]:
    """The event has no address, because it may contain a token of the receiver."""
    return {
        "point": hook.point.value,
        "host": _host(hook),
        "silence": hook.silence.value,
        "seconds": hook.seconds,
        "stands": hook.stands.value,
    }


def _host(hook: Hook) -> str:
    return hook_destination(hook.address).host


def _event(names: tuple[str, str], hook: Hook, actor: Actor, details: Mapping[str, Json]) -> Event:
    """Of an organization, or of the installation: that is for platform owners alone."""
    ours, installations = names
    name = installations if hook.organization is None else ours
    return Event(name, actor, Target("hook", str(hook.id)), hook.organization, details)


def hook_context(hook: HookId) -> str:
    return f"hooks.sealed_secret:{hook}"


def previous_hook_context(hook: HookId) -> str:
    return f"hooks.previous_sealed_secret:{hook}"
