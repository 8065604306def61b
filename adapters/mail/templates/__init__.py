"""The wording of mails: one text and one HTML template each, within a layout that all share. Nothing in a mail is fetched from anywhere,
except an organization's own logo.
"""

import re
from datetime import UTC, datetime
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from core.domain.branding import POSTERN, Branding
from core.domain.lines import one_line
from core.domain.mail import Mail

_SUBJECT: Final = "Subject: "
# Where a part of a text is left out, empty lines remain.
_GAP: Final = re.compile(r"\n{3,}")
_LONGEST_VALUE: Final = 300

Value = str | bool | datetime | None


class ShippedMailTemplates:
    """Implements `ports.mail_templates.MailTemplates`. `origin` is the address of this installation, which ends every mail."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def mail(self, name: str, to: str, *, branding: Branding = POSTERN, **values: Value) -> Mail:
        given = {
            # Only some mails have these values.
            "when": None,
            "address": None,
            "device": None,
            "location": None,
            **{one: _shown(value) for one, value in values.items()},
            "to": _shown(to),
            "branding": branding,
            "origin": self._origin,
        }
        text = _templates().get_template(f"{name}.txt").render(given)
        subject, _, text = text.partition("\n")
        html = _templates().get_template(f"{name}.html").render(given, subject=subject.removeprefix(_SUBJECT))
        return Mail(to, subject.removeprefix(_SUBJECT), _GAP.sub("\n\n", text.strip()) + "\n", html)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader(__name__, "."),
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: Value) -> str | bool | None:
    """The name that a person gives a device or an organization stays within its line."""
    if isinstance(value, datetime):
        at = value.astimezone(UTC)
        return f"{at.day} {at:%B %Y, %H:%M} UTC"
    if isinstance(value, str):
        line = one_line(value)
        return line if len(line) <= _LONGEST_VALUE else f"{line[:_LONGEST_VALUE]}…"
    return value
