"""Decides what an import does with a user of another system: a new account, a membership of an existing account, or nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ProfileFieldId, ServiceId, ServiceRoleId, TeamId, UserId
from core.domain.identity.passkeys import LONGEST_CREDENTIAL_ID, LONGEST_PUBLIC_KEY, MOST_PASSKEYS
from core.domain.identity.profiles import StatedProfile, username
from core.domain.mail import Email
from core.domain.platform.imports.clients import slug_of
from core.domain.platform.imports.records import ImportedIdentity, ImportedPasskey, ImportedPerson, Notes, shown
from core.domain.platform.imports.reports import Brought, Outcome, ReportLine
from core.domain.tenancy.profile_fields import FieldValue, FieldWriter, KeptValues, changed_values, suitable_values
from core.domain.tenancy.roles import Assignable, BuiltInRole
from core.frozen import Frozen

Item = TypeVar("Item")


class ImportRules(Frozen, kw_only=True):
    """What the operator asks for."""

    organization: str = ""
    """The slug of the organization that lists the people. Empty: nobody becomes a member of anything."""
    role: str = "member"
    role_map: Mapping[str, str] = {}
    """The organization's roles, by the names of the other system's. A person has one role, so the first that fits counts."""
    trusts_verified: bool = False
    """An address counts as proved where the other system says so."""
    takes_usernames: bool = False
    relying_party: str = ""
    """What the other system's passkeys belong to, where its export does not say it."""
    tells: bool = False
    """Mails and webhooks tell of the import."""
    is_plan: bool = False


class KnownProvider(Frozen):
    """`key` is the word of a shared provider, or the id of an organization's own."""

    key: str
    issuer: str
    client_id: str
    is_shared: bool


class ImportDestination(Frozen, kw_only=True):
    """What of this installation an import uses."""

    organization: OrganizationId | None = None
    slug: str = ""
    is_active: bool = True
    roles: Mapping[str, Assignable]
    """By their slugs."""
    teams: Mapping[str, TeamId]
    """The organization's own teams that carry no role, by slug and by name in small letters."""
    closed_teams: frozenset[str]
    """Likewise, the others."""
    service_roles: Mapping[tuple[str, str], tuple[ServiceId, ServiceRoleId]]
    providers: Sequence[KnownProvider]
    fields: KeptValues
    most_members: int = 0

    def role(self, slug: str) -> Assignable:
        """Raises `BadRequest`."""
        if slug == BuiltInRole.OWNER:
            raise BadRequest("An import makes nobody an owner: transfer the ownership")
        found = self.roles.get(slug)
        if found is None:
            raise BadRequest(f"{self.slug} has no role {slug}; its roles are {', '.join(sorted(self.roles))}")
        return found


class ImportedBefore(Frozen):
    user: UserId | None
    """None when the account is gone."""
    is_new: bool
    """The import made the account."""


class Existing(Frozen, kw_only=True):
    """An account with the address."""

    user: UserId
    is_shut: bool = False
    """The platform has deactivated the account, or the person was forgotten."""
    is_member: bool = False
    was_removed: bool = False
    """The organization has removed the person."""


class Facts(Frozen, kw_only=True):
    """What the database knows of the people of one batch."""

    before: Mapping[bytes, ImportedBefore]
    accounts: Mapping[str, Existing]
    """By the keys of their addresses."""
    users: Mapping[UserId, Existing]
    usernames: frozenset[bytes]
    identities: frozenset[tuple[str, str, str]]
    passkeys: frozenset[bytes]
    members: int = 0


class NewIdentity(Frozen):
    provider: KnownProvider
    subject: str
    email: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.provider.key, self.provider.issuer, self.subject


class NewAccount(Frozen, kw_only=True):
    email: Email
    is_verified: bool
    is_disabled: bool
    profile: StatedProfile
    username: str | None
    passkeys: tuple[ImportedPasskey, ...]
    identities: tuple[NewIdentity, ...]
    values: Mapping[ProfileFieldId, FieldValue]
    takes_totp: bool


class ListedTie(Frozen, kw_only=True):
    """A tie of a person to the organization."""

    role: Assignable
    is_new: bool
    """The person is no member yet."""
    teams: tuple[TeamId, ...]
    service_roles: tuple[tuple[ServiceId, ServiceRoleId], ...]


