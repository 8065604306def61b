"""Stores of accounts and of what belongs to one, such as passwords, profiles, pictures, terms and locks."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from core.domain.claims import ServiceFacts
from core.domain.identifiers import (
    IdentityId,
    LoginEventId,
    OrganizationId,
    PasskeyId,
    PictureId,
    PrivacyRequestId,
    ServiceId,
    SessionId,
    TermsId,
    UserId,
)
from core.domain.identity.account_locks import BeforeLock
from core.domain.identity.accounts import (
    Account,
    AccountPassword,
    AccountSummary,
    BeforeReset,
    Registration,
    StartedApplication,
    StartingPlaces,
    Unverified,
)
from core.domain.identity.passwords import PasswordStanding
from core.domain.identity.privacy import Export, ExportedLogin, PrivacyRequest, PrivacyRequester, Scope, Subject
from core.domain.identity.profiles import HeldProfile, Picture
from core.domain.identity.proofs import WaysIn
from core.domain.identity.registering import Budget, BudgetLane, BudgetStanding, Counted, RegistrationRule
from core.domain.identity.terms import Acceptance, KeptTerms, OwnTerms, PendingTerms, TermsVersion
from core.domain.identity.upstream.claims import AddedWay
from core.domain.mail import Email
from core.frozen import Frozen


class AccountStore(Protocol):
    """All methods need a unit of work. Methods that change an account skip deactivated ones."""

    async def add(
        self,
        account: Account,
        password_hash: str | None,
        origin: ServiceId | None = None,
        *,
        origin_organization: OrganizationId | None = None,
        registered_in: bytes | None = None,
    ) -> bool:
        """`origin` is the service through which somebody makes the account, if any; `origin_organization` the organization whose directory,
        key or own provider makes it. `registered_in` is the digest of the browser's secret, if a page makes it. False when the e-mail
        address is taken: of two callers, one gets False.
        """

    async def open_by_proof(self, user: UserId, at: datetime) -> bool:
        """Activates an account that a directory has deactivated, after a proof of its address. From now on the account is nobody's. False
        when no directory has deactivated it.
        """

    async def forget_holder(self, user: UserId) -> None:
        """Removes everything that the earlier holder could sign in with, what they have allowed, and what tells of them: devices, sessions,
        sign-ins. Called after the account is held to be moved.
        """

    async def find(self, email: Email) -> Account | None: ...

    async def hold(self, user: UserId) -> None:
        """Allows one change to this account at a time, until the transaction ends. Comes first in its unit of work, so that two units of
        work cannot wait for each other. Returns once the account is held: a time read afterwards is later than everything that others did
        to the account.
        """

    async def hold_to_move(self, user: UserId) -> None:
        """As `hold`, for a change of address: rows that refer to the account cannot be added meanwhile either. After a plain `hold`, the
        change of address would wait for others who have added such rows, and they may wait for the account.
        """

    async def hold_shared(self, user: UserId) -> None:
        """Nobody changes this account until the transaction ends; others may hold it in the same way. Comes first, as `hold` does."""

    async def ways_in(self, user: UserId) -> WaysIn:
        """Called after the account is held."""

    async def other_ways_in(self, user: UserId, email: Email, *, but: PasskeyId | IdentityId, shared: Collection[str]) -> WaysIn:
        """The ways in that would remain without this passkey or identity. `email` is the account's address. `shared` names the providers at
        which the installation has a client for everybody. Called after the account is held.
        """

    async def verify_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """None when the account has another address by now. May be repeated."""

    async def is_nobodys(self, user: UserId) -> bool:
        """True for an active account of which nobody has ever proved an address, and which no organization, no service and not the platform
        holds. Called after the account is held to move.
        """

    async def hold_unproved(self, now: datetime, retention: timedelta, after: datetime | None, limit: int) -> Sequence[Account]:
        """Holds, to delete them, active accounts that are older than `retention`, both at `now` and by the database's clock, that were
        made after `after`, and of which nobody has proved the address. The oldest come first. Leaves out accounts that somebody else holds,
        and those that a directory or the platform has made.
        """

    async def never_used(self, users: Collection[UserId], now: datetime) -> Sequence[UserId]:
        """Those among the accounts that are nobody's, as `is_nobodys` says, to which nobody was ever let in, which no import brought, and
        to which no mailed link leads any more, neither at `now` nor by the database's clock. Called after the accounts are held.
        """

    async def email_is_taken(self, email: Email, user: UserId) -> bool:
        """True when another user has the address."""

    async def await_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """Records the address that the person wants next. Returns the account with its current address; None when the account is gone."""

    async def withdraw_email(self, user: UserId, at: datetime) -> None:
        """Forgets the address that the person wanted next."""

    async def change_email(self, user: UserId, email: Email, at: datetime) -> Account | None:
        """Makes the pending address the current one. Returns the account as it was before; None when another address or none is pending.
        Raises `BadRequest` when somebody else has taken the address meanwhile; the caller must then leave the unit of work.
        """

    async def find_all(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """The accounts that exist among these ids."""

    async def deactivate(self, user: UserId, at: datetime) -> bool:
        """False when the account is deactivated already. The caller ends the account's sessions and links."""

    async def activate(self, user: UserId, at: datetime) -> bool:
        """False when the account is active already."""


