"""What a valid e-mail address is: for the library `email-validator`, and for mail, which has to arrive. Nothing is looked up."""

import unicodedata
from typing import Final

import email_validator

from adapters.mail_address import MailAddress, MalformedAddress, ascii_domain
from core.domain.email import Email
from core.domain.errors import BadRequest

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

    A ligature or a wide letter is compared as the plain one. So a person who registers an address with one would keep the owner of the
    plain address out, and receive the mails that the owner asks for. In domains, IDNA 2008 knows names that IDNA 2003, which mail still
    uses, takes for others: `straße` for `strasse`. Their owners can write them in ASCII.
    """
    local, _, domain = email.address.rpartition("@")
    key_local, _, key_domain = email.key.rpartition("@")
    if key_local != unicodedata.normalize("NFC", local.casefold()) or (key_local.isascii() and not local.isascii()):
        return False
    try:
        return ascii_domain(domain) == ascii_domain(key_domain) == validated_domain
    except UnicodeError:
        return False
