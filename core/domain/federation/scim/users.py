"""SCIM users: the attributes that a directory may set, and how its changes are applied."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol

from core.domain.errors import Forbidden
from core.domain.federation.scim.mappings import (
    MAPPABLE,
    NOTHING_MAPPED,
    ScimMapping,
    filled,
    is_of_enterprises,
    is_other_address,
    is_unkept,
    stated_at,
    stated_in,
)
from core.domain.federation.scim.protocol import (
    USER_SCHEMA,
    InvalidPath,
    InvalidSyntax,
    InvalidValue,
    ListedElsewhere,
    Mutability,
    NoTarget,
    PatchOperation,
    Path,
    Verb,
    fields_of,
    parse_path,
    require_operations,
    text_of,
    truth,
)
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import Frozen, replace

FIELD_SCHEMA: Final = "urn:ietf:params:scim:schemas:extension:postern:User"
"""The extension with the organization's fields that its directory may write. The name has no dot, which would begin a part of it."""
WORK: Final = "work"
_LONGEST_EMAIL: Final = 254
# The limit of addresses in one request. Only one of them is stored.
_MOST_EMAILS: Final = 50
# The limit of changes, by operations with a path and without one.
_MOST_CHANGES: Final = 1000
# For each organization. Each addition sends a mail to an address that somebody typed in the directory.
ADDITIONS: Final = RateLimit("scim_additions", burst=20_000, seconds_per_request=2)

NO_FIELDS: Final[Mapping[str, Json]] = MappingProxyType({})


class ListingDirectory(Protocol):
    """A directory that lists people: by SCIM with a token, or by LDAP."""

    @property
    def organization(self) -> OrganizationId: ...

    @property
    def facts(self) -> Mapping[str, Json]:
        """What an event says of the directory."""


class ScimProfile(Frozen, kw_only=True):
    """A directory's attributes of a user. A user has one email address for signing in: the `userName`. `work_email` is another address,
    which is only data and gets no mail; it is None when it is the address that the user signs in with.
    """

    user_name: str
    work_email: str | None = None
    external_id: str | None = None
    formatted: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    display_name: str | None = None
    active: bool = True
    fields: Mapping[str, Json] = NO_FIELDS
    """The values of the organization's fields that the directory may write, by key. In a change, None empties a field."""

    @property
    def email(self) -> str:
        return self.work_email or self.user_name


class ProvisionedUser(Frozen, kw_only=True):
    """A person whom the directory of an organization knows: a member, or a former member."""

    id: UserId
    profile: ScimProfile
    created_at: datetime
    updated_at: datetime


class HeldUser(Frozen, kw_only=True):
    """A provisioned user, with the data that decide what the directory may do. The rows are locked until the unit of work ends."""

    user: ProvisionedUser
    account: Account
    role: str
    """Empty for people who are not members."""
    capabilities: frozenset[Capability]
    is_deactivated: bool
    in_group: bool
    """Counts only for deactivated people; every member is in the group."""
    is_own: bool
    """The organization has made the account, and nobody else holds it: see `core.domain.identity.made_accounts`. The directory
    blocks and deletes such an account.
    """
    is_used_here_alone: bool
    """No other organization has a tie to the account, not even as one that lists the person."""

    listed_by: str | None = None
    """The name of the directory by LDAP that lists the person, so that no other directory decides about them."""

    @property
    def is_movable(self) -> bool:
        """The directory may change the address of this account, until somebody proves the address. Not while another organization lists the
        person, because the place there would go over to the holder of the new address.
        """
        return self.is_own and self.is_used_here_alone and not self.account.address_is_proved

    @property
    def is_member(self) -> bool:
        return bool(self.role)

    @property
    def is_listed(self) -> bool:
        """Whether the group has the person."""
        return self.is_member or (self.is_deactivated and self.in_group)

    def require_ordinary(self) -> None:
        """Refuses people who may do more than a plain member, whatever their role is called. A token must not give its maker power over
        them, because somebody who may make tokens may have few other rights. Raises `Forbidden`.
        """
        if not self.capabilities <= BuiltInRole.MEMBER.capabilities:
            raise Forbidden(
                "SCIM cannot manage owners, admins and other people with more permissions than a member: first change their role or "
                "remove them from the organization"
            )

    def require_scims(self) -> None:
        """Refuses a person whom a directory by LDAP lists: whoever lists a person ends them. Raises `ListedElsewhere`."""
        if self.listed_by is not None:
            raise ListedElsewhere(
                f"The directory {self.listed_by} manages this person through LDAP: change the person there, or turn off directory sync "
                "first"
            )

    def require_movable(self) -> None:
        """Refuses to change the address of an account that is not the directory's alone. Raises `Mutability`."""
        if not self.is_movable:
            raise Mutability(
                "userName: the person has verified this email address, or also uses the account elsewhere: only the person can change it"
            )


