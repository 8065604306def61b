"""Browser sessions that are bound to a key of the browser (W3C Device Bound Session Credentials, draft of 17 February 2026)."""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import BoundKeyId, SessionId, UserId
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Token
from core.frozen import Frozen

PURPOSE: Final = "bound_sessions"
"""The name of the key that signs cookies and challenges."""
COOKIE_LIFETIME: Final = timedelta(minutes=10)
CHALLENGE_LIFETIME: Final = timedelta(minutes=5)
ALGORITHMS: Final = ("ES256", "RS256")
LONGEST_PROOF: Final = 4 << 10
"""In characters. A proof by the largest key that counts, with this key in its header, has some 1700."""
LONGEST_ID: Final = 40
LONGEST_COOKIE: Final = 200
REFUSALS_LOGGED: Final = timedelta(hours=1)
"""The log has a wrong signature this seldom, for each session of a key."""
# A challenge that was given out this lately is given out again: a browser signs it in a second or two, and whoever asks for many has no
# other challenge replaced.
GIVEN_AGAIN: Final = timedelta(minutes=1)
_COOKIE: Final = re.compile(r"(?P<key>[0-9a-f]{32})\.(?P<kind>[ko])\.(?P<at>[0-9]{1,12})\.(?P<mac>[A-Za-z0-9_-]{43})")
_REGISTRATION: Final = re.compile(r"(?P<key>[0-9a-f]{32})\.(?P<session>[0-9a-f]{32})\.(?P<at>[0-9]{1,12})\.(?P<mac>[A-Za-z0-9_-]{43})")
_KEPT, _OFFERED = "k", "o"
_OUT_OF_SCOPE: Final = ("/api", "/oauth/token", "/docs", "/assets")


class BindingRule(StrEnum):
    """Whether browsers are offered to bind their sessions. A browser that can keep a key in its device registers one after a sign-in. From
    then on the session is valid only beside a second cookie, which lasts ten minutes and names the key. The browser renews this cookie with
    a proof: a JSON Web Token with our challenge, signed with the key. A thief of the cookies lacks the key, and loses access after ten
    minutes.
    """

    OFF = "off"
    OFFER = "offer"


class ShownBinding(Frozen):
    """What the second cookie of a browser says."""

    key: BoundKeyId
    is_kept: bool
    """The browser has registered the key. Otherwise it is one that the browser was offered with its sign-in."""


class OfferedBinding(Frozen):
    """What the challenge of a registration says: the sign-in that it belongs to, and the key's id."""

    key: BoundKeyId
    session: SessionId


class BindingOffer(Frozen):
    """What the answer to a sign-in offers a browser."""

    challenge: str
    cookie: Token
    """Names the key that is not there yet, so that requests which are under way while the browser registers it still count."""


class NewBoundKey(Frozen):
    id: BoundKeyId
    algorithm: str
    public_key: str
    created_at: datetime


class BindingChallenge(Frozen):
    text: str
    at: datetime

    def counts(self, text: str, now: datetime) -> bool:
        return hmac.compare_digest(self.text.encode(), text.encode("utf-8", "surrogatepass")) and self.is_younger(CHALLENGE_LIFETIME, now)

    def is_younger(self, age: timedelta, now: datetime) -> bool:
        return now - self.at < age


class BindingChallenges(Frozen):
    """The last two that a key was given. One that a proof has used is none of them."""

    newest: BindingChallenge | None = None
    former: BindingChallenge | None = None

    def counts(self, text: str, now: datetime) -> bool:
        return any(one is not None and one.counts(text, now) for one in (self.newest, self.former))

    def to_give(self, now: datetime) -> str | None:
        """The one that a browser is asked to sign. None when it has to be a new one."""
        return self.newest.text if self.newest is not None and self.newest.is_younger(GIVEN_AGAIN, now) else None


class BoundKey(Frozen):
    """A key, as a renewal finds it."""

    id: BoundKeyId
    algorithm: str
    public_key: str
    challenges: BindingChallenges
    has_sessions: bool
    """A session that is bound to it lives."""
    is_replaced: bool
    """The session in use in the browser that asks is bound to another key, so this one serves nobody there: a browser has one such cookie,
    and would go on renewing the wrong one.
    """


