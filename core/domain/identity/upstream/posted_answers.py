"""Answers that a further provider sends by a form of another site. Browsers send no cookies of ours with it. So the answer waits, sealed,
and the browser comes back with a code of ours by a redirect, as it does from a directory by SAML.
"""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from core.domain.identity.upstream.claims import Asserted, stated_address
from core.domain.json import Json
from core.frozen import Frozen, replace

WAITS: Final = timedelta(minutes=1)
LONGEST_STATED: Final = 2000
LONGEST_ECHO: Final = 500
"""What the form says beside its code goes on in an address of ours, so it is no longer than this."""
LONGEST_PART: Final = 200


class PostedAnswer(Frozen, kw_only=True):
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
