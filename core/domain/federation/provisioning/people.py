"""Decides which users an application's system gets by SCIM, with which attributes. Every decision is about one user, and nothing here reads
or writes.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from core.domain.claims import (
    NO_FACTS,
    OF_ACCOUNT,
    OF_PROFILE,
    ClaimPlace,
    ClaimSource,
    DescribedPerson,
    OrganizationPart,
    Said,
    ServiceClaim,
    ServiceFacts,
    StandardProfile,
    ToldClaim,
    WithheldClaim,
    needs_scope,
    service_told,
    values,
)
from core.domain.federation.oauth.oidc import person_said
from core.domain.federation.oauth.resources import PROFILE, SCOPES
from core.domain.federation.provisioning.connections import MappedAttribute, ProvisioningSource
from core.domain.federation.scim.protocol import ENTERPRISE_SCHEMA, USER_SCHEMA
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.mail import Email
from core.frozen import Frozen, replace, shared

EXTERNAL_ID: Final = "externalId"
USER_NAME: Final = "userName"
ACTIVE: Final = "active"
LONGEST_FAR_ID: Final = 200
LONGEST_VALUE: Final = 1000
_WORK: Final = "work"


class PlaceThere(StrEnum):
    """The last known state of a person in the target system."""

    SENT = "sent"
    LEFT_OUT = "left_out"
    """We have decided against it."""
    REFUSED = "refused"
    """The other system has."""
    TO_END = "to_end"
    """A stop holds the end, or the end has failed."""
    TO_DELETE = "to_delete"
    """The person was forgotten or deleted here, and this is not done there yet."""


class WhyNotThere(StrEnum):
    """Why a person who should be there is not, or is not as we have it."""

    NO_USER_NAME = "no_user_name"
    """The mapping has no value for it."""
    ADDRESS_NOT_PROVED = "address_not_proved"
    """Somebody there has the name of this person, and the address does not count here: see `OutwardPerson.address_counts`."""
    OF_ANOTHER = "far_id_of_another"
    """The one there is another of our people."""
    OTHER_EXTERNAL_ID = "other_external_id"
    """The one there is tied to something else by an `externalId`. An owner may let the person take it over."""
    AMBIGUOUS = "ambiguous"
    """Several there are this person."""
    OTHER_ID = "other_id"
    """The answer named another one than was asked for. So nothing counts."""
    REFUSED = "refused"
    TAKEN = "uniqueness"
    """The name is taken there, by somebody whom no question finds."""
    NO_ANSWER = "no_answer"
    """The other system did not answer, or with an error of its own. It is tried again."""


class WhyGone(StrEnum):
    """Why a person is not provisioned."""

    NO_MEMBER = "no_member"
    NOT_ADMITTED = "not_admitted"
    """The application asks for a role that the person does not hold."""
    NOT_CHOSEN = "not_chosen"
    """The person is in none of the chosen teams."""
    BLOCKED = "blocked"
    """The organization's own directory has deactivated the account."""
    LOCKED = "locked"
    FORGOTTEN = "forgotten"


class SentPerson(Frozen, kw_only=True):
    """What we have kept of a person in the other system."""

    user: UserId
    far_id: str | None
    digest: bytes | None
    """Of what was sent last. None: it is not known, so the next look compares."""
    is_active: bool
    place: PlaceThere
    why: str | None = None
    user_name: str | None = None
    tries: int = 0
    kept_there: Collection[str] = ()
    """Attributes for which we have had no value since the person was made or matched there. What stands there stays until we have one."""


