"""A SAML response as it was parsed, before anything in it is trusted. The adapter parses; `judgements` decides what it must contain."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from core.domain.identity.upstream.claims import LONGEST_SUBJECT
from core.domain.identity.upstream.connection_tests import Check, CheckName
from core.domain.identity.upstream.saml import faults
from core.domain.identity.upstream.saml.assertions import NAME_ID, AttributeMapping, DirectoryPerson, Expected, ReceivedAttribute
from core.domain.identity.upstream.saml.faults import passed, shown
from core.domain.saml import DirectoryNameId, NameIdFormat
from core.frozen import Frozen


class ReceivedResponse(Frozen, kw_only=True):
    """The outside of the answer, which may be unsigned."""

    id: str
    destination: str | None
    in_response_to: str | None
    issuer: str | None
    status: str
    """The URI of the first status code."""
    status_below: str = ""
    status_message: str = ""
    signed: bool
    """The response itself has a signature, which nobody has verified yet."""
    encrypted: bool


class ReceivedConfirmation(Frozen, kw_only=True):
    """One way in which somebody may bring the assertion: the method bearer."""

    recipient: str | None
    in_response_to: str | None
    not_before: str | None
    not_on_or_after: str | None


class ReceivedProxying(Frozen, kw_only=True):
    """`ProxyRestriction`: who may be told on the ground of this assertion."""

    count: str | None = None
    audiences: Sequence[str] = ()


class ReceivedConditions(Frozen, kw_only=True):
    not_before: str | None = None
    not_on_or_after: str | None = None
    audiences: Sequence[Sequence[str]] = ()
    """Each restriction has several audiences. Every restriction must name us."""
    unknown: Sequence[str] = ()
    proxies: Sequence[ReceivedProxying] = ()


class ReceivedStatement(Frozen, kw_only=True):
    authn_instant: str | None
    session_index: str | None
    session_not_on_or_after: str | None
    context_class: str | None


class ReceivedAssertion(Frozen, kw_only=True):
    """The content of a verified element, and nothing of what stands around it."""

    id: str
    issue_instant: str
    issuer: str
    name_id: DirectoryNameId | None
    confirmations: Sequence[ReceivedConfirmation]
    conditions: ReceivedConditions
    statement: ReceivedStatement | None
    attributes: Sequence[ReceivedAttribute]


class AnswerProof(Frozen, kw_only=True):
    """How the content was verified."""

    what: str
    """What is signed, for people: "the assertion"."""
    algorithm: str
    """The name of the method, for people: "RSA with SHA-256"."""
    fingerprint: str
    valid_from: datetime
    valid_until: datetime
    encryption: str
    """The name of the method, for people. Empty for an answer that is not encrypted."""


_LONGEST_ADDRESS: Final = 320
_LONGEST_NAME: Final = 200


def read_person(said: ReceivedAssertion, expected: Expected) -> tuple[DirectoryPerson | None, Sequence[Check]]:
    """The person, and the checks of subject, address and attributes. None when one of these failed.

    Reads the user from an assertion by the connection's attribute mapping.
    """
    mapping = expected.mapping
    about_subject, about_address = _subject(said, expected), _address(said, mapping)
    values = {part: _first_of(getattr(mapping, part), said) for part in ("given_name", "family_name", "name", "groups")}
    checks = (about_subject, about_address, _attributes(mapping, values, said))
    if about_subject.fault or about_address.fault:
        return None, checks
    person = DirectoryPerson(
        subject=_values(mapping.subject, said)[0],
        email=next(iter(_first_of(mapping.email, said)), ""),
        given_name=_name(values["given_name"]),
        family_name=_name(values["family_name"]),
        name=_name(values["name"]),
        groups=values["groups"],
        fields={key: found for attribute, key in mapping.fields.items() if (found := _values(attribute, said))},
    )
    return person, checks


def _subject(said: ReceivedAssertion, expected: Expected) -> Check:
    source = expected.mapping.subject
    wanted = "NameID" if source == NAME_ID else source
    values = _values(source, said)
    if not values:
        return faults.NO_SUBJECT.found(came=_names(said.attributes), expected=wanted)
    if len(values) > 1:
        return faults.SEVERAL_SUBJECTS.found(came=str(len(values)), expected=f"{wanted} with one value")
    name_id = said.name_id if source == NAME_ID else None
    fault = None if name_id is None else _name_id_fault(name_id, expected)
    if fault is not None:
        return fault
    subject = values[0]
    if len(subject) > LONGEST_SUBJECT or not subject.isprintable():
        return faults.UNUSABLE_SUBJECT.found(came=subject, expected=wanted, personal=True)
    words = "The subject that identifies people is present."
    if name_id is not None and name_id.format == NameIdFormat.EMAIL.value:
        words += " It is an email address: if it is assigned to another person later, that person gets access to this account."
    return passed(CheckName.SUBJECT, words, came=subject, expected=wanted, personal=True)


def _name_id_fault(name_id: DirectoryNameId, expected: Expected) -> Check | None:
    if name_id.format == NameIdFormat.TRANSIENT.value:
        return faults.PASSING_SUBJECT.found(came=name_id.format, expected=NameIdFormat.PERSISTENT.value)
    for qualifier, ours in ((name_id.name_qualifier, expected.issuer), (name_id.sp_name_qualifier, expected.entity_id)):
        # The same text may be another person's, beside another qualifier.
        if qualifier and qualifier != ours:
            return faults.FOREIGN_SUBJECT.found(came=qualifier, expected=ours)
    return None


def _address(said: ReceivedAssertion, mapping: AttributeMapping) -> Check:
    wanted = " or ".join("NameID" if one == NAME_ID else one for one in mapping.email)
    if not mapping.email:
        words = "The mapping has no attribute for the email address, so only people who are already linked can sign in."
        return passed(CheckName.ADDRESS, words)
    values = _first_of(mapping.email, said)
    if not values:
        return faults.NO_ADDRESS.found(came=_names(said.attributes), expected=wanted)
    address = values[0]
    before, at, domain = address.rpartition("@")
    if len(address) > _LONGEST_ADDRESS or not address.isprintable() or " " in address or not (before and at and domain):
        return faults.UNUSABLE_ADDRESS.found(came=address, expected=wanted, personal=True)
    return passed(CheckName.ADDRESS, "An email address was received.", came=address, expected=wanted, personal=True)


def _attributes(mapping: AttributeMapping, values: Mapping[str, Sequence[str]], said: ReceivedAssertion) -> Check:
    missing = [f"{part} ({' or '.join(getattr(mapping, part))})" for part, found in values.items() if getattr(mapping, part) and not found]
    missing += [f"{key} ({attribute})" for attribute, key in mapping.fields.items() if not _values(attribute, said)]
    words = f"No value was received for: {shown(', '.join(missing))}." if missing else "Every attribute of the mapping was received."
    return passed(CheckName.ATTRIBUTES, words, came=_names(said.attributes))


def _first_of(sources: Sequence[str], said: ReceivedAssertion) -> Sequence[str]:
    """The values of the first source that came."""
    return next((values for source in sources if (values := _values(source, said))), ())


def _values(source: str, said: ReceivedAssertion) -> Sequence[str]:
    if source == NAME_ID:
        return () if said.name_id is None or not said.name_id.text else (said.name_id.text,)
    return tuple(value for one in said.attributes if one.name == source for value in one.values if value)


def _name(values: Sequence[str]) -> str:
    return values[0] if values and len(values[0]) <= _LONGEST_NAME and values[0].isprintable() else ""


def _names(attributes: Sequence[ReceivedAttribute]) -> str:
    return ", ".join(one.name for one in attributes) or "no attributes"
