"""Fields that several endpoints take, beyond what their types say."""

from typing import Annotated

import msgspec

from core.domain.email import Email
from core.domain.errors import BadRequest
from ports.accounts import EmailSyntax

# Of an organization or a service. Longer ones do not exist.
Slug = Annotated[str, msgspec.Meta(max_length=50)]


def email_field(text: str, syntax: EmailSyntax) -> Email:
    """Raises `BadRequest`, which names the field."""
    try:
        return syntax.parse(text)
    except BadRequest as refusal:
        raise BadRequest("email: not a valid e-mail address", detail=refusal.detail) from None
