"""Which e-mail addresses are valid: those that the library `email-validator` accepts and that mail can be sent to. The check uses no
network.
"""

import unicodedata
from typing import Final

import email_validator

from adapters.mail_address import MailAddress, MalformedAddress, ascii_domain
from core.domain.errors import BadRequest
from core.domain.mail import Email

LONGEST: Final = 254  # RFC 5321 section 4.5.3.1.3, less the angle brackets

# The library refuses names that are not globally routable. But a company's own directory may well use .local, and tests use .test.
for _name in ("local", "test"):
    email_validator.SPECIAL_USE_DOMAIN_NAMES.remove(_name)


class LibraryEmailSyntax:
    def parse(self, text: str) -> Email:
        if len(text) > LONGEST:
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
    if key_local != unicodedata.normalize("NFC", local.casefold()) or (key_local.isascii() and not local.isascii()):
        return False
    try:
        return ascii_domain(domain) == ascii_domain(key_domain) == validated_domain
    except UnicodeError:
        return False
