"""Decides what a directory sync does with each user whom an LDAP directory names. Every decision is about one user, and nothing here reads
or writes.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Final

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UpstreamProviderId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.claims import stated_address
from core.domain.identity.upstream.directories import read_attributes, readable
from core.domain.identity.upstream.ldap.answers import subject_from
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.ldap.surveys import LdapPerson
from core.domain.mail import Email, mail_domain
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace

_MOST_VALUES: Final = 50
_LONGEST_TEXT: Final = 200
LONGEST_NAMED: Final = 300
# The names that a person has in every schema here.
_GIVEN: Final = "givenName"
_FAMILY: Final = "sn"
_DISPLAY: Final = "displayName"
THROUGH_LDAP: Final = "ldap"


class WhyLeftOut(StrEnum):
    """Why a run does not do what the directory says of a person or a group."""

    NO_ADDRESS = "no_address"
    OTHER_DOMAIN = "other_domain"
    """The organization has not proved the domain of the address."""
    TWICE = "twice"
    """Another entry has the same identity."""
    ADDRESS_OF_ANOTHER = "address_of_another"
    """The address is that of somebody else: whoever gets an old address gets nobody's account with it."""
    ADDRESS_STAYS = "address_stays"
    """The person has proved the former address, or uses the account elsewhere: only they can change it."""
    LISTED_BY_SCIM = "listed_by_scim"
    LISTED_BY_ANOTHER = "listed_by_another"
    """Another directory by LDAP lists the person."""
    OTHER_IDENTITY = "other_identity"
    """The account is connected to somebody else at this directory."""
    NOT_FOR_ACCOUNT = "not_for_account"
    """The account has rights on the platform, about which no organization decides."""
    SHUT = "shut"
    """In runs of earlier releases alone: no organization learns that others have deactivated an account."""
    MAY_MORE = "may_more"
    """The person may do more than a member: change the role here first."""
    NO_ROOM = "no_room"
    """The organization has as many members as it may have."""
    GROUP_STAYS = "group_stays"
    """The directory names this group no more, and too many others: whoever means it deletes the team here."""


class PersonFate(StrEnum):
    COMES = "comes"
    RETURNS = "returns"
    CHANGES = "changes"
    ENDS = "ends"
    STAYS = "stays"


class ReasonForEnd(StrEnum):
    GONE = "gone"
    """The directory does not name the person any more, or the filter leaves them out."""
    DISABLED = "disabled"


class RunDirectory(Frozen):
    """The directory as events name it. Implements `ListingDirectory`."""

    connection: UpstreamProviderId
    organization: OrganizationId

    @property
    def facts(self) -> Mapping[str, Json]:
        return {"through": THROUGH_LDAP, "upstream_provider_id": str(self.connection)}


