"""What a change of the limits of sessions reaches, before anybody makes it."""

from core.frozen import Frozen


class SessionLimits(Frozen):
    """What an organization, or one of its services, says about sessions. None says nothing."""

    hours: int | None
    minutes_idle: int | None
    most: int | None


class SessionReach(Frozen):
    """Each number is counted up to a limit."""

    outlasted_sessions: int = 0
    """Sessions that work today, and that the change would end."""
    people_beyond: int = 0
    """People with more open sign-ins than the new number. The oldest go at the person's next sign-in."""
    includes_you: bool = False
    """A session of the person who asks is among them."""


NOBODY_REACHED = SessionReach()


def reaches_anybody(before: SessionLimits, after: SessionLimits) -> bool:
    """Whether the change can end sessions: something becomes shorter, or less."""
    return any(
        new is not None and (old is None or new < old)
        for old, new in ((before.hours, after.hours), (before.minutes_idle, after.minutes_idle), (before.most, after.most))
    )