class Decision(Frozen, kw_only=True):
    """What an import does with one user. `account` is what is created, and `listing` the tie to the organization; a user who is skipped has
    neither.

    An existing account gets unconfirmed ties, and nothing else: neither a credential nor an authenticator, no profile, no verification.
    Whoever provides a file could otherwise write themselves into the account of anyone whose email address they know.
    """

    digest: bytes
    person: ImportedPerson
    outcome: Outcome
    user: UserId | None = None
    """The account, whether it is made or was there."""
    account: NewAccount | None = None
    listing: ListedTie | None = None
    notes: tuple[str, ...] = ()
    parts: Mapping[Brought, int]

    def line(self, *, is_plan: bool) -> ReportLine:
        """Plans make no accounts, so they name none."""
        user = None if is_plan else self.user
        return ReportLine(self.person.place, shown(self.person.id), shown(self.person.email), self.outcome, user, self.notes)


class Beneath(Protocol):
    """Notes that need not stand in memory."""

    def find(self, key: str) -> bytes | None: ...


class MetBefore:
    """What an import has decided and the database does not know yet: of a batch that is being written, or of a whole plan."""

    def __init__(self, beneath: Beneath | None = None) -> None:
        self.notes: dict[str, bytes] = {}
        self.members = 0
        self._beneath = beneath

    def __contains__(self, key: str) -> bool:
        return self.find(key) is not None

    def find(self, key: str) -> bytes | None:
        found = self.notes.get(key)
        return self._beneath.find(key) if found is None and self._beneath is not None else found

    def add(self, key: str, note: bytes = b"") -> None:
        self.notes[key] = note


class Marks(Frozen):
    """What is made for each person before anything is decided. The digests are keyed, and tell nothing without the server's key."""

    user: UserId
    """The id of the account, if one is made."""
    person: bytes
    username: bytes


_GONE: Final = "the account that an import made was removed here since"
_SHUT: Final = "the account with this address is deactivated"


class Deciding(Frozen, kw_only=True):
    """Decides about the people of one batch, one after the other."""

    to: ImportDestination
    rules: ImportRules
    facts: Facts
    met: MetBefore
    passkey_fault: str
    """The reason why no passkey of this source is taken. Empty if there is none."""

    def decide(self, person: ImportedPerson, email: Email, marks: Marks) -> Decision:
        decision = _Case(self, person, email, marks).decided()
        _remember(decision, email, marks, self.met)
        return decision