class PersonInDirectory(Frozen, kw_only=True):
    """A person as a directory names them now."""

    external_id: bytes
    """The text by which a sign-in knows the person, as bytes."""
    dn: str
    email: str
    """Empty when the entry has no usable address."""
    given_name: str | None
    family_name: str | None
    display_name: str | None
    fields: Mapping[str, Json]
    is_disabled: bool

    @property
    def subject(self) -> str:
        return self.external_id.decode()

    @property
    def named(self) -> str:
        """How an administrator finds the person."""
        return (self.email or self.dn)[:LONGEST_NAMED]

    @property
    def called(self) -> str:
        """How a plan names the person: by name and address."""
        name = self.display_name or " ".join(one for one in (self.given_name, self.family_name) if one)
        return (f"{name} <{self.email}>" if name and self.email else self.named)[:LONGEST_NAMED]

    @property
    def digest(self) -> bytes:
        """Of all that is kept here, so that a run writes what has changed and nothing else."""
        said = [self.email, self.given_name, self.family_name, self.display_name, dict(self.fields)]
        return sha256(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


class KnownPerson(Frozen, kw_only=True):
    """What an earlier run has kept of a person."""

    external_id: bytes
    email_key: str
    """That of the account."""
    digest: bytes
    is_active: bool


class MetAccount(Frozen, kw_only=True):
    """The account that an identity or an address of a directory leads to, and what decides about it."""

    external_id: bytes
    """Whom the directory names."""
    account: Account
    """With who has deactivated it."""
    listed_as: bytes | None
    """The identity by which this directory lists the account."""
    was_active: bool
    """It was, at the last run."""
    is_scims: bool
    is_anothers: bool
    has_other_identity: bool
    may_more: bool
    is_own: bool
    is_movable: bool
    is_member: bool
    is_kept: bool
    """An owner has decided that the person is the organization's own member, whatever this directory says."""
    address_is_taken: bool
    """Somebody else has the address that the directory states."""

    @property
    def user(self) -> UserId:
        return self.account.id

    @property
    def is_listed_as_named(self) -> bool:
        return self.listed_as == self.external_id


class PersonDecision(Frozen, kw_only=True):
    person: PersonInDirectory
    fate: PersonFate
    met: MetAccount | None = None
    moves: bool = False
    """The account goes to the address that the directory states."""
    left_out: WhyLeftOut | None = None
    """Why something that the directory says is not done. With `STAYS`, nothing is done."""
    why: ReasonForEnd | None = None


def run_attributes(settings: LdapSettings, mapping: Mapping[str, str]) -> Collection[str]:
    return list(dict.fromkeys((*read_attributes(settings, mapping), _GIVEN, _FAMILY, _DISPLAY)))


def external_id(identity: bytes, settings: LdapSettings) -> bytes:
    """The identity as a sign-in keeps it, as bytes."""
    return subject_from(identity, settings.identity_attribute).encode()


def named_person(settings: LdapSettings, mapping: Mapping[str, str], read: LdapPerson) -> PersonInDirectory:
    fields: dict[str, Json] = {}
    for attribute, key in readable(mapping).items():
        values = list(read.values.get(attribute.lower(), ()))[:_MOST_VALUES]
        fields[key] = None if not values else values[0] if len(values) == 1 else list[Json](values)
    address = stated_address(_first(read, settings.address_attribute) or "").strip()
    return PersonInDirectory(
        external_id=external_id(read.identity, settings),
        dn=read.dn,
        email=address if "@" in address[1:-1] else "",
        given_name=_text(read, _GIVEN),
        family_name=_text(read, _FAMILY),
        display_name=_text(read, _DISPLAY),
        fields=fields,
        is_disabled=read.is_disabled,
    )


def is_unchanged(person: PersonInDirectory, known: KnownPerson) -> bool:
    """Nothing about the person needs a second look."""
    if not known.is_active:
        return person.is_disabled
    return not person.is_disabled and person.digest == known.digest and Email(person.email).key == known.email_key


def asked_about(person: PersonInDirectory, domains: Collection[str]) -> PersonInDirectory:
    """The person as accounts are looked for: by no address outside these domains, or a directory would hold others by naming them."""
    return person if _of_address(person, domains) is None else replace(person, email="")


def decided(person: PersonInDirectory, met: MetAccount | None, domains: Collection[str]) -> PersonDecision:
    """`met` is None for somebody whom nobody knows here: no run has listed them, and nobody has the address."""
    if met is not None and met.is_listed_as_named:
        return _of_listed(person, met, domains)
    if person.is_disabled:
        return PersonDecision(person=person, fate=PersonFate.STAYS)
    refusal = _of_address(person, domains) or (None if met is None else _of_account(met))
    if refusal is not None:
        return PersonDecision(person=person, fate=PersonFate.STAYS, met=met, left_out=refusal)
    return PersonDecision(person=person, fate=PersonFate.COMES, met=met)


def decided_together(
    people: Sequence[PersonInDirectory], met: Mapping[bytes, MetAccount], domains: Collection[str], room: int
) -> Sequence[PersonDecision]:
    """The decisions about people who are written together. Nobody gets an address that another of them has got, or an account that another
    of them is led to. `room` is for how many more members there is room.
    """
    taken, led, decisions = set[str](), set[UserId](), list[PersonDecision]()
    for person in people:
        account = met.get(person.external_id)
        one = decided(person, account, domains)
        comes = one.fate in {PersonFate.COMES, PersonFate.RETURNS}
        key = Email(person.email).key
        if (comes and account is None and key in taken) or (one.moves and key in taken) or (account is not None and account.user in led):
            one, comes = PersonDecision(person=person, fate=PersonFate.STAYS, met=account, left_out=WhyLeftOut.ADDRESS_OF_ANOTHER), False
        needs_room = comes and (account is None or not account.is_member)
        if needs_room and room <= 0:
            one, needs_room = PersonDecision(person=person, fate=PersonFate.STAYS, met=account, left_out=WhyLeftOut.NO_ROOM), False
        room -= needs_room
        if one.fate is not PersonFate.STAYS:
            taken.add(key)
            led |= set() if account is None else {account.user}
        decisions.append(one)
    return decisions


def comes_without_scim(person: PersonInDirectory, met: MetAccount, domains: Collection[str]) -> bool:
    """Whether nothing but SCIM keeps this directory from listing the person."""
    if not met.is_scims:
        return False
    one = decided(person, replace(met, is_scims=False), domains)
    return one.fate in {PersonFate.COMES, PersonFate.RETURNS}


def _of_listed(person: PersonInDirectory, met: MetAccount, domains: Collection[str]) -> PersonDecision:
    if person.is_disabled:
        if not met.was_active:
            return PersonDecision(person=person, fate=PersonFate.STAYS, met=met)
        return PersonDecision(person=person, fate=PersonFate.ENDS, met=met, why=ReasonForEnd.DISABLED)
    moves, left_out = False, _of_address(person, domains)
    if left_out is None and Email(person.email).key != met.account.email.key:
        if met.address_is_taken:
            left_out = WhyLeftOut.ADDRESS_OF_ANOTHER
        elif not met.is_movable:
            left_out = WhyLeftOut.ADDRESS_STAYS
        else:
            moves = True
    if met.was_active:
        return PersonDecision(person=person, fate=PersonFate.CHANGES, met=met, moves=moves, left_out=left_out)
    if met.is_kept and met.is_member:
        return PersonDecision(person=person, fate=PersonFate.STAYS, met=met)
    refusal = left_out or _of_others(met)
    if refusal is not None:
        return PersonDecision(person=person, fate=PersonFate.STAYS, met=met, left_out=refusal)
    return PersonDecision(person=person, fate=PersonFate.RETURNS, met=met, moves=moves)


def _of_address(person: PersonInDirectory, domains: Collection[str]) -> WhyLeftOut | None:
    if not person.email:
        return WhyLeftOut.NO_ADDRESS
    return None if mail_domain(Email(person.email)) in domains else WhyLeftOut.OTHER_DOMAIN


def _of_account(met: MetAccount) -> WhyLeftOut | None:
    if met.listed_as is not None:
        return WhyLeftOut.ADDRESS_OF_ANOTHER
    if met.account.is_platform_owner:
        return WhyLeftOut.NOT_FOR_ACCOUNT
    if met.has_other_identity:
        return WhyLeftOut.OTHER_IDENTITY
    # What nobody but SCIM stands against comes last: an owner may take these people over.
    return _of_others(met)


def _of_others(met: MetAccount) -> WhyLeftOut | None:
    if met.is_anothers:
        return WhyLeftOut.LISTED_BY_ANOTHER
    return WhyLeftOut.LISTED_BY_SCIM if met.is_scims else None


def _first(read: LdapPerson, attribute: str) -> str | None:
    values = read.values.get(attribute.lower(), ())
    return values[0] if values else None


def _text(read: LdapPerson, attribute: str) -> str | None:
    text = (_first(read, attribute) or "").strip()
    return text if 0 < len(text) <= _LONGEST_TEXT and text.isprintable() else None


def names_changed(user: UserId, directory: RunDirectory, actor: Actor) -> Event:
    """The directory says something else of the person. The event has no values."""
    facts = {"changed": ["name"], **directory.facts}
    return Event("user.profile.updated", actor, Target("user", str(user)), directory.organization, facts)
