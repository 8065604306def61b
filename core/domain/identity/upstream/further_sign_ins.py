"""Sign-ins by custom providers of the installation: users who are new, and responses by `form_post`."""

import hmac
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.formats import Json, fields_as_json
from core.domain.identifiers import FlowId
from core.domain.identity.profiles import StatedProfile
from core.domain.identity.upstream.claims import Asserted, stated_address
from core.domain.identity.upstream.providers import Naming
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.mail import Email
from core.domain.secrets import Secret
from core.frozen import Frozen, replace, values_of

NEWCOMER_LIFETIME: Final = timedelta(minutes=30)
MOST_TRIES: Final = 5
"""For each code, the right one included."""
MOST_CODES: Final = 5
"""For each newcomer. Each ends the one before."""


class AddressNeeded(Exception):
    """The person is known to the provider alone. The provider's word waits in the flow."""


class WaitingNewcomer(Frozen, kw_only=True):
    """A user whom a custom provider knows, and who has no account here that is linked to it. The provider's assertion waits in the flow,
    until a mailed code shows whose email address the new account gets.
    """

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
        **fields_as_json(asserted, ("issuer", "subject", "email")),
        **fields_as_json(stated, ("name", "given_name", "family_name", "zoneinfo")),
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


WAITS: Final = timedelta(minutes=1)
LONGEST_STATED: Final = 2000
LONGEST_ECHO: Final = 500
"""What the form says beside its code goes on in an address of ours, so it is no longer than this."""
LONGEST_PART: Final = 200


class PostedAnswer(Frozen, kw_only=True):
    """A response that a custom provider sends by a form of another site. Browsers send no cookies of ours with it. So the response is
    stored encrypted, and the browser returns with a code of ours by a redirect, as it does after a SAML response.
    """

    id: UUID
    provider: str
    code_digest: bytes
    """Of the code of ours that fetches it."""
    state_digest: bytes
    sealed: bytes
    expires_at: datetime


def answer_context(answer: UUID) -> str:
    return f"posted_answers.sealed_answer:{answer}"


def with_stated(asserted: Asserted, form: Json) -> Asserted:
    """The person with the name and the address that Apple states beside the code, the first time alone. The form came through the browser,
    so this is the person's own word: it fills what the provider has not said, and proves nothing.
    """
    if not isinstance(form, dict):
        return asserted
    name: Any = form.get("name")
    parts = [name.get(part) for part in ("firstName", "lastName")] if isinstance(name, dict) else [None, None]
    given, family = (part.strip() if isinstance(part, str) and _is_part(part.strip()) else None for part in parts)
    names = asserted.stated
    stated = replace(names, given_name=names.given_name or given, family_name=names.family_name or family)
    return replace(asserted, stated=stated, email=asserted.email or stated_address(form.get("email")))


def _is_part(text: str) -> bool:
    return 1 <= len(text) <= LONGEST_PART and text.isprintable()