class EmailSyntax(Protocol):
    """A library implements it."""

    def parse(self, text: str) -> Email:
        """Raises `BadRequest` when the text is not an e-mail address. Looks nothing up."""


class AccountLockStore(Protocol):
    """All methods need a unit of work, in which the account is held."""

    async def before(self, user: UserId, at: datetime) -> BeforeLock:
        """What the account has at this moment that a lock ends. Nothing when there is no such account."""

    async def lock(self, user: UserId, at: datetime) -> None:
        """Removes the password and any pending change of address, and deactivates the account until somebody chooses a new password by a
        mailed link. Skips deactivated accounts. The caller ends sessions and links.
        """

    async def added_since(self, user: UserId, since: datetime) -> Sequence[AddedWay]:
        """Passkeys, connected identities and an authenticator app that were added since then, the oldest first."""

    async def is_the_makers(self, user: UserId, organization: OrganizationId) -> bool:
        """The organization has made the account, and nobody else holds it: see `core.domain.identity.made_accounts`."""


class PasswordStandings(Protocol):
    async def get(self, user: UserId) -> PasswordStanding:
        """The rules of own memberships of active organizations, and the names of the person, of these organizations and of the services
        that the person uses by their own act; twenty of each at most. One statement, outside any unit of work.
        """


class AccountPasswordStore(Protocol):
    """All methods need a unit of work. Methods that change an account skip deactivated ones, unless they say otherwise."""

    async def find(self, user: UserId) -> AccountPassword | None:
        """None when there is no such account, or it is deactivated."""

    async def replace(self, user: UserId, old: str | None, new: str, at: datetime) -> bool:
        """Replaces the old hash, or the absence of one, and ends a pending change of address. False when the hash has changed meanwhile: of
        two callers, one gets True.
        """

    async def reset(self, user: UserId, email: Email, new: str, at: datetime) -> BeforeReset | None:
        """Replaces any password, after a link that was mailed to this address has proved the address. The address becomes verified, and an
        account that a directory has deactivated becomes active and nobody's. A pending change of address ends. An account that a stranger
        may have registered loses its origin in a service. Returns the account as it was before; None when it has another address by now.
        """

    async def registration(self, user: UserId) -> Registration | None:
        """None when the address is proved, or there is no such account. Finds deactivated accounts, too."""

    async def forget_unverified(self, user: UserId, at: datetime) -> Unverified | None:
        """Removes the password, the language and the origin in a service from an account whose address nobody has proved. None when the
        address is proved. May be repeated.
        """

    async def forget(self, user: UserId, at: datetime) -> None:
        """Removes the password and any pending change of address, also from a deactivated account. May be repeated."""


class AccountSummaryLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, user: UserId, now: datetime, session: SessionId | None = None) -> AccountSummary | None:
        """None when there is no such account. `session` is the one that asks, if its directory's second factor may count."""

    async def start(self, user: UserId, now: datetime, session: SessionId | None = None) -> tuple[AccountSummary, StartingPlaces] | None:
        """The summary, and the places where the person goes on."""

    async def applications(self, user: UserId, organization: str) -> Sequence[StartedApplication]:
        """The applications of the organization with this slug that the person may use. Other people's organizations have none."""