class _Case:
    """One person before the decision."""

    def __init__(self, deciding: Deciding, person: ImportedPerson, email: Email, marks: Marks) -> None:
        self.person, self.email, self.marks = person, email, marks
        self.to, self.rules, self.facts, self.met = deciding.to, deciding.rules, deciding.facts, deciding.met
        self.passkey_fault = deciding.passkey_fault

    def decided(self) -> Decision:
        before = self.facts.before.get(self.marks.person)
        if before is not None:
            known = None if before.user is None else self.facts.users.get(before.user)
            return self._left_out(_GONE) if known is None else self._known(known)
        if _of_person(self.marks.person) in self.met:
            return self._made(Outcome.KNOWN, None, None, None, Notes())
        existing = self.facts.accounts.get(self.email.key)
        if existing is not None:
            return self._merged(existing)
        made = self.met.find(_of_address(self.email))
        if made is not None:
            # The file names the address twice, for people of different ids.
            return self._merged(Existing(user=UserId(UUID(bytes=made)), is_member=self.to.organization is not None))
        return self._taken()

    def _known(self, existing: Existing) -> Decision:
        notes = Notes()
        listing = None if existing.is_shut else self._listing(existing, notes)
        if listing is None or not listing.is_new:
            return self._made(Outcome.KNOWN, existing.user, None, None, Notes())
        if not self._has_room():
            return self._left_out(self._full)
        return self._made(Outcome.MERGED, existing.user, None, listing, notes)

    def _merged(self, existing: Existing) -> Decision:
        if existing.is_shut:
            return self._left_out(_SHUT)
        notes = Notes()
        notes.add("an account has this email address: only links are added to it")
        listing = self._listing(existing, notes)
        if listing is not None and listing.is_new and not self._has_room():
            return self._left_out(self._full)
        return self._made(Outcome.MERGED, existing.user, None, listing, notes)

    def _taken(self) -> Decision:
        notes = Notes()
        for note in self.person.notes:
            notes.add(note)
        listing = self._listing(None, notes)
        if listing is not None and not self._has_room():
            return self._left_out(self._full)
        person = self.person
        is_verified = person.email_verified and self.rules.trusts_verified
        if person.email_verified and not is_verified:
            notes.add("email_verified: is not taken over without --trust-verified")
        if person.is_disabled:
            notes.add("the account is deactivated, as it was there")
        account = NewAccount(
            email=self.email,
            is_verified=is_verified,
            is_disabled=person.is_disabled,
            profile=person.profile,
            username=self._username(notes),
            passkeys=self._passkeys(notes, is_verified=is_verified, fault=self.passkey_fault),
            identities=self._identities(notes, is_verified=is_verified),
            values=self._values(notes),
            takes_totp=person.totp is not None,
        )
        return self._made(Outcome.TAKEN, self.marks.user, account, listing, notes)

    def _listing(self, existing: Existing | None, notes: Notes) -> ListedTie | None:
        to, person = self.to, self.person
        if to.organization is None:
            for what, named in (("roles", person.roles), ("teams", person.teams), ("roles of applications", person.service_roles)):
                if named:
                    notes.add(f"{what}: there is no --organization to have them in")
            return None
        if existing is not None and existing.was_removed and not existing.is_member:
            notes.add("the organization has removed this person, who does not come back by an import")
            return None
        mapped = [self.rules.role_map[one] for one in person.roles if one in self.rules.role_map]
        role = to.role(mapped[0] if mapped else self.rules.role)
        for one in person.roles:
            if one not in self.rules.role_map:
                notes.add(f"role {one}: no --map-role says what it is here")
        return ListedTie(
            role=role,
            is_new=existing is None or not (existing.is_member or _of_member(existing.user) in self.met),
            teams=_each(self._team(one, notes) for one in person.teams),
            service_roles=_each(self._service_role(one, notes) for one in person.service_roles),
        )

    def _team(self, name: str, notes: Notes) -> TeamId | None:
        word = name.casefold()
        found = self.to.teams.get(word) or self.to.teams.get(slug_of(name))
        if found is None:
            closed = word in self.to.closed_teams or slug_of(name) in self.to.closed_teams
            notes.add(f"team {name}: it carries a role, or a directory fills it" if closed else f"team {name}: there is no such team")
        return found

    def _service_role(self, named: tuple[str, str], notes: Notes) -> tuple[ServiceId, ServiceRoleId] | None:
        found = self.to.service_roles.get((slug_of(named[0]), slug_of(named[1])))
        if found is None:
            notes.add(f"role {named[1]} of {named[0]}: there is no such service, or no such role of it")
        return found

    def _username(self, notes: Notes) -> str | None:
        given = self.person.username
        if not given or not self.rules.takes_usernames:
            return None
        try:
            name = username(given)
        except BadRequest as refusal:
            notes.add(refusal.message)
            return None
        if self.marks.username in self.facts.usernames or _of_username(self.marks) in self.met:
            notes.add("username: it is taken, or was once")
            return None
        return name

    def _passkeys(self, notes: Notes, *, is_verified: bool, fault: str) -> tuple[ImportedPasskey, ...]:
        given = self.person.passkeys
        if given and not is_verified:
            fault = fault or "a passkey signs in to a verified address alone"
        if given and fault:
            notes.add(f"passkeys: {fault}")
            return ()
        taken: dict[bytes, ImportedPasskey] = {}
        for one in given:
            if not 0 < len(one.credential_id) <= LONGEST_CREDENTIAL_ID or not 0 < len(one.public_key) <= LONGEST_PUBLIC_KEY:
                notes.add("passkey: the credential is malformed")
            elif one.credential_id in self.facts.passkeys or _of_passkey(one) in self.met:
                notes.add("passkey: an account has it already")
            elif len(taken) < MOST_PASSKEYS:
                taken[one.credential_id] = one
            else:
                notes.add(f"passkeys: nobody has more than {MOST_PASSKEYS}")
        return tuple(taken.values())

    def _identities(self, notes: Notes, *, is_verified: bool) -> tuple[NewIdentity, ...]:
        taken: dict[str, NewIdentity] = {}
        for one in self.person.identities:
            provider = self._provider(one)
            identity = None if provider is None else NewIdentity(provider, one.subject, one.email)
            if not is_verified:
                notes.add("connected accounts: nobody is connected without a verified address")
            elif identity is None:
                notes.add(f"identity at {one.issuer}: no provider here has this issuer, or it has another client")
            elif identity.key in self.facts.identities or _of_identity(identity) in self.met:
                notes.add(f"identity at {one.issuer}: it is connected to another account")
            elif identity.provider.key in taken:
                notes.add(f"identity at {one.issuer}: an account has one at each provider; the first counts")
            else:
                taken[identity.provider.key] = identity
        return tuple(taken.values())

    def _provider(self, told: ImportedIdentity) -> KnownProvider | None:
        """Providers of organizations may name people differently to each client, so the client must be the same, too."""
        for one in self.to.providers:
            same_client = one.is_shared or (told.client_id != "" and one.client_id == told.client_id)
            if same_client and one.issuer.rstrip("/") == told.issuer.rstrip("/"):
                return one
        return None

    def _values(self, notes: Notes) -> Mapping[ProfileFieldId, FieldValue]:
        known = {field.key for field in self.to.fields.fields}
        given: dict[str, Json] = {key: value for key, value in self.person.fields.items() if key in known}
        unknown = [key for key in self.person.fields if key not in known]
        if unknown:
            notes.add(f"{', '.join(shown(one, 40) for one in unknown[:5])}{' …' if len(unknown) > 5 else ''}: no field has this key")
        suitable, wrong = suitable_values(self.to.fields, given, FieldWriter.ADMINISTRATOR)
        for key in wrong:
            notes.add(f"{key}: is nothing that the field takes from an administrator")
        try:
            return changed_values(self.to.fields, suitable, FieldWriter.ADMINISTRATOR).values
        except BadRequest as refusal:
            notes.add(refusal.message)
            return {}

    def _has_room(self) -> bool:
        return self.facts.members + self.met.members < self.to.most_members

    @property
    def _full(self) -> str:
        return f"the organization has reached its limit of {self.to.most_members} members"

    def _left_out(self, reason: str) -> Decision:
        return Decision(digest=self.marks.person, person=self.person, outcome=Outcome.LEFT_OUT, notes=(reason,), parts={})

    def _made(self, outcome: Outcome, user: UserId | None, account: NewAccount | None, listing: ListedTie | None, notes: Notes) -> Decision:
        return Decision(
            digest=self.marks.person,
            person=self.person,
            outcome=outcome,
            user=user,
            account=account,
            listing=listing,
            notes=notes.all,
            parts=_parts(self.person, account, listing),
        )


