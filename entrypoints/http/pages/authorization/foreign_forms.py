"""Forms by which other sites send people here, as the protocols require. Browsers send no cookies with the form of another site
(`SameSite=Lax`). So we only read such a form, and answer with a redirect to a GET with the same parameters.
"""

from typing import Final
from urllib.parse import parse_qsl

from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.errors import NotAsDeclared

FOREIGN_FORM: Final = Raw("application/x-www-form-urlencoded", 8 << 10)
"""Half of the limit for a request's head, since the parameters come back in an address."""
_MOST_PARAMETERS: Final = 100


def pairs(encoded: bytes) -> list[tuple[str, str]]:
    """The parameters in their order, repeated ones included. Bytes that are not UTF-8 become U+FFFD, which no parameter may contain."""
    try:
        return parse_qsl(encoded.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise NotAsDeclared("There are too many parameters") from None
