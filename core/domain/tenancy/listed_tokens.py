"""The tokens in a person's own list of invitations. They are signed, and not stored."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.identifiers import InvitationId, SessionId, UserId
from core.domain.secrets import Token
from core.frozen import Frozen

# People answer soon after they have looked at the list. After this time they can open the list again.
LISTED_TOKEN_LIFETIME: Final = timedelta(minutes=15)


class ListedToken(Frozen):
    """The content of such a token. It is for this invitation and this person, and works as long as their session lives, until `expires_at`.
    `impersonator` is None when no impersonator asked for it.
    """

    invitation: InvitationId
    user: UserId
    session: SessionId
    impersonator: UserId | None
    expires_at: datetime

    def signed(self, key: bytes) -> Token:
        """The token is checked with the key alone, so nothing is stored."""
        said = b"".join(
            (
                self.invitation.bytes,
                self.user.bytes,
                self.session.bytes,
                (self.impersonator or _NOBODY).bytes,
                int(self.expires_at.timestamp()).to_bytes(_TIME_BYTES),
            )
        )
        return Token(urlsafe_b64encode(said + _signature(key, said)).rstrip(b"=").decode())


_NOBODY: Final = UUID(int=0)
_TIME_BYTES: Final = 8
_SAID: Final = 4 * 16 + _TIME_BYTES
_LENGTH: Final = -(-(_SAID + sha256().digest_size) * 4 // 3)


def read_listed_token(token: Token, key: bytes) -> ListedToken | None:
    """None when we did not sign the token; then it may be a mailed token. The caller checks the expiry."""
    text = token.reveal()
    if len(text) != _LENGTH or not text.isascii():
        return None
    try:
        read = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:  # The decoder skips characters outside its alphabet, and then finds too few.
        return None
    said, signature = read[:_SAID], read[_SAID:]
    if not hmac.compare_digest(signature, _signature(key, said)):
        return None
    invitation, user, session, impersonator = (UUID(bytes=said[at : at + 16]) for at in (0, 16, 32, 48))
    return ListedToken(
        InvitationId(invitation),
        UserId(user),
        SessionId(session),
        None if impersonator == _NOBODY else UserId(impersonator),
        datetime.fromtimestamp(int.from_bytes(said[64:]), UTC),
    )


def _signature(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, said, sha256)
