"""The mails that the tests send."""

from datetime import UTC, datetime
from uuid import UUID

from core.domain.identifiers import JobId
from core.domain.mail import Mail

ID = JobId(UUID("01936f5e-7a3c-7000-8000-0123456789ab"))
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
SENDER = "Postern <no-reply@id.example.org>"
LINK = "https://id.example.org/reset?token=very-secret-token"


class FixedClock:
    def now(self) -> datetime:
        return NOW


def mail(to: str = "alice@example.org", subject: str = "Reset your password") -> Mail:
    return Mail(to, subject, f"Follow {LINK}\n", f'<p><a href="{LINK}">Follow</a></p>\n')