class ReasonForLeaving(StrEnum):
    """The reason why a person is no longer a member."""

    DEACTIVATED = "deactivated"
    LEFT_GROUP = "left_group"
    DELETED = "deleted"


class ProvisionedFate(StrEnum):
    """The effect of a change on the account."""

    CREATED = "created"
    KEPT = "kept"
    DEACTIVATED = "deactivated"
    ACTIVATED = "activated"
    DELETED = "deleted"


def patched(before: ScimProfile, user: str, operations: Sequence[PatchOperation], mapping: ScimMapping = NOTHING_MAPPED) -> ScimProfile:
    """The profile after these operations on the resource with this id. A refused operation leaves the whole profile unchanged."""
    require_operations(operations)
    draft = _Draft(before, user, mapping)
    for operation in operations:
        draft.apply(operation)
    return draft.profile()


class Stated(Frozen, kw_only=True):
    """A whole resource as a directory sends it."""

    user_name: str
    emails: Sequence[Mapping[str, Any]] = ()
    external_id: str | None = None
    formatted: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    display_name: str | None = None
    active: bool | None = None
    fields: Mapping[str, Json] | None = None
    """None when the directory sends no extension at all: then the fields stay as they are, since it may not know the extension."""
    mappable: Mapping[str, Any] = NO_FIELDS
    """The attributes that may be mapped to fields, as the resource has them."""


def stated_profile(stated: Stated, before: ScimProfile | None = None, mapping: ScimMapping = NOTHING_MAPPED) -> ScimProfile:
    """The profile that a whole resource states. Attributes that the resource leaves out are removed; only `active` keeps its value."""
    if not stated.user_name.strip():
        raise InvalidValue("userName: required")
    if len(stated.emails) > _MOST_EMAILS:
        raise InvalidValue(f"emails: at most {_MOST_EMAILS}")
    email = _chosen(stated.emails) if stated.emails else None
    active = stated.active if stated.active is not None else before.active if before is not None else True
    return ScimProfile(
        user_name=stated.user_name.strip(),
        work_email=None if email is None or _are_same(email, stated.user_name.strip()) else email,
        external_id=text_of("externalId", stated.external_id),
        formatted=text_of("name.formatted", stated.formatted),
        given_name=text_of("name.givenName", stated.given_name),
        family_name=text_of("name.familyName", stated.family_name),
        display_name=text_of("displayName", stated.display_name),
        active=active,
        fields=_stated_fields(stated, NO_FIELDS if before is None else before.fields, mapping),
    )


def _stated_fields(stated: Stated, before: Mapping[str, Json], mapping: ScimMapping) -> Mapping[str, Json]:
    """Fields that the extension leaves out are emptied, and so are those whose attribute the resource leaves out, unless the extension
    states them.
    """
    named = {key.lower(): value for key, value in (stated.fields or NO_FIELDS).items()}
    after = before if stated.fields is None else {**dict.fromkeys(before), **named}
    if not mapping:
        return after
    absent = {name: None for name in MAPPABLE if name in mapping and mapping[name].key not in named}
    return filled(after, mapping, {**absent, **stated_in(stated.mappable)})


_TEXTS: Final[Mapping[tuple[str, str | None], tuple[str, str]]] = {
    ("externalid", None): ("external_id", "externalId"),
    ("displayname", None): ("display_name", "displayName"),
    ("name", "formatted"): ("formatted", "name.formatted"),
    ("name", "givenname"): ("given_name", "name.givenName"),
    ("name", "familyname"): ("family_name", "name.familyName"),
}
_NAMES: Final = ("formatted", "given_name", "family_name")
_OUR_EMAIL: Final = re.compile(r"\s*(?:type\s+eq\s+\"work\"|primary\s+eq\s+true)\s*", re.IGNORECASE)
_READ_ONLY: Final = frozenset({"id", "meta", "schemas", "groups"})


