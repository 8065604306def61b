"""The HTML part of a mail as a page.

Programs for mail want styles in attributes, and pages of ours let no such styles in. So the styles move into the one style sheet of the
mail, and the page lets this sheet in by its hash.
"""

import re
from base64 import b64encode
from hashlib import sha256
from typing import Final

from entrypoints.http.machinery.headers import PagePolicy

# In a program for mail, the mail is one article of many. Here it is what the page is about.
_ARTICLE: Final = '<div role="article"'
_MAIN: Final = '<div role="main"'
# Each value in a mail has its quotation marks escaped, so no value can be taken for an attribute.
_STYLE: Final = re.compile(r' style="([^"]*)"')


def mail_as_page(html: str) -> tuple[bytes, PagePolicy]:
    """The page, and the policy that lets its style sheet in."""
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f' data-style="{numbers.setdefault(found[1], len(numbers))}"'

    before, begin, rest = _STYLE.sub(numbered, html.replace(_ARTICLE, _MAIN, 1)).partition("<style>")
    sheet, end, after = rest.partition("</style>")
    sheet += "".join(f'[data-style="{number}"] {{ {style} }}\n' for style, number in numbers.items())
    digest = b64encode(sha256(sheet.encode()).digest()).decode()
    return f"{before}{begin}{sheet}{end}{after}".encode(), PagePolicy(styles=(f"'sha256-{digest}'",))
