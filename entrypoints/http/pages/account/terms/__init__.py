"""Terms on the pages: asked after a sign-in, and in the person's account."""

from collections.abc import Sequence
from uuid import UUID

from core.domain.identifiers import TermsId
from core.domain.identity.terms import PendingTerms, another_version


def shown_in(pending: Sequence[PendingTerms]) -> str:
    """What a page shows, for its form: whoever sends it accepts exactly these versions."""
    return " ".join(str(one.id) for one in pending)


def shown_terms(text: str) -> Sequence[TermsId]:
    """The versions in the form. Raises `Conflict` for a form that shows none."""
    try:
        shown = [TermsId(UUID(one)) for one in text.split()[:_MOST]]
    except ValueError:
        shown = []
    if not shown:
        raise another_version()
    return shown


# More than anybody is asked for on one page.
_MOST = 1000