class BindingProof(Frozen):
    """What a proof says."""

    algorithm: str
    challenge: str
    public_key: str | None
    """The key in its header. It counts in a registration alone."""


class BindingProofRefused(Exception):
    """The message says why, for the log."""


class BindingOutcome(StrEnum):
    """What became of a request to register or to renew, for the metric."""

    REGISTERED = "registered"
    RENEWED = "renewed"
    ASKED = "asked"
    """Without a proof: the browser was given a challenge."""
    LATE = "late"
    """The challenge was too old, or none of the last two."""
    USED = "used"
    """Another proof has used the challenge a moment before, such as that of another tab."""
    FORGED = "forged"
    """The key has not signed the proof."""
    REFUSED = "refused"
    """No registration: no such offer, or a key was taken already."""
    OVER = "over"
    """No session is bound to the key any more."""


def cookie_of(key: BoundKeyId, now: datetime, secret: bytes, *, is_kept: bool) -> Token:
    """Returns the second cookie. Neither the cookie nor the challenge of a registration has a row: a server key signs them."""
    said = f"{key.hex}.{_KEPT if is_kept else _OFFERED}.{int(now.timestamp())}"
    return Token(f"{said}.{_mac('cookie', said, secret)}")


def read_cookie(text: str, now: datetime, secret: bytes) -> ShownBinding | None:
    """None for a cookie that is none of ours, or too old."""
    found = _COOKIE.fullmatch(text) if len(text) <= LONGEST_COOKIE else None
    if found is None or not _is_signed("cookie", text, secret) or not _is_young(found["at"], COOKIE_LIFETIME, now):
        return None
    return ShownBinding(BoundKeyId(UUID(found["key"])), found["kind"] == _KEPT)


def registration_challenge(key: BoundKeyId, session: SessionId, now: datetime, secret: bytes) -> str:
    """Returns the challenge of a registration. The proof names a session, so the challenge is useless to anyone else."""
    said = f"{key.hex}.{session.hex}.{int(now.timestamp())}"
    return f"{said}.{_mac('registration', said, secret)}"


def read_registration(challenge: str, now: datetime, secret: bytes) -> OfferedBinding | None:
    """None for a challenge that is none of ours, or too old."""
    found = _REGISTRATION.fullmatch(challenge) if len(challenge) <= LONGEST_COOKIE else None
    if found is None or not _is_signed("registration", challenge, secret) or not _is_young(found["at"], CHALLENGE_LIFETIME, now):
        return None
    return OfferedBinding(BoundKeyId(UUID(found["key"])), SessionId(UUID(found["session"])))


def _is_signed(kind: str, text: str, secret: bytes) -> bool:
    said, _, mac = text.rpartition(".")
    return hmac.compare_digest(mac.encode(), _mac(kind, said, secret).encode())


def _mac(kind: str, said: str, secret: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(secret, f"{kind} {said}".encode(), sha256)).rstrip(b"=").decode()


def _is_young(seconds: str, lifetime: timedelta, now: datetime) -> bool:
    return now.timestamp() - int(seconds) < lifetime.total_seconds()


def instructions(key: BoundKeyId, cookie_name: str, attributes: str, refresh_path: str, registration_path: str) -> Mapping[str, Json]:
    """What the browser does from now on (section "JSON Session Instruction Format" of the draft). Applications of any site lead people
    here, so requests that any site begins may renew the cookie.
    """
    excluded = [{"type": "exclude", "path": path} for path in (*_OUT_OF_SCOPE, registration_path)]
    return {
        "session_identifier": str(key),
        "refresh_url": refresh_path,
        "scope": {"include_site": False, "scope_specification": excluded},
        "credentials": [{"type": "cookie", "name": cookie_name, "attributes": attributes}],
        "allowed_refresh_initiators": ["*"],
    }


OVER: Final[Mapping[str, Json]] = {"continue": False}
"""Ends the browser's part: nothing here is bound to its key any more."""


def session_bound(user: UserId, session: SessionId, algorithm: str, actor: Actor) -> Event:
    details = {"session_id": str(session), "algorithm": algorithm}
    return Event("security.session.bound", actor, Target("user", str(user)), details=details)


def proof_refused(user: UserId, session: SessionId, actor: Actor) -> Event:
    return Event("security.session.proof_refused", actor, Target("user", str(user)), details={"session_id": str(session)})
