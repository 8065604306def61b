"""Accounts: a person, by e-mail."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.secrets import Password

SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 128


@dataclass(frozen=True, slots=True)
class Account:
    id: UserId
    email: Email
    is_platform_owner: bool
    email_verified_at: datetime | None
    deactivated_at: datetime | None
    created_at: datetime


def require_acceptable(password: Password, email: Email) -> None:
    """Length and the most obvious guess. The list of common passwords is checked by the port that holds it."""
    text = password.reveal()
    if len(text) < SHORTEST_PASSWORD:
        raise BadRequest(f"The password must have at least {SHORTEST_PASSWORD} characters")
    if len(text) > LONGEST_PASSWORD:
        raise BadRequest(f"The password must have at most {LONGEST_PASSWORD} characters")
    if Email(text).key == email.key:
        raise BadRequest("The password must not be the e-mail address")