class OutwardPerson(Frozen, kw_only=True):
    """A person as the organization of the application may know them today, and what was sent of them."""

    user: UserId
    email: Email
    email_is_verified: bool
    """Proved, or vouched for here."""
    is_vouched_for: bool
    """The organization itself vouches for the address: by its own provider, or because it has verified the domain."""
    is_member: bool
    is_own_member: bool
    is_admitted: bool
    is_chosen: bool
    """In one of the chosen teams; true where none are chosen."""
    is_blocked_here: bool
    is_locked: bool
    is_forgotten: bool
    consented: Sequence[str] | None
    organization: OrganizationId
    organization_slug: str
    profile: StandardProfile
    listed: StandardProfile
    """The names that the organization's own directory gives."""
    facts: ServiceFacts
    """With the fields that the mapping names."""
    sent: SentPerson | None = None

    @property
    def why_gone(self) -> WhyGone | None:
        """None for somebody who belongs there. A deactivation by the platform is none of the organization's knowledge, and neither is the
        lock of somebody whom it only lists.
        """
        if self.is_forgotten:
            return WhyGone.FORGOTTEN
        if not self.is_member:
            return WhyGone.NO_MEMBER
        if self.is_blocked_here:
            return WhyGone.BLOCKED
        if self.is_locked and self.is_own_member:
            return WhyGone.LOCKED
        if not self.is_admitted:
            return WhyGone.NOT_ADMITTED
        return None if self.is_chosen else WhyGone.NOT_CHOSEN

    @property
    def address_counts(self) -> bool:
        """Whether the person may be matched by the address. Of whoever the organization merely lists, its own word alone counts: the
        person's own proof would tell it that there is an account with this address, and when its owner came.
        """
        return self.email_is_verified if self.is_own_member else self.is_vouched_for

    @property
    def allowed(self) -> Sequence[str]:
        """The scopes of the person's own values: all with an own membership, and otherwise those of the consent for this application."""
        return SCOPES if self.is_own_member else (self.consented or ())


_PROFILE_CLAIM: Final[Mapping[ProvisioningSource, str]] = {
    ProvisioningSource.NAME: "name",
    ProvisioningSource.GIVEN_NAME: "given_name",
    ProvisioningSource.FAMILY_NAME: "family_name",
    ProvisioningSource.USER_NAME: "preferred_username",
    ProvisioningSource.LANGUAGE: "locale",
    ProvisioningSource.ZONEINFO: "zoneinfo",
}
_CLAIM_SOURCE: Final[Mapping[ProvisioningSource, ClaimSource]] = {
    ProvisioningSource.ORGANIZATION_FIELD: ClaimSource.ORGANIZATION_FIELD,
    ProvisioningSource.PERSON_FIELD: ClaimSource.PERSON_FIELD,
    ProvisioningSource.ROLES: ClaimSource.ROLES,
    ProvisioningSource.TEAMS: ClaimSource.TEAMS,
    ProvisioningSource.CONSTANT: ClaimSource.CONSTANT,
    ProvisioningSource.ROLE: ClaimSource.ORGANIZATION,
}


_described: Final = shared(OutwardPerson, DescribedPerson, "facts")


def said_there(person: OutwardPerson, mapping: Sequence[MappedAttribute], *, issuer: str) -> Sequence[Said]:
    """What a mapping tells of a person, by attribute, and the reasons for what is missing: the functions of tokens decide (0080)."""
    claims = [
        ServiceClaim(one.attribute, _CLAIM_SOURCE[one.source], _argument(one), (ClaimPlace.SAML,))
        for one in mapping
        if one.source in _CLAIM_SOURCE
    ]
    described = DescribedPerson(**_described(person), role=person.facts.role, facts=replace(person.facts, claims=claims))
    # A name of an attribute that tokens reserve is no statement of a token here, as in an assertion.
    told = {one.name: one for one in service_told(ClaimPlace.SAML, described, person.allowed)}
    plain = replace(described, facts=NO_FACTS)
    own = {one.name: one for one in person_said((PROFILE,), plain, ClaimPlace.SAML, issuer=issuer)}
    listed = values(person_said((PROFILE,), replace(plain, profile=person.listed), ClaimPlace.SAML, issuer=issuer))
    return [_said(one, person, told, own, listed) for one in mapping]


def _argument(one: MappedAttribute) -> Json:
    return OrganizationPart.ROLE if one.source is ProvisioningSource.ROLE else one.argument


def _said(
    one: MappedAttribute, person: OutwardPerson, told: Mapping[str, Said], own: Mapping[str, Said], listed: Mapping[str, Json]
) -> Said:
    if one.source is ProvisioningSource.ADDRESS:
        return ToldClaim(one.attribute, person.email.address, OF_ACCOUNT)
    if one.source in _CLAIM_SOURCE:
        return told[one.attribute]
    name = _PROFILE_CLAIM[one.source]
    if PROFILE in person.allowed and isinstance(found := own[name], ToldClaim):
        return ToldClaim(one.attribute, found.value, OF_PROFILE, scope=PROFILE)
    if listed.get(name) is not None:
        return ToldClaim(one.attribute, listed[name], "directory")
    reason = needs_scope(PROFILE) if PROFILE not in person.allowed else "There is no value"
    return WithheldClaim(one.attribute, OF_PROFILE, reason, PROFILE)