class _Draft:
    """Applies the operations, one after the other."""

    def __init__(self, before: ScimProfile, user: str, mapping: ScimMapping) -> None:
        self._before = before
        self._mapping = mapping
        self._user = user
        self._now = before
        self._user_name: str | None = None
        self._email: str | None = None
        self._email_is_removed = False
        self._changes = 0

    def apply(self, operation: PatchOperation) -> None:
        verb = operation.verb
        if operation.path:
            self._change_at(verb, operation.path, operation.value)
        elif verb is Verb.REMOVE:
            raise NoTarget("path: a remove operation needs a path")
        else:
            for name, value in fields_of(operation.value).items():
                self._change_at(verb, name, value)

    def profile(self) -> ScimProfile:
        """The new profile. If only one of the two addresses is stated, both get it, unless the two differed before."""
        before, now, email = self._before, self._now, self._email
        if self._user_name is not None:
            now = replace(now, user_name=self._user_name)
        elif email is not None and before.work_email is None:
            now = replace(now, user_name=email)
        if email is not None:
            now = replace(now, work_email=email)
        elif self._email_is_removed:
            if before.work_email is None:
                raise Mutability("emails: the person signs in with this email address; replace it instead")
            now = replace(now, work_email=None)
        if now.work_email is not None and _are_same(now.work_email, now.user_name):
            now = replace(now, work_email=None)
        return now

    def _change_at(self, verb: Verb, path: str, value: Any) -> None:
        if _is_of_fields(path):
            self._change_fields(verb, path, value)
            return
        if self._mapping:
            self._now = replace(self._now, fields=filled(self._now.fields, self._mapping, stated_at(path, verb, value)))
        if is_of_enterprises(path):
            self._count()
        else:
            self._change(verb, parse_path(path, USER_SCHEMA), value)

    def _change(self, verb: Verb, path: Path, value: Any) -> None:
        self._count()
        if is_unkept(path) or is_other_address(path):
            return
        if verb is Verb.REMOVE:
            value = None
        if path.attribute == "emails":
            self._change_emails(verb, path, value)
        elif path.filter is not None:
            raise InvalidPath(f"path: only emails are selected by a filter, not {path.attribute}")
        elif (path.attribute, path.part) in _TEXTS:
            field, name = _TEXTS[path.attribute, path.part]
            self._set(field, text_of(name, value))
        elif (path.attribute, path.part) == ("name", None):
            self._change_name(verb, value)
        elif (path.attribute, path.part) == ("active", None):
            _require_stated(verb, "active")
            self._now = replace(self._now, active=truth(value))
        elif (path.attribute, path.part) == ("username", None):
            _require_stated(verb, "userName")
            self._user_name = _address("userName", value)
        elif path.attribute in _READ_ONLY and path.part is None:
            self._require_same(path.attribute, value)
        else:
            raise InvalidPath(f"path: {path.attribute}{'.' + path.part if path.part else ''} is not stored")

    def _change_fields(self, verb: Verb, path: str, value: Any) -> None:
        """The path names the extension, whose value has the fields, or one field of it."""
        self._count()
        key = path[len(FIELD_SCHEMA) + 1 :].strip().lower()
        if not key and verb is Verb.REMOVE:
            changes: Mapping[str, Any] = dict.fromkeys(self._now.fields)
        else:
            changes = {key: None if verb is Verb.REMOVE else value} if key else fields_of(value)
        after = dict(self._now.fields)
        for name, given in changes.items():
            known = after.get(name.lower())
            adds = verb is Verb.ADD and isinstance(known, list) and isinstance(given, list)
            after[name.lower()] = [*known, *(one for one in given if one not in known)] if adds and isinstance(known, list) else given
        self._now = replace(self._now, fields=after)

    def _count(self) -> None:
        self._changes += 1
        if self._changes > _MOST_CHANGES:
            raise InvalidSyntax(f"Operations: at most {_MOST_CHANGES} changes")

    def _set(self, field: str, text: str | None) -> None:
        changes: dict[str, Any] = {field: text}
        self._now = replace(self._now, **changes)

    def _change_name(self, verb: Verb, value: Any) -> None:
        if value is None:
            for field in _NAMES:
                self._set(field, None)
            return
        for part, inner in fields_of(value).items():
            self._change(verb, Path("name", None, part.lower()), inner)

    def _change_emails(self, verb: Verb, path: Path, value: Any) -> None:
        if path.filter is not None and not _OUR_EMAIL.fullmatch(path.filter):
            raise NoTarget("path: the only email address is the primary one, of the type work")
        if path.part not in {None, "value"}:
            self._require_as_it_is(path.part or "", value)
        elif verb is Verb.REMOVE or value is None or value in ([], ()):
            self._email, self._email_is_removed = None, True
        else:
            self._email, self._email_is_removed = _one_address(value), False

    def _require_as_it_is(self, part: str, value: Any) -> None:
        if part == "type" and isinstance(value, str) and value.lower() == WORK:
            return
        if part == "primary" and (value is True or (isinstance(value, str) and value.lower() == "true")):
            return
        if part in {"type", "primary"}:
            raise Mutability("emails: only one email address is supported, the primary one, of the type work")
        raise InvalidPath(f"path: emails.{part} is not stored")

    def _require_same(self, attribute: str, value: Any) -> None:
        """Some directories send back what they have read, so the same value is accepted."""
        if attribute == "id" and value == self._user:
            return
        if attribute == "schemas" and isinstance(value, Sequence) and USER_SCHEMA in value:
            return
        raise Mutability(f"{attribute}: cannot be changed")


