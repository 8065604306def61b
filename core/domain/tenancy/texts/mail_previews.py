"""Mails that people look at before others get them: in their own words, with their own values, and with a link that does nothing."""

from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import NotFound
from core.domain.texts.open_texts import OPEN

# By name, as the templates have them: the mails in which own texts can stand.
MAILS: Final = frozenset(text.page for text in OPEN.values() if text.place.is_mail)
_CODE: Final = "12345678"
_EXAMPLE: Final = "Example"
_OPEN_FOR: Final = timedelta(days=7)


def require_mail(name: str) -> str:
    """Raises `NotFound`."""
    if name not in MAILS:
        raise NotFound(f"There is no such mail; there are {', '.join(sorted(MAILS))}", words="mail_unknown")
    return name


def values_of(name: str, reader: str, link: str, now: datetime) -> dict[str, str | datetime]:
    """What stands in the placeholders. The reader is the person who looks, also where the mail names somebody who has invited."""
    match name:
        case "invitation":
            return {"link": link, "inviter": reader, "until": now + _OPEN_FOR, "application": "", "application_logo": ""}
        case "newcomer_code":
            return {"code": _CODE, "provider": _EXAMPLE}
        case _:
            return {"link": link}
