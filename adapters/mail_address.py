"""Validates email addresses, for registration and for sending."""

import re
import unicodedata
from typing import Final, Self

import email_validator

from core.domain.errors import BadRequest
from core.domain.mail import LONGEST_LABEL, Email
from core.domain.normal_forms import LONGEST_NORMALIZED, NotNormalized, normalized
from core.frozen import Frozen

# The beginning of an RFC 2047 encoded word. The standard library decodes such a word anywhere in a value that we set, and writes the
# decoded text with its line breaks: `=?utf-8?q?=0D=0ABcc:...` would become a header.
ENCODED_WORD: Final = "=?"
# RFC 5321, 4.5.3.1: 64 octets before the @, and 254 for the whole address, since a path has 256 with its angle brackets.
_LONGEST_LOCAL: Final = 64
_LONGEST_ADDRESS: Final = 254
# RFC 5322 dot-atom, with other scripts as RFC 6531 allows. Quoted local parts are legal, but nobody uses them and programs stumble over
# them, so they are refused.
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-]+"
_LOCAL_PART: Final = re.compile(rf"{_ATOM}(\.{_ATOM})*")
_DOMAIN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
# Unicode categories: letters, marks, numbers, punctuation and symbols. Spaces, controls, joiners and unassigned characters are refused.
_VISIBLE_CATEGORIES: Final = "LMNPS"
# Invisible characters within the visible categories: joiners, fillers, variation selectors, blanks of Braille, music and old scripts, and
# replacement characters.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\ufffd"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


class MalformedAddress(ValueError):
    """Mail cannot be sent to this address. The text says why, and does not quote the address."""


class MailAddress(Frozen):
    """An address that mail can be sent to, as SMTP writes it: the local part in NFC, as RFC 6532 section 3.1 asks, the domain in ASCII.
    Registration and mail use the same rule, so that no user waits for a mail in vain.
    """

    local: str
    domain: str

    @classmethod
    def parse(cls, text: str) -> Self:
        if len(text) > _LONGEST_ADDRESS:
            raise MalformedAddress("it is too long")
        local, _, domain = text.rpartition("@")
        try:
            local = normalized(local, "NFC", LONGEST_ADDRESS)
        except NotNormalized:
            raise MalformedAddress("the part before the @ is too long, or has too many marks") from None
        if not _is_local_part(local):
            raise MalformedAddress("the part before the @ is malformed")
        try:
            domain = ascii_domain(domain)
        except UnicodeError:
            raise MalformedAddress("the part after the @ is no host name") from None
        if not _DOMAIN.fullmatch(domain):
            raise MalformedAddress("the part after the @ is no host name")
        if len(local.encode()) > _LONGEST_LOCAL or len(local.encode()) + 1 + len(domain) > _LONGEST_ADDRESS:
            raise MalformedAddress("it is too long")
        return cls(local, domain)

    @property
    def is_international(self) -> bool:
        return not self.local.isascii()

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}"


def ascii_domain(domain: str) -> str:
    """Raises UnicodeError."""
    if any(len(label) > LONGEST_LABEL for label in domain.split(".")):
        # To encode a label takes time that grows with the square of its length.
        raise UnicodeError("a label is too long")
    return domain.encode("idna").decode("ascii").lower()


def _is_local_part(text: str) -> bool:
    if not _LOCAL_PART.fullmatch(text) or ENCODED_WORD in text or _INVISIBLE.search(text):
        return False
    # A combining mark at the beginning of an atom would change the look of the dot or text before the atom.
    return all(unicodedata.category(character)[0] in _VISIBLE_CATEGORIES for character in text) and not any(
        unicodedata.category(atom[0])[0] == "M" for atom in text.split(".")
    )


LONGEST_ADDRESS: Final = 254  # RFC 5321 section 4.5.3.1.3, less the angle brackets

# The library refuses names that are not globally routable. But a company's own directory may well use .local, and tests use .test.
for _name in ("local", "test"):
    email_validator.SPECIAL_USE_DOMAIN_NAMES.remove(_name)


class LibraryEmailSyntax:
    """Accepts email addresses that the library `email-validator` accepts and that mail can be sent to. The check uses no network."""

    def parse(self, text: str) -> Email:
        if len(text) > LONGEST_ADDRESS:
            raise BadRequest("The e-mail address is invalid", words="address_invalid", detail="too long")
        try:
            validated = email_validator.validate_email(text, strict=True, check_deliverability=False)
        except email_validator.EmailNotValidError as error:
            raise BadRequest("The e-mail address is invalid", words="address_invalid", detail=type(error).__name__) from None
        try:
            MailAddress.parse(text)
        except MalformedAddress as reason:
            raise BadRequest(
                "The e-mail address is invalid", words="address_invalid", detail=f"mail cannot be sent there: {reason}"
            ) from None
        email = Email(text)
        if not _is_one_mailbox(email, validated.ascii_domain):
            raise BadRequest("The e-mail address is invalid", words="address_invalid", detail="compared or mailed as another address")
        return email


def _is_one_mailbox(email: Email, validated_domain: str | None) -> bool:
    """Whether the address, its key, and the address that mail is sent to all mean the same mailbox.

    The key of an address has plain letters instead of ligatures and wide letters. So a person who registered an address with such letters
    would keep the owner of the plain address out, and would receive the mails that the owner asks for. Mail still uses IDNA 2003, which
    turns some names of IDNA 2008 into other names: `straße` becomes `strasse`. Owners of such domains can write their domain in ASCII.
    """
    local, _, domain = email.address.rpartition("@")
    key_local, _, key_domain = email.key.rpartition("@")
    try:
        plain = normalized(local.casefold(), "NFC", LONGEST_NORMALIZED)
    except NotNormalized:
        return False
    if key_local != plain or (key_local.isascii() and not local.isascii()):
        return False
    try:
        return ascii_domain(domain) == ascii_domain(key_domain) == validated_domain
    except UnicodeError:
        return False
