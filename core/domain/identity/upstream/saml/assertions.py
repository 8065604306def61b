"""What a directory has said about a person. It exists only for an answer that passed every check."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from core.domain.json import Json
from core.domain.saml.messages import DirectoryNameId
from core.frozen import Frozen


class ReceivedAttribute(Frozen, kw_only=True):
    name: str
    friendly_name: str | None = None
    """For people who read the test page. It identifies no attribute (SAML core, section 2.7.3.1)."""
    values: Sequence[str] = ()


class SigningCertificate(Frozen, kw_only=True):
    """The certificate that verified the signature."""

    fingerprint: str
    """SHA-256, in hexadecimal digits."""
    valid_until: datetime


class DirectoryAssertion(Frozen, kw_only=True):
    id: str
    """For one use: the pair of `issuer` and `id` may count once until `usable_until`."""
    usable_until: datetime
    issuer: str
    name_id: DirectoryNameId | None
    attributes: Sequence[ReceivedAttribute]
    authenticated_at: datetime
    session_index: str | None
    session_ends_at: datetime | None
    """`SessionNotOnOrAfter`: the directory wants the session to end by then."""
    context_class: str | None
    signed_by: SigningCertificate
    encrypted: bool
    issued_at: datetime | None = None
    refuses_applications: bool = False
    """`ProxyRestriction`: the person may be signed in to our own pages, and to no application."""

    def values(self, name: str) -> Sequence[str]:
        """The values of an attribute, by its exact name. Empty when the directory sent none."""
        return tuple(value for one in self.attributes if one.name == name for value in one.values)


class DirectoryPerson(Frozen, kw_only=True):
    """The person, read from an assertion by the connection's mapping."""

    subject: str
    """The name by which the connection recognises the person, and which must never be given to another person."""
    email: str = ""
    given_name: str = ""
    family_name: str = ""
    name: str = ""
    groups: Sequence[str] = ()
    fields: Mapping[str, Sequence[str]] = {}
    """The values of the attributes that the organization's mapping names, by the keys of its fields."""


class Asserting(Frozen, kw_only=True):
    """An assertion and its person: what a sign-in takes."""

    assertion: DirectoryAssertion
    person: DirectoryPerson

    def stored(self) -> Mapping[str, Json]:
        """The form in which a checked answer waits for its browser. It contains personal data, so it is sealed."""
        said, name_id, person = self.assertion, self.assertion.name_id, self.person
        return {
            "id": said.id,
            "usable_until": said.usable_until.isoformat(),
            "issuer": said.issuer,
            "name_id": None if name_id is None else [name_id.text, name_id.format, name_id.name_qualifier, name_id.sp_name_qualifier],
            "attributes": [[one.name, one.friendly_name, list(one.values)] for one in said.attributes],
            "authenticated_at": said.authenticated_at.isoformat(),
            "session_index": said.session_index,
            "session_ends_at": None if said.session_ends_at is None else said.session_ends_at.isoformat(),
            "context_class": said.context_class,
            "signed_by": [said.signed_by.fingerprint, said.signed_by.valid_until.isoformat()],
            "encrypted": said.encrypted,
            "refuses_applications": said.refuses_applications,
            "issued_at": None if said.issued_at is None else said.issued_at.isoformat(),
            "person": {
                "subject": person.subject,
                "email": person.email,
                "given_name": person.given_name,
                "family_name": person.family_name,
                "name": person.name,
                "groups": list(person.groups),
                "fields": {key: list(values) for key, values in person.fields.items()},
            },
        }


def restored(kept: Mapping[str, Any]) -> Asserting:
    """Reads the form that `Asserting.stored` made."""
    name_id, ends, person = kept["name_id"], kept["session_ends_at"], kept["person"]
    return Asserting(
        assertion=DirectoryAssertion(
            id=kept["id"],
            usable_until=datetime.fromisoformat(kept["usable_until"]),
            issuer=kept["issuer"],
            name_id=None
            if name_id is None
            else DirectoryNameId(text=name_id[0], format=name_id[1], name_qualifier=name_id[2], sp_name_qualifier=name_id[3]),
            attributes=tuple(
                ReceivedAttribute(name=name, friendly_name=friendly, values=tuple(values)) for name, friendly, values in kept["attributes"]
            ),
            authenticated_at=datetime.fromisoformat(kept["authenticated_at"]),
            session_index=kept["session_index"],
            session_ends_at=None if ends is None else datetime.fromisoformat(ends),
            context_class=kept["context_class"],
            signed_by=SigningCertificate(fingerprint=kept["signed_by"][0], valid_until=datetime.fromisoformat(kept["signed_by"][1])),
            encrypted=kept["encrypted"],
            # An answer that a process of the release before keeps says nothing of it.
            refuses_applications=kept.get("refuses_applications", False),
            issued_at=None if kept.get("issued_at") is None else datetime.fromisoformat(kept["issued_at"]),
        ),
        person=DirectoryPerson(
            subject=person["subject"],
            email=person["email"],
            given_name=person["given_name"],
            family_name=person["family_name"],
            name=person["name"],
            groups=tuple(person["groups"]),
            fields={key: tuple(values) for key, values in person["fields"].items()},
        ),
    )
