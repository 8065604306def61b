"""What an e-mail address looks like, in the words of the library `email-validator`. Nothing is looked up."""

from typing import Final

import email_validator

from core.domain.email import Email
from core.domain.errors import BadRequest

LONGEST: Final = 254  # RFC 5321 section 4.5.3.1.3, less the angle brackets

# The library refuses names that are not globally routable. A directory inside a company may well live under .local, and tests under .test.
for _name in ("local", "test"):
    email_validator.SPECIAL_USE_DOMAIN_NAMES.remove(_name)


class LibraryEmailSyntax:
    def parse(self, text: str) -> Email:
        if len(text) > LONGEST:
            raise BadRequest("The e-mail address is invalid", detail="too long")
        try:
            email_validator.validate_email(text, strict=True, check_deliverability=False)
        except email_validator.EmailNotValidError as error:
            raise BadRequest("The e-mail address is invalid", detail=type(error).__name__) from None
        return Email(text)
