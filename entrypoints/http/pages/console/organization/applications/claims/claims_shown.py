"""Claims as pages explain them: each with its value and its source, each missing one with the reason."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from entrypoints.http.pages.console.cells import Tone, in_words
from entrypoints.http.pages.console.visit import PageVisit

_SOURCES: Final = frozenset(
    {
        *("token", "account", "profile", "membership", "person_field", "organization_field", "roles", "permissions", "teams"),
        *("organization", "plan", "features", "constant"),
    }
)


class ShownClaim(NamedTuple):
    name: str
    value: str
    source: str
    """In the reader's language, with the field that the value comes from."""


class ShownPlace(NamedTuple):
    title: str
    claims: Sequence[ShownClaim]
    missing: Sequence[ShownClaim]
    """In place of the value, the reason."""


def places_of(visit: PageVisit, preview: Any) -> Sequence[ShownPlace]:
    """The tokens and answers of a preview."""
    named = (("id_token", preview.id_token), ("userinfo", preview.userinfo), ("access_token", preview.access_token), ("saml", preview.saml))
    return [_place(visit, name, place) for name, place in named if place is not None]


def _place(visit: PageVisit, name: str, place: Any) -> ShownPlace:
    return ShownPlace(
        in_words("into", name, visit.text),
        [ShownClaim(one.name, _value(one.value), _source(visit, one.source, one.about)) for one in place.claims],
        [ShownClaim(one.name, one.reason, _source(visit, one.source, None)) for one in place.missing],
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _source(visit: PageVisit, source: str, about: str | None) -> str:
    said = visit.text(f"console.source.{source}") if source in _SOURCES else source
    return f"{said}: {about}" if about else said


def verdict_of(visit: PageVisit, preview: Any) -> tuple[str, str, Tone]:
    """Whether the person may sign in, the rule that decides, and the tone of both."""
    may, outcome = (preview.sign_in.may_sign_in, "yes" if preview.sign_in.may_sign_in else "no")
    rule = visit.text(f"console.preview.{preview.sign_in.rule}_{outcome}")
    return visit.text(f"console.preview.may_{outcome}"), rule, Tone.GOOD if may else Tone.BAD
