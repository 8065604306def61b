"""Short names, made from names: for addresses and programs. Whoever wants another chooses it.

A form that was sent twice makes one thing. So where another thing has the short name, nothing is made: the form comes back with the short
name that has a number, and the button makes it.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core.domain.errors import Conflict
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.pages.console.forms import Input

LONGEST: Final = 50
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9]+")
# The words of refusals of a short name that another thing has, or had.
_TAKEN: Final = frozenset({"service_slug_taken", "short_name_taken", "key_used_once"})


def slug_from(name: str, otherwise: str, separator: str = "-", number: int = 1) -> str:
    """A short name that says the name; from the second on, it has the number. Letters that have no form in ASCII are left out, and
    `otherwise` stands for a name that has no other letter. With `_` as separator, it begins with a letter, as keys of fields do.
    """
    plain = _NOT_IN_SLUGS.sub(separator, unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()).strip(separator)
    if separator == "_" and plain[:1].isdigit():
        plain = f"{otherwise}_{plain}"
    end = "" if number == 1 else f"{separator}{number}"
    return f"{(plain or otherwise)[: LONGEST - len(end)].strip(separator)}{end}"


def completed(inputs: Sequence[Input], form: Any, number: int = 1) -> BoundForm:
    """The form with the short names that were left empty."""
    made = {
        one.field: slug_from(getattr(form, one.derived.source), one.derived.otherwise, one.derived.separator, number)
        for one in inputs
        if one.derived is not None and not getattr(form, one.field).strip()
    }
    completed: BoundForm = msgspec.structs.replace(form, **made)
    return completed


def is_taken(problem: Exception) -> bool:
    """Whether another thing has the short name."""
    return isinstance(problem, Conflict) and problem.words in _TAKEN


def at_short_name(inputs: Sequence[Input], errors: Mapping[str, str]) -> Mapping[str, str]:
    """The errors about a short name that is taken, at its field."""
    return {next((one.field for one in inputs if one.derived is not None), ""): next(iter(errors.values()))}
