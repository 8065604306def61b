"""From when until when an organization's own notice stands above the sign-in. What it says is one of its own texts."""

from datetime import UTC, datetime

from core.domain.branding import Look
from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class NoticeTimes(Frozen):
    begins_at: datetime | None = None
    """None: from the moment that there is a text."""
    ends_at: datetime | None = None
    """None: until the text is taken away."""

    def checked(self) -> "NoticeTimes":
        """In UTC. Raises `BadRequest`."""
        if self.begins_at is not None and self.ends_at is not None and self.ends_at <= self.begins_at:
            raise BadRequest("ends_at: must be after begins_at", words="notice_times")
        return NoticeTimes(_in_utc("begins_at", self.begins_at), _in_utc("ends_at", self.ends_at))

    @classmethod
    def of(cls, look: Look) -> "NoticeTimes":
        return cls(_read(look.notice_from), _read(look.notice_until))

    def stored(self) -> tuple[str | None, str | None]:
        """As `Look` has them."""
        return _written(self.begins_at), _written(self.ends_at)


def notice_updated(organization: OrganizationId, before: NoticeTimes, after: NoticeTimes, actor: Actor) -> Event:
    details = {"before": _facts(before), "after": _facts(after)}
    return Event("notice.updated", actor, Target("organization", str(organization)), organization, details)


def _facts(times: NoticeTimes) -> Json:
    begins, ends = times.stored()
    return {"begins_at": begins, "ends_at": ends}


def _in_utc(field: str, at: datetime | None) -> datetime | None:
    try:
        return None if at is None else at.astimezone(UTC)
    except OverflowError:
        # Of the first or the last day that there is, in a zone far from ours.
        raise BadRequest(f"{field}: is out of range", words="field_date") from None


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _written(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