class FactLookup(Protocol):
    """One round trip, outside any unit of work. Only PostgreSQL implements it, in the family `federation`, because the facts come from all
    families.
    """

    async def find(self, service: ServiceId, user: UserId) -> ServiceFacts:
        """The facts of a person or a service that is gone are empty."""


class PasswordCounts(Frozen):
    """How many accounts have a password of ours, none at all, and a hash of another system, by its kind."""

    ours: int
    none: int
    foreign: Mapping[str, int]


class ForeignHashStore(Protocol):
    """All methods are transactions of their own."""

    async def shapes(self) -> Sequence[str]:
        """The first shapes that stored hashes have, in the order of the alphabet. One look into an index for each."""

    async def remaining(self) -> Mapping[str, int]:
        """How many hashes of other systems are stored, by kind. Reads the index of all of them."""

    async def counts(self) -> PasswordCounts:
        """Reads all accounts."""


class PictureStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work in which the account is
    held. Only PostgreSQL implements `PictureStore`.
    """

    async def find(self, picture: PictureId) -> Picture | None: ...

    async def replace(self, user: UserId, picture: Picture, id: PictureId, at: datetime) -> None:  # noqa: A002 - the noun's own word
        """A person has one picture at most."""

    async def remove(self, user: UserId) -> bool:
        """False when there was none."""


class PlaceholderTaken(Exception):
    """Another account has this address. The unit of work is over."""


class PrivacyStore(Protocol):
    """Outside a unit of work, `export`, `logins`, `request` and `user` are one statement and one round trip each. The other methods need a
    unit of work.
    """

    async def export(
        self, user: UserId, asker: PrivacyRequester, at: datetime, most: int
    ) -> tuple[Subject, Export, Sequence[ExportedLogin]] | None:
        """The person, and the part of their data that the asker may have, if any. The newest sign-ins come along: one page, `most` at most.
        None when there is no such account.
        """

    async def logins(self, user: UserId, scope: Scope, before: LoginEventId, limit: int) -> Sequence[ExportedLogin]:
        """The sign-ins and attempts before this one, newest first."""

    async def request(self, request: PrivacyRequestId) -> PrivacyRequest | None: ...

    async def user(self, email: Email) -> UserId | None:
        """The person who has this address."""

    async def hold(self, user: UserId, asker: PrivacyRequester, at: datetime) -> Subject | None:
        """Until the unit of work ends, nobody signs in with the account, or becomes a member or a platform owner with it. None when there
        is no such account.
        """

    async def anonymize(self, request: PrivacyRequest, placeholder: Email) -> None:
        """After `hold`. The account can no longer sign in and has no address. Its credentials and sessions are gone, and the newest entries
        of each log say nothing of it. The job does the rest, which no read shows meanwhile. Raises `PlaceholderTaken`, at the latest with
        the commit.
        """


class ProfileStore(Protocol):
    """All methods need a unit of work, in which the account is held. The look-up of the caller reads the caller's own profile."""

    async def find(self, user: UserId) -> HeldProfile | None:
        """None when there is no such account, or the account is deactivated."""

    async def save(self, user: UserId, profile: HeldProfile, at: datetime) -> None:
        """Stores everything but the picture."""

    async def use_up(self, username_digest: bytes) -> bool:
        """False when the user name was issued before. Of two callers, the second waits for the first's commit, and gets False."""

    async def point(self, user: UserId, picture: PictureId | None, at: datetime) -> None:
        """Names the picture of the profile."""

    async def forget(self, user: UserId) -> None:
        """Empties the profile and removes the picture. The user name stays used."""