def _parts(person: ImportedPerson, account: NewAccount | None, listing: ListedTie | None) -> Mapping[Brought, int]:
    parts: dict[Brought, int] = {}
    if account is not None:
        hashed = person.password
        parts = {
            Brought.VERIFIED: int(account.is_verified),
            Brought.PASSWORD: int(hashed is not None),
            Brought.WRAPPED: int(hashed is not None and hashed.is_fast),
            Brought.SECOND_FACTOR: int(account.takes_totp),
            Brought.PASSKEY: len(account.passkeys),
            Brought.IDENTITY: len(account.identities),
            Brought.USERNAME: int(account.username is not None),
            Brought.FIELD: len(account.values),
        }
    if listing is not None:
        parts |= {
            Brought.MEMBERSHIP: int(listing.is_new),
            Brought.TEAM: len(listing.teams),
            Brought.ROLE: len(listing.service_roles),
        }
    return {part: count for part, count in parts.items() if count}


def _each(found: Iterable[Item | None]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _remember(decision: Decision, email: Email, marks: Marks, met: MetBefore) -> None:
    if decision.outcome is Outcome.LEFT_OUT:
        return
    met.add(_of_person(marks.person))
    if decision.listing is not None and decision.listing.is_new:
        met.members += 1
        if decision.user is not None and decision.account is None:
            met.add(_of_member(decision.user))
    account = decision.account
    if account is None:
        return
    met.add(_of_address(email), marks.user.bytes)
    if account.username is not None:
        met.add(_of_username(marks))
    for passkey in account.passkeys:
        met.add(_of_passkey(passkey))
    for identity in account.identities:
        met.add(_of_identity(identity))


def _of_person(digest: bytes) -> str:
    return f"person {digest.hex()}"


def _of_member(user: UserId) -> str:
    return f"member {user}"


def _of_address(email: Email) -> str:
    return f"address {email.key}"


def _of_username(marks: Marks) -> str:
    return f"username {marks.username.hex()}"


def _of_passkey(passkey: ImportedPasskey) -> str:
    return f"passkey {passkey.credential_id.hex()}"


def _of_identity(identity: NewIdentity) -> str:
    return f"identity {' '.join(identity.key)}"
