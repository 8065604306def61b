"""Logout notices: the message that a service gets when one of its sessions ends (OpenID Connect Back-Channel Logout 1.0), and when a failed
message is sent again.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from core.domain.identifiers import ClientId, LogoutNoticeId, SessionId, UserId
from core.domain.json import Json
from core.domain.record.deliveries import DeliveryRules, DueDelivery
from core.domain.secrets import Token
from core.frozen import Frozen

RULES: Final = DeliveryRules(
    # All attempts end within a day. By then most applications have ended the session by their own rules.
    pauses=(
        timedelta(minutes=1),
        timedelta(minutes=4),
        timedelta(minutes=15),
        timedelta(hours=1),
        timedelta(hours=3),
        timedelta(hours=6),
        timedelta(hours=10),
    ),
    # OpenID Connect Back-Channel Logout 1.0, section 2.8. Some frameworks turn an empty 200 into 204.
    received=(200, 204),
    # The receiver has read the token and refuses it. It would refuse the next one too.
    final=(400,),
)
# Short, because the receiver gets the token at once, and has to remember the token's id for its whole lifetime.
LIFETIME: Final = timedelta(minutes=2)
HEADERS: Final[Mapping[str, str]] = {"content-type": "application/x-www-form-urlencoded", "user-agent": "Postern-Logout"}
_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


class LogoutNotice(Frozen, kw_only=True):
    """A logout notice, as its organization sees it. `attempts` counts the attempts that have ended."""

    id: LogoutNoticeId
    session: SessionId
    user: UserId
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    status_code: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime


class DueNotice(DueDelivery):
    session: SessionId
    user: UserId


def logout_claims(due: DueNotice, *, client: ClientId, issuer: str, token_id: str, now: datetime) -> Mapping[str, Json]:
    """The claims of a logout token. `token_id` is new for each attempt: a receiver that has seen the id, and then failed, would take the
    next attempt for a repeat. There is no `nonce`, so that nobody can take the token for an ID token (section 2.4).
    """
    return {
        "iss": issuer,
        "aud": client,
        "iat": int(now.timestamp()),
        "exp": int((now + LIFETIME).timestamp()),
        "jti": token_id,
        "sub": str(due.user),
        "sid": str(due.session),
        "events": {_EVENT: {}},
    }


def body_of(token: Token) -> bytes:
    return urlencode({"logout_token": token.reveal()}).encode()