def _is_of_fields(path: str) -> bool:
    name = path.strip().lower()
    return name == FIELD_SCHEMA.lower() or name.startswith(f"{FIELD_SCHEMA.lower()}:")


def _require_stated(verb: Verb, name: str) -> None:
    """Refuses to remove a required attribute (RFC 7644 section 3.5.2.2). Raises `Mutability`."""
    if verb is Verb.REMOVE:
        raise Mutability(f"{name}: required")


def _one_address(value: Any) -> str:
    """The one address of a value. Raises `InvalidValue`."""
    if isinstance(value, str):
        return _address("emails", value)
    listed = [value] if isinstance(value, Mapping) else value
    if isinstance(listed, Sequence) and len(listed) > _MOST_EMAILS:
        raise InvalidValue(f"emails: at most {_MOST_EMAILS}")
    if not isinstance(listed, Sequence) or not all(isinstance(one, Mapping) for one in listed):
        raise InvalidValue("emails: a list of objects with a value")
    if len({Email(_address("emails", one.get("value"))).key for one in listed}) > 1:
        raise InvalidValue("emails: only one email address is stored, that of the type work")
    return _chosen(listed)


def _chosen(emails: Sequence[Mapping[str, Any]]) -> str:
    """The address of the type work, else the primary address, else the first."""
    chosen = min(emails, key=lambda one: (str(one.get("type") or "").lower() != WORK, one.get("primary") is not True))
    return _address("emails", chosen.get("value"))


def _address(name: str, value: Any) -> str:
    """An address that could exist. Raises `InvalidValue`. The address for signing in is checked more strictly elsewhere."""
    text = value.strip() if isinstance(value, str) else ""
    if not 3 <= len(text) <= _LONGEST_EMAIL or "@" not in text[1:-1] or text_of(name, text) is None:
        raise InvalidValue(f"{name}: not a valid email address")
    return text


def _are_same(one: str, other: str) -> bool:
    return Email(one).key == Email(other).key


def user_signed_up(user: UserId, holder: ListingDirectory, actor: Actor) -> Event:
    """The event of an account that a directory made. The actor is the directory alone."""
    through, which = holder.facts["through"], {name: value for name, value in holder.facts.items() if name != "through"}
    return Event(
        "user.signup.success",
        actor,
        Target("user", str(user)),
        holder.organization,
        {"provider": through, **which},
    )


def user_joined(user: UserId, account: ProvisionedFate, holder: ListingDirectory, actor: Actor) -> Event:
    return _event("user.joined", user, holder, actor, {"role": BuiltInRole.MEMBER.value, "account": account.value})


def user_left(held: HeldUser, why: ReasonForLeaving, account: ProvisionedFate, holder: ListingDirectory, actor: Actor) -> Event:
    return _event("user.removed", held.user.id, holder, actor, {"role": held.role, "why": why.value, "account": account.value})


def user_listed(user: UserId, holder: ScimHolder, actor: Actor) -> Event:
    """The directory now knows a person with an account, who is not a member."""
    return _event("user.profile.updated", user, holder, actor, {"changed": ["active"]})


def email_changed(user: UserId, holder: ListingDirectory, actor: Actor) -> Event:
    return _event("user.email.changed", user, holder, actor, {})


def profile_changed(user: UserId, before: ScimProfile, after: ScimProfile, holder: ScimHolder, actor: Actor) -> Event:
    """The event names the changed attributes, without their values."""
    changed: list[Json] = [name for field, name in _COMPARED.items() if getattr(before, field) != getattr(after, field)]
    return _event("user.profile.updated", user, holder, actor, {"changed": changed})


def listing_changed(user: UserId, holder: ScimHolder, actor: Actor) -> Event:
    """A deactivated person came into the group, or left it."""
    return _event("user.profile.updated", user, holder, actor, {"changed": ["groups"]})


_COMPARED: Final = {
    "work_email": "emails",
    "external_id": "externalId",
    "formatted": "name.formatted",
    "given_name": "name.givenName",
    "family_name": "name.familyName",
    "display_name": "displayName",
}


def has_other_profile(before: ScimProfile, after: ScimProfile) -> bool:
    return any(getattr(before, field) != getattr(after, field) for field in _COMPARED)


def _event(name: str, user: UserId, holder: ListingDirectory, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("user", str(user)), holder.organization, {**details, **holder.facts})