class MailBudgetStore(Protocol):
    """Outside a unit of work, `count`, `find_all` and `of_organization` may be called."""

    async def count(self, lane: BudgetLane, budgets: Sequence[Budget], now: datetime, *, may_wait: bool, known: bool = True) -> Counted:
        """Counts one mail in all budgets, or in none, in one statement: the first of them that is used up keeps it from the others. A mail
        that `may_wait` is counted for the next hour that has room, while its network and the installation have places for waiting; if no
        hour of a day has room, it waits for longer than that, and only the reserve may send it. An
        organization is named by its slug; one that does not exist has no budget. Of 50 requests at once, no more go than the budget holds.
        Unless it is `known`, it counts for its network alone, at the same cost.
        """

    async def find_all(self, since: datetime, now: datetime, most: int) -> Sequence[BudgetStanding]:
        """The budgets that have held something back since then, or that somebody has lifted, the last first."""

    async def of_organization(self, organization: OrganizationId, now: datetime) -> BudgetStanding | None:
        """None while nothing has counted in it."""

    async def lift(self, budget: Budget, until: datetime, now: datetime, most: int) -> BudgetStanding | None:
        """Lifts a budget. None when so many are lifted already, or its organization does not exist."""

    async def restore(self, budget: UUID, now: datetime) -> BudgetStanding | None:
        """Ends an exception. The answer still says until when it would have lasted. None when there is none."""


class ArrivalAtRule(Frozen, kw_only=True):
    """What counts for somebody who comes from a provider with a proved address."""

    rule: RegistrationRule | None
    """The organization's. None without an organization."""
    invited: bool
    """An invitation of an active organization to this address waits."""
    invited_here: bool
    """One of this organization does."""


class RegistrationRules(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, organization: str) -> RegistrationRule | None:
        """The rule of the organization with this slug. None when there is none."""

    async def of_arrival(self, organization: OrganizationId | None, email: Email) -> ArrivalAtRule: ...


class ThrowawayDomains(Protocol):
    def knows(self, domain: str) -> bool:
        """Whether the domain, or one above it, lends mailboxes to anybody for a while. The domain is in ASCII, as name servers know it."""


class TermsStore(Protocol):
    """Outside a unit of work, `list`, `in_force`, `own` and `pending` are one statement and one round trip each. The other methods need a
    unit of work.
    """

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptTerms]:
        """All versions of one keeper, the newest first. None: the installation's."""

    async def in_force(self, organization: str) -> Sequence[PendingTerms]:
        """What somebody without an account would be asked for: the installation's, and those of the active organization with this slug."""

    async def own(self, user: UserId, named: str) -> OwnTerms:
        """What the person may accept and has not, and what they have accepted, the newest first. May accept: the terms of the installation,
        of active organizations to which they have a tie, and of the one with this slug, if one of its applications lets anybody in.
        """

    async def pending(self, user: UserId, organization: OrganizationId | None) -> Sequence[PendingTerms]:
        """What a sign-in that leads to this organization asks the person for."""

    async def due(self, user: UserId) -> datetime | None:
        """When the person must have accepted the installation's terms. None when nothing is missing."""

    async def hold(self, organization: OrganizationId | None) -> Sequence[TermsVersion]:
        """All versions of the keeper. Nobody else changes them until the unit of work ends, and for the installation, no organization is
        made meanwhile. For an organization, it is called after the organization is held.
        """

    async def set(self, terms: TermsVersion) -> None:
        """Puts the version in force, in place of the one before. Of the version in force, only the date changes."""

    async def withdraw(self, organization: OrganizationId | None, at: datetime) -> TermsVersion | None:
        """Ends the version in force, so that nobody is asked any more. None when there is none."""

    async def hold_version(self, user: UserId, organization: str) -> TermsVersion | None:
        """The version in force of this organization, or with an empty slug of the installation, which stays in force until the unit of work
        ends. None when nothing is in force, and when it is not the person's to accept.
        """

    async def hold_shown(self, terms: Sequence[TermsId]) -> Sequence[TermsVersion]:
        """Those that are in force, for somebody without an account. They stay so until the unit of work ends."""

    async def hold_own(self, user: UserId, terms: Sequence[TermsId], entered: OrganizationId | None) -> Sequence[TermsVersion]:
        """Those that are the person's to accept, or are of the organization that they enter. What is in force stays so until the unit of
        work ends.
        """

    async def accept(self, accepted: Sequence[Acceptance]) -> Sequence[TermsId]:
        """Returns the terms that the person had not accepted before."""

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else, who has accepted nothing."""
