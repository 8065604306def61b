"""A mail, ready to be sent: every mail has a text and an HTML part."""

from dataclasses import dataclass

from core.domain.jobs import NewJob

MAIL_JOB = "mail"


@dataclass(frozen=True, slots=True)
class Mail:
    to: str
    subject: str
    text: str
    html: str

    def as_job(self) -> NewJob:
        """Sealed, since a mail carries links that let their holder in."""
        return NewJob(MAIL_JOB, {"to": self.to, "subject": self.subject, "text": self.text, "html": self.html}, sealed=True)