Value = str | bool | None
Wanted = Mapping[str, Value]
"""What the other system should have of a person: one value by attribute, and None where it should have none."""


def wanted_there(person: OutwardPerson, mapping: Sequence[MappedAttribute], left_out: Collection[str], *, issuer: str) -> Wanted:
    told = values(said_there(person, [one for one in mapping if one.attribute not in left_out], issuer=issuer))
    wanted: dict[str, str | bool | None] = {
        one.attribute: _text(told.get(one.attribute)) for one in mapping if one.attribute not in left_out
    }
    return {**wanted, EXTERNAL_ID: str(person.user), ACTIVE: True}


def _text(value: Json) -> str | None:
    if value is None or (not value and not isinstance(value, bool | int | float)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_text, value)))[:LONGEST_VALUE] or None
    if isinstance(value, Mapping):
        return json.dumps(value, sort_keys=True)[:LONGEST_VALUE]
    return str(value)[:LONGEST_VALUE]


def digest_there(wanted: Wanted, rewritten: Collection[str] = ()) -> bytes:
    """Of all that the other system should have, so that a person whom nothing changed is not sent. `rewritten` is what that system makes
    something else of: it would differ for ever.
    """
    compared = [(name, _comparable(name, value)) for name, value in wanted.items() if value is not None and name not in rewritten]
    said = json.dumps(sorted(compared), ensure_ascii=True)
    return sha256(said.encode()).digest()[:16]


def _comparable(name: str, value: Value) -> str | bool | None:
    return value.casefold() if name == USER_NAME and isinstance(value, str) else value


class AttributePlace(Frozen):
    """Where an attribute stands in a resource: `name.givenName`, `emails[type eq "work"].value`, or after the name of the schema of
    enterprises.
    """

    attribute: str
    part: str | None
    type: str | None
    is_of_enterprises: bool


_PATH: Final = re.compile(r"(?P<attribute>[A-Za-z][\w-]*)(?:\[type eq \"(?P<type>\w+)\"\])?(?:\.(?P<part>[A-Za-z$][\w-]*))?")


@lru_cache(maxsize=256)
def place_of(path: str) -> AttributePlace:
    of_enterprises = path.startswith(f"{ENTERPRISE_SCHEMA}:")
    found = _PATH.fullmatch(path.removeprefix(f"{ENTERPRISE_SCHEMA}:"))
    if found is None:
        raise ValueError(path)
    if found["attribute"] == "emails" and found["part"] is None:
        return AttributePlace("emails", "value", _WORK, False)
    return AttributePlace(found["attribute"], found["part"], found["type"], of_enterprises)


