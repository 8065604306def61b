"""Mailed codes: eight digits beside the link in a mail, to type in the browser that asked for the mail. A code belongs to the link's row
and does what the link does. The first use of one of the two ends both.
"""

import hmac
import unicodedata
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import FlowId
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Secret, Token

DIGITS: Final = "0123456789"
LENGTH: Final = 8
LONGEST_TYPED: Final = 32
"""A form may send this many characters, since a pasted code may come with spaces and hyphens."""
MOST_TRIES: Final = 5
"""For each mail, the right code included. Afterwards only the link works."""

# For each address, over all of its mails and whether or not it has an account. Right codes count too: nobody gets more mails than this.
MAILED_CODES: Final = RateLimit("mailed_codes", burst=10, seconds_per_request=300)


class CodeRefused(BadRequest):
    """The code is wrong, or no longer works. The answer is the same for every address, also for one without an account."""

    def __init__(self) -> None:
        super().__init__("This code is wrong, or it no longer works", words="mailed_code_refused")


def read_code(typed: str) -> Secret:
    """Reads what a person has typed or pasted. Spaces and hyphens do not matter. Raises `BadRequest`, which is no try."""
    kept = "".join(character for character in typed if not character.isspace() and unicodedata.category(character) not in {"Pd", "Cf"})
    if len(kept) != LENGTH or not set(kept) <= set(DIGITS):
        raise BadRequest(f"code: must have {LENGTH} digits", words="mailed_code_malformed")
    return Secret(kept)


def code_digest(code: Secret, link: bytes, flow: FlowId, email: Email, key: bytes) -> bytes:
    """The keyed digest of a code, for the link with this digest. All codes can be tried in a minute, so the key is one that the database
    alone does not give away. The code counts only in this flow, and only while the flow is about this address.
    """
    bound = link + flow.bytes + code.reveal().encode() + email.key.encode("utf-8", "surrogatepass")
    return hmac.digest(key, b"code " + bound, sha256)


def exchanged_token(code: Secret, link: bytes, browser: Secret, key: bytes) -> Token:
    """The token that takes the link's place, for a page that goes on with a token. It is derived, because a browser that sends its form
    twice drops the first answer, and must find the same token in the second.
    """
    bound = link + browser.reveal().encode("utf-8", "surrogatepass") + code.reveal().encode()
    return Token(urlsafe_b64encode(hmac.digest(key, b"exchange " + bound, sha256)).rstrip(b"=").decode())
