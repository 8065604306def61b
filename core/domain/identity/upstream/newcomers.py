"""Newcomers: people whom a further provider of the installation knows, and who have no account here that is connected to it. The provider's
word waits in the flow, until a code that was mailed shows whose address the new account gets.
"""

import hmac
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from core.domain.email import Email
from core.domain.identifiers import FlowId
from core.domain.identity.profile.profiles import StatedProfile
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.further_settings import Naming
from core.domain.json import Json
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.secrets import Secret
from core.frozen import Frozen, values_of

LIFETIME: Final = timedelta(minutes=30)
MOST_TRIES: Final = 5
"""For each code, the right one included."""
MOST_CODES: Final = 5
"""For each newcomer. Each ends the one before."""


class AddressNeeded(Exception):
    """The person is known to the provider alone. The provider's word waits in the flow."""


class WaitingNewcomer(Frozen, kw_only=True):
    flow: FlowId
    provider: str
    sealed_word: bytes
    email: str = ""
    """The address that the last code went to."""
    code_digest: bytes | None = None
    codes: int = 0
    tries: int = 0
    created_at: datetime
    expires_at: datetime

    @property
    def may_try(self) -> bool:
        return self.code_digest is not None and self.tries <= MOST_TRIES

    def is_code(self, code: Secret, key: bytes) -> bool:
        given = code_digest(code, self.flow, self.provider, Email(self.email), key)
        return self.code_digest is not None and hmac.compare_digest(self.code_digest, given)


def code_digest(code: Secret, flow: FlowId, provider: str, email: Email, key: bytes) -> bytes:
    """The keyed digest of a code. It counts only in this flow, for this provider's word and this address."""
    bound = flow.bytes + sha256(f"{provider} {email.key}".encode("utf-8", "surrogatepass")).digest() + code.reveal().encode()
    return hmac.digest(key, b"newcomer " + bound, sha256)


def word_context(flow: FlowId) -> str:
    return f"newcomers.sealed_word:{flow}"


def stored_word(asserted: Asserted) -> Json:
    """The provider's word without what a further provider's never says."""
    stated, at = asserted.stated, asserted.authenticated_at
    return {
        "issuer": asserted.issuer,
        "subject": asserted.subject,
        "email": asserted.email,
        "name": stated.name,
        "given_name": stated.given_name,
        "family_name": stated.family_name,
        "zoneinfo": stated.zoneinfo,
        # A process of the release before fails at a language that it does not know, so it finds the four here that it has.
        "language": stated.language.value if stated.language in CONSOLE_LANGUAGES else None,
        "locale": None if stated.language is None else stated.language.value,
        "authenticated_at": None if at is None else at.isoformat(),
        "naming": None if asserted.naming is None else dict(values_of(asserted.naming)),
    }


def restored_word(kept: dict[str, Any]) -> Asserted:
    """Reads what `stored_word` wrote."""
    language, at = kept.get("locale", kept["language"]), kept["authenticated_at"]
    # A process of the release before writes none: such a word counts for nobody, and its person begins again.
    naming = kept.get("naming")
    stated = StatedProfile(
        name=kept["name"],
        given_name=kept["given_name"],
        family_name=kept["family_name"],
        zoneinfo=kept["zoneinfo"],
        language=Language.of(language),
    )
    return Asserted(
        kept["issuer"],
        kept["subject"],
        kept["email"],
        stated=stated,
        authenticated_at=None if at is None else datetime.fromisoformat(at),
        naming=None if naming is None else Naming(**naming),
    )