def resource_of(wanted: Wanted, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The resource with what is wanted: a new one, or one of theirs, of which everything else stays."""
    resource: dict[str, Any] = {} if base is None else json.loads(json.dumps(base))
    for name, value in wanted.items():
        place = place_of(name)
        into = resource
        if place.is_of_enterprises:
            into = _inner(resource, ENTERPRISE_SCHEMA)
        if place.type is not None:
            _set_entry(into, place, value)
        elif place.part is not None:
            _set(_inner(into, place.attribute), place.part, value)
        else:
            _set(into, place.attribute, value)
    for name in [name for name, value in resource.items() if value in ({}, [])]:
        del resource[name]
    schemas = [USER_SCHEMA, *([ENTERPRISE_SCHEMA] if ENTERPRISE_SCHEMA in resource else [])]
    theirs = resource.get("schemas")
    resource["schemas"] = [*theirs, *(one for one in schemas if one not in theirs)] if isinstance(theirs, list) else schemas
    return resource


def _inner(resource: dict[str, Any], name: str) -> dict[str, Any]:
    key = _key(resource, name)
    inner = resource.get(key)
    if not isinstance(inner, dict):
        inner = resource[key] = {}
    return inner


def _key(resource: Mapping[str, Any], name: str) -> str:
    """The key as it is written there: names of attributes have no letter case (RFC 7643 section 2.1)."""
    if name in resource:
        return name
    folded = name.casefold()
    return next((key for key in resource if key.casefold() == folded), name)


def _set(resource: dict[str, Any], name: str, value: Value) -> None:
    key = _key(resource, name)
    if value is None:
        resource.pop(key, None)
    else:
        resource[key] = value


def _set_entry(resource: dict[str, Any], place: AttributePlace, value: Value) -> None:
    key = _key(resource, place.attribute)
    entries = resource.get(key)
    entries = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    mine = _entry(entries, place.type)
    if value is None:
        entries = [one for one in entries if one is not mine]
    elif mine is None:
        entries.append({"value": value, "type": place.type, **({"primary": True} if place.attribute == "emails" and not entries else {})})
    else:
        mine["value"] = value
    resource[key] = entries


def entries_with(resource: Mapping[str, Any], name: str, value: Value) -> Sequence[Any]:
    """The entries of a list of theirs, as `emails`, with this value in the one that the name means. The others stay."""
    place, changed = place_of(name), resource_of({name: value}, resource)
    entries: Sequence[Any] = changed[_key(changed, place.attribute)]
    return entries


def _entry(entries: Sequence[Any], wanted: str | None) -> Any:
    typed = [one for one in entries if isinstance(one, dict) and str(one.get("type") or _WORK).casefold() == wanted]
    return next((one for one in typed if one.get("primary") is True), typed[0] if typed else None)


def found_at(resource: Mapping[str, Any], name: str) -> str | bool | None:
    """What a resource of theirs has at this attribute."""
    place = place_of(name)
    value: Any = resource
    if place.is_of_enterprises:
        value = value.get(_key(value, ENTERPRISE_SCHEMA))
    value = value.get(_key(value, place.attribute)) if isinstance(value, Mapping) else None
    if place.type is not None:
        value = _entry(value, place.type) if isinstance(value, list) else None
    if place.part is not None or place.type is not None:
        part = place.part or "value"
        value = value.get(_key(value, part)) if isinstance(value, Mapping) else value if isinstance(value, str) else None
    if name == ACTIVE:
        # Without it, a person is active (RFC 7643 section 4.1.1 leaves that to them).
        return str(value).casefold() != "false"
    return _text(value) if isinstance(value, str | bool | int | float) else None


def kept_as_they_are(wanted: Wanted, kept: Collection[str]) -> Wanted:
    """What is wanted, without the attributes of which we keep what stands there, because we have no value."""
    return {name: value for name, value in wanted.items() if value is not None or name not in kept}


def without_value(wanted: Wanted) -> Collection[str]:
    """The attributes for which there is no value here."""
    return tuple(name for name, value in wanted.items() if value is None)


def found_there(resource: Mapping[str, Any], names: Collection[str]) -> Wanted:
    return {name: found_at(resource, name) for name in names}


def differing(wanted: Wanted, resource: Mapping[str, Any]) -> Sequence[str]:
    """The attributes that are not there as they are wanted."""
    there = found_there(resource, wanted)
    return [name for name, value in wanted.items() if _comparable(name, value) != _comparable(name, there[name])]


class FarIdentity(Frozen, kw_only=True):
    """By what one of theirs is known, and who of ours it is."""

    far_id: str
    external_id: str | None
    user_name: str | None
    is_active: bool = True
    owner: UserId | None = None
    """Whom of ours we have sent as this one."""


def is_still_there(person: OutwardPerson, sent: SentPerson, theirs: FarIdentity) -> bool:
    """Whether the one with the id that we keep is still the person. Another token can lead to another tenant of the same host, where the id
    is somebody else's: an `externalId` that is not ours says so, unless the name is still the one that we sent.
    """
    if theirs.external_id in {None, "", str(person.user)}:
        return True
    return sent.user_name is not None and (theirs.user_name or "").casefold() == sent.user_name.casefold()


def met_there(person: OutwardPerson, wanted: Wanted, found: Sequence[FarIdentity]) -> FarIdentity | WhyNotThere | None:
    """Which of those found there is this person. None: nobody, so the person is made. An `externalId` that names the person counts before
    everything; the address counts only where it `address_counts`, or whoever lists an address here would get the account of its owner
    there.
    """
    name = str(wanted.get(USER_NAME) or "").casefold()
    named = {one.far_id: one for one in found if one.external_id == wanted[EXTERNAL_ID]}
    chosen = named or {one.far_id: one for one in found if (one.user_name or "").casefold() == name}
    if len(chosen) != 1:
        return WhyNotThere.AMBIGUOUS if chosen else None
    (one,) = chosen.values()
    if one.owner not in {None, person.user}:
        return WhyNotThere.OF_ANOTHER
    if named or one.owner == person.user:
        return one
    # First the address: whom an owner may let take an account over is told by the other reason alone.
    if not (person.address_counts and name == person.email.address.casefold()):
        return WhyNotThere.ADDRESS_NOT_PROVED
    return WhyNotThere.OTHER_EXTERNAL_ID if one.external_id else one
