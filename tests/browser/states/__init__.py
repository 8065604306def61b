"""Every page in every state, for axe-core in the tests, and for the pictures of `python -m tests.browser.contact_sheet`.

A state is a template with made-up values. Other tests cover the flows. These states show a page with empty and long lists, with a wrong
field, and with names that are long or written from right to left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace as Thing
from typing import Any, Final
from uuid import UUID

from core.domain.branding import POSTERN, Branding, BrandLinks, Font, Look, logo_path
from core.domain.identifiers import OrganizationId
from core.domain.languages import Language
from core.domain.tenancy.members import Adding, ListedMembership
from entrypoints.http.pages.kit import shipped_pages

NOW: Final = datetime(2026, 11, 20, 23, 12, tzinfo=UTC)
# Longer than a line on a phone.
ORDINARY: Final = "anneliese.lovelace@mail.example.org"
LONG: Final = "a.rather.long.address.of.somebody@department-of-things.example.org"
# As long as names of roles may be.
LONG_ROLE: Final = "Revision der Niederlassungen im Norden, mit Einsicht in die Abrechnungen aller Abteilungen seit 1998"
ACME: Final = Branding("Acme Metals", color="#a01040")
# With all links at the foot of its pages.
LINKED: Final = Branding(
    "Acme Metals",
    color="#a01040",
    links=BrandLinks("https://acme.example/help", "https://acme.example/privacy", "https://acme.example/terms"),
)
# Too pale for links and for edges.
PALE: Final = Branding("Sunflower", color="#ffe066")
# In all that looks have. Two digests that the gallery knows how to draw.
DRESSED: Final = Branding(
    "Acme Metals",
    logo=logo_path("04a01040" + "0" * 56),
    color="#a01040",
    links=LINKED.links,
    look=Look(dark_logo="046fcabf" + "0" * 56, background="20a01040" + "0" * 56, second_color="#2d5ba6", corner=0, font=Font.SERIF),
)
ROUND: Final = Branding("Acme Metals", color="#2d5ba6", look=Look(corner=12, font=Font.GEOMETRIC))
ENDLESS: Final = Branding(
    "Gesellschaft für die Förderung außerordentlich langer Organisationsnamen mit beschränkter Haftung", color="#0b3d91"
)
FROM_THE_RIGHT: Final = Branding("ياسمين للتجارة", color="#5b2a86")


def listing(
    number: int,
    name: str,
    slug: str,
    role: str = "member",
    role_name: str = "",
    adding: Adding = Adding.OTHERS,
    *,
    unconfirmed: bool = False,
) -> ListedMembership:
    """A membership that others have made."""
    at, made = NOW - timedelta(days=2), number == 1
    return ListedMembership(OrganizationId(UUID(int=number)), slug, name, role, role_name, at, adding, made, unconfirmed)


# Of the installation, and of an organization.
TERMS: Final = [
    Thing(
        id="1",
        organization_name=name,
        version=version,
        address="https://acme.example/terms",
        due_at=NOW + timedelta(days=6),
        is_over=False,
        accepted_at=NOW - timedelta(days=2),
        in_force=in_force,
    )
    for name, version, in_force in (("", "2026-11", True), (ENDLESS.name, "A version with a label as long as it may", False))
]
TERMS_OVER: Final = [Thing(**{**vars(one), "is_over": True}) for one in TERMS]
LISTED: Final = [
    listing(1, ACME.name, "acme", adding=Adding.DIRECTORY),
    listing(2, ENDLESS.name, "endless-" + "e" * 42, "revision", LONG_ROLE, Adding.DOMAIN),
    listing(3, FROM_THE_RIGHT.name, "yasmin", "auditor", "محاسب الفرع الشمالي"),
    listing(4, "Globex", "globex", "owner"),
    listing(5, ENDLESS.name, "given-" + "e" * 44, "owner", unconfirmed=True),
]


@dataclass(frozen=True, slots=True)
class Words:
    """A text of the catalogue, in the language of the page."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    name: str
    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    brand: Branding = POSTERN

    def page(self, language: Language) -> bytes:
        return shipped_pages().page(self.template, language, brand=self.brand, **_said(self.values, language))


def _said(value: Any, language: Language) -> Any:
    match value:
        case Words():
            return shipped_pages().text(language)(value.key, **value.values)
        case dict():
            return {name: _said(one, language) for name, one in value.items()}
        case list():
            return [_said(one, language) for one in value]
        case tuple():
            return tuple(_said(one, language) for one in value)
        case _:
            return value


def states() -> Sequence[State]:
    from tests.browser.states import (  # noqa: PLC0415 - they are made from what stands here
        authorizing,
        devices,
        directories,
        leaving,
        mailed,
        newcomers,
        own_account,
        signing_in,
    )

    return [
        state
        for module in (signing_in, newcomers, authorizing, devices, mailed, directories, leaving, own_account)
        for state in module.STATES
    ]


def _control(number: int, label: str, kind: str = "text", value: str = "", error: str = "", **field: Any) -> Thing:
    """One field of a form of fields."""
    usual = {"label": label, "kind": Thing(value=kind), "required": False, "rule": Thing(choices=("Sales", "Support"))}
    return Thing(name=f"acme/{number}", id=f"field-1-{number}", field=Thing(**{**usual, **field}), text=value, error=error)


CONTROLS: Final = [
    _control(1, "Department", "choice", "Support", required=True),
    _control(2, "Grade", "number", "9", "Enter a number"),
    _control(3, "Hired", "date", "2026-03-01"),
    _control(4, "Likes mail", "boolean", "yes"),
    _control(5, "Tags", "list", "one\ntwo"),
    _control(6, LONG_ROLE, "text", LONG),
]
