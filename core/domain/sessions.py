"""Sessions, and the caller that a valid one stands for."""

from dataclasses import dataclass, field
from datetime import datetime

from core.domain.email import Email
from core.domain.identifiers import SessionId, UserId


@dataclass(frozen=True, slots=True)
class Session:
    id: SessionId
    user: UserId
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: the token's claims, confirmed by the database for this request."""

    user: UserId
    email: Email
    session: SessionId
    is_platform_owner: bool
    organization: str = ""
    service: str = ""
    impersonator: UserId | None = None
    authentication_methods: tuple[str, ...] = field(default=())
