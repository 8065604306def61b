"""Forms that other sites send people here with, as the protocols want it: read as they are, and answered with a redirect to a GET of the
same parameters, because browsers send no cookies along with the form of another site (`SameSite=Lax`).
"""

from typing import Final
from urllib.parse import parse_qsl

from entrypoints.http.machinery.accepts import Raw
from entrypoints.http.machinery.errors import NotAsDeclared

FOREIGN_FORM: Final = Raw("application/x-www-form-urlencoded", 8 << 10)
"""Half of what the head of a request may have: the parameters come back in an address."""
_MOST_PARAMETERS: Final = 100


def pairs(encoded: bytes) -> list[tuple[str, str]]:
    """The parameters in their order, each as often as it was given. What cannot be decoded becomes U+FFFD, which no parameter may have."""
    try:
        return parse_qsl(encoded.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise NotAsDeclared("There are too many parameters") from None
