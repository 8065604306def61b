"""Stores of a sign-in: its flow, second factors, passkeys, mailed tokens, devices, login events, and protection against guessing."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import (
    ClientId,
    DeviceId,
    FlowId,
    LoginEventId,
    OrganizationId,
    PasskeyId,
    PreauthenticationId,
    ServiceId,
    SessionId,
    UserId,
)
from core.domain.identity.account_mails import MailedToken, MailedTokenPurpose
from core.domain.identity.devices import Client, Device, Location, UserAgent
from core.domain.identity.flows import Flow
from core.domain.identity.guards.guesses import FailedGuess, OriginPlaces
from core.domain.identity.guards.hook_verdicts import AskingDoor, HookVerdict
from core.domain.identity.guards.puzzles import WidgetPreset, WidgetVerdict
from core.domain.identity.login_events import LoginEvent, OwnLogin
from core.domain.identity.mfa import Guess, MfaEvent, MfaSecret, Preauthentication, SecondFactorStatus
from core.domain.identity.passkeys import Assertion, Passkey, PasskeyRegistration, ReadAssertion, ReadRegistration, RelyingParty
from core.domain.identity.proofs import Standing
from core.domain.identity.realms import Realm, RealmProvider
from core.domain.identity.risk import Approach, Knowledge, Sighting
from core.domain.identity.risk_policies.policies import Decided
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.sign_in import Attempt, Confirmed, Destination, LastLook, NamedAccount, ServiceName, Tries
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor
from core.domain.secrets import Secret, Token
from core.frozen import Frozen


class Attempts(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(
        self,
        email: Email,
        approach: Approach,
        service: ServiceName | None = None,
        *,
        application: Context = PLATFORM,
        places: OriginPlaces | None = None,
    ) -> Attempt:
        """The account that the address names, and one token of the bucket that this try draws from. The work is the same whether or not an
        account has the address. With `service`, the service that the person wants to enter comes along. `application` is the one that the
        browser's flow leads to: only whether its organization may know of failures comes along. `places` are those whose counts
        of guesses come along.
        """


class Destinations(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, service: ServiceName) -> Destination | None: ...


class SignInStore(Protocol):
    """All methods need a unit of work."""

    async def confirm(self, look: LastLook) -> Confirmed | None:
        """Returns the account, if it is active and has the password that `look` names. Locks the account, the service, the connected
        account and the flow until the unit of work ends, so that nobody changes them meanwhile: the account as `accounts.hold` does. The
        lock does not prevent the deletion of the service; after a deletion, the session ends at its first request.
        """

    async def is_known_to(self, user: UserId, application: Context) -> bool:
        """Whether the application's organization may know of the person's failures: see `NamedAccount.may_know_of_failures`."""

    async def renew(self, user: UserId, encoded: str, renewed: str) -> None:
        """Keeps the same password under another hash, unless the account has another hash than `encoded` by now."""

    async def let_hold(self, user: UserId, service: ServiceId, methods: Sequence[str], at: datetime) -> None:
        """From now on the service's organization holds the account, which another organization has made, if the person has come by a way in
        of theirs. `methods` are those of the sign-in. Call it as `enter`, before `enter`.
        """

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """Records that the person has signed in to the service. The first sign-in makes the person a user of the service. Call `enter`
        after `confirm` has found the service, and near the end of the unit of work: a new user changes the count in the service's row and
        so locks this row until the commit.
        """

    async def give_back(self, tries: Tries) -> None:
        """Returns the token of the bucket: a try that succeeded does not count."""


class SignInLinkStore(Protocol):
    """All methods need a unit of work."""

    async def are_permitted(self, user: UserId) -> bool:
        """Whether no active organization of the person's has turned sign-in links off."""

    async def application(self, service: ServiceName, redirect_uri: str) -> tuple[ClientId, str] | None:
        """The client that a link can lead to, and the redirect URI. The client's organization is active, the redirect URI is one of its own
        (the first one by default), and it has a secret or keys to redeem a code with. An application without secret and keys needs a code
        challenge, which no mail can carry.
        """


class MfaStore(Protocol):
    """Outside a unit of work, `status`, `has_codes` and `find` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def status(self, user: UserId) -> SecondFactorStatus:
        """A pending set-up is not enabled. Used backup codes do not count."""

    async def were_shown(self, user: UserId, form: UUID) -> bool:
        """Whether the person has seen the backup codes that this form made."""

    async def has_codes(self, user: UserId, digests: Sequence[bytes]) -> bool:
        """Whether these are the person's backup codes, and none has been used."""

    async def put_pending(
        self, user: UserId, session: SessionId, sealed_secret: bytes, at: datetime, *, beside_passkeys: bool = False
    ) -> bool:
        """Stores a secret that is not enabled yet, for this session to confirm, or replaces the pending one. False when a secret is enabled
        already. False also when passkeys are the second factor, unless the secret may stand `beside_passkeys`.
        """

    async def find(self, user: UserId) -> MfaSecret | None: ...

    async def hold(self, user: UserId) -> bool:
        """Whether the person has a second factor. Nobody else changes it until the transaction ends."""

    async def is_enabled(self, user: UserId) -> bool:
        """Whether the person has a second factor at this moment: an authenticator app, or passkeys that are asked for after a password."""

    async def begin_guess(self, user: UserId, limit: RateLimit, client: Client | None = None) -> Guess:
        """Holds the secret and takes one token of the person's bucket, in one round trip. If the client is a trusted device of the person,
        the token comes from the device's own bucket. Guesses at one person's codes queue here until the transaction ends. A roll-back
        returns the token, so commit after a wrong code, too.
        """

    async def enable(self, user: UserId, step: int, at: datetime, *, beside_passkeys: bool = False) -> bool:
        """Of two callers, one gets True. False also when passkeys have just become the second factor, unless the secret may stand
        `beside_passkeys`.
        """

    async def redeem_step(self, user: UserId, step: int) -> bool:
        """Uses a time step up; no earlier step counts after it. False when the step was used before: of two callers, one gets True."""

    async def redeem_backup_code(self, user: UserId, digest: bytes, at: datetime) -> bool:
        """Of two callers, one gets True."""

    async def replace_backup_codes(self, user: UserId, digests: Sequence[bytes]) -> None:
        """Removes the earlier codes, used or not, and adds these."""

    async def disable(self, user: UserId) -> bool:
        """Deletes the secret and all codes. Passkeys are no longer asked for as a second factor. False when the person had no second
        factor.
        """

    async def log(
        self, event: MfaEvent, user: UserId, actor: Actor, *, success: bool, details: Mapping[str, Json] | None = None
    ) -> None: ...

    async def add_preauthentication(self, preauthentication: Preauthentication) -> None: ...

    async def find_preauthentication(self, id: PreauthenticationId) -> Preauthentication | None:  # noqa: A002 - the noun's own word
        """None when the pre-authentication is consumed, expired, or dead after too many wrong codes, or when the provider of its identity
        is off. Guesses on one pre-authentication queue here until the transaction ends, so that no guess beyond the limit is ever checked.
        """

    async def fail_preauthentication(self, id: PreauthenticationId) -> int:  # noqa: A002
        """Counts a wrong code. Returns how many there were."""

    async def consume_preauthentication(self, id: PreauthenticationId, at: datetime) -> bool:  # noqa: A002
        """Of two callers, one gets True."""

    async def end_preauthentications(self, user: UserId, at: datetime) -> None:
        """Ends every sign-in that still awaits its second factor. Called after the account is held, because a request that brings a code
        takes both locks in this order.
        """


class Totp(Protocol):
    """A library implements it."""

    def new_secret(self) -> Secret:
        """Base32, 160 bits."""

    def step_of(self, secret: Secret, code: str, at: datetime) -> int | None:
        """The time step for which this is the code, within the tolerance. None when the code fits no step. Takes constant time."""

    def uri(self, secret: Secret, account: str) -> Secret:
        """The URI for authenticator apps. It carries the secret."""

    async def qr_code(self, uri: Secret) -> Secret:
        """The QR code as SVG. Slow enough to run in a thread."""


class BackupCodeMaker(Protocol):
    """HMACs under a key of the installation implement it."""

    def new(self) -> Sequence[Secret]:
        """Ten codes, each `XXXX-XXXX`."""

    async def derived(self, user: UserId, form: str) -> Sequence[Secret]:
        """Ten codes that depend on the person and the form alone: the same form gets the same codes again. The form does not tell them to
        anybody without the server key.
        """

    async def prepare(self) -> None:
        """Fetches the server key, if this process does not have it yet. Not within a unit of work, because the key takes a connection of
        its own.
        """

    async def digest(self, user: UserId, code: str) -> bytes:
        """HMAC-SHA256 of the bare code under the server key."""


class TakenChallenge(Frozen):
    """A challenge that an answer has used up, the passkey that answered, and its account: both None when nobody has such a passkey."""

    is_fresh: bool
    passkey: Passkey | None
    named: NamedAccount | None


class HeldPasskey(Frozen):
    passkey: Passkey
    ends_second_factor: bool
    """If the passkey goes, the person has no second factor any more."""


class PasskeyStore(Protocol):
    """Outside a unit of work, `list`, `find` and `take` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def list(self, user: UserId) -> Sequence[Passkey]:
        """Oldest first."""

    async def find(self, user: UserId, passkey: PasskeyId) -> Passkey | None:
        """None also for somebody else's passkey."""

    async def take(
        self, challenge_digest: bytes, credential_id: bytes, approach: Approach, *, application: Context = PLATFORM
    ) -> TakenChallenge | None:
        """Uses the challenge up, whether or not the answer turns out to be good. None when there is no such challenge: of many callers at
        once, one gets it. `application` is the one that the browser's flow leads to.
        """

    async def add_challenge(self, digest: bytes, expires_at: datetime) -> None: ...

    async def end_challenge(self, digest: bytes) -> None: ...

    async def add(self, passkey: Passkey, challenge_digest: bytes, session: SessionId) -> bool:
        """Uses the challenge up in any case. The new passkey is a second factor if the person's other passkeys are. Called after the
        account is held. False when the challenge or the session that asked for it is over, when somebody has this passkey already, or when
        the person has too many.
        """

    async def count(self, user: UserId) -> int: ...

    async def rename(self, user: UserId, passkey: PasskeyId, name: str) -> Passkey | None:
        """Returns the passkey as it was before. None when the person has no such passkey."""

    async def find_held(self, user: UserId, passkey: PasskeyId) -> HeldPasskey | None:
        """Called after the account is held: nobody removes a passkey without that."""

    async def remove(self, user: UserId, passkey: PasskeyId) -> None: ...

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else. Backup codes that came with the passkeys go, too. Called after the account is held."""

    async def use(self, passkey: Passkey, sign_count: int, *, backed_up: bool, at: datetime) -> bool:
        """Keeps the counter. False when the passkey is gone, or was used meanwhile with a counter that is not lower. Called after the
        account is held.
        """

    async def become_second_factor(self, user: UserId, at: datetime) -> bool:
        """All passkeys of the person become the second factor; nobody turns on an authenticator app meanwhile. Called after the account is
        held. False when the person has no passkeys, or has a second factor already.
        """


class Authenticators(Protocol):
    """A library for WebAuthn implements it."""

    async def read_registration(
        self, given: PasskeyRegistration, relying_party: RelyingParty, *, may_be_absent: bool = False
    ) -> ReadRegistration:
        """Reads and checks everything but the challenge, and returns it. The person `may_be_absent` where the browser makes a passkey by
        itself. Raises `PasskeyRefused` when the challenge cannot be read.
        """

    async def read_assertion(self, given: Assertion, relying_party: RelyingParty) -> ReadAssertion:
        """Reads and checks everything but the signature. Raises `PasskeyRefused` when not even the challenge can be read."""

    async def faults_of_keys(self, public_keys: Sequence[bytes]) -> Sequence[str]:
        """For each COSE_Key in turn, the reason why no passkey can have it here. Empty where there is none."""

    def verify(self, read: ReadAssertion, public_key: bytes) -> bool:
        """Whether the key has made the signature. Fast enough to be called where it is needed."""


class FlowStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work."""

    async def find(self, flow: FlowId, browser_digest: bytes) -> Flow | None:
        """The flow with the branding of its organization. None when the flow has expired, belongs to another browser or does not exist."""

    async def add(self, flow: Flow, browser_digest: bytes) -> None: ...

    async def name(self, flow: FlowId, email: str) -> None:
        """Keeps the address that the person gave last. An unfinished sign-in with another address is forgotten."""

    async def choose(self, flow: FlowId, account: UserId, email: str) -> None:
        """Keeps the account that the person has chosen, of those that are signed in in the browser, and its address."""

    async def await_second_factor(self, flow: FlowId, user: UserId, preauthentication: PreauthenticationId) -> None: ...

    async def sign_in(
        self,
        flow: FlowId,
        user: UserId,
        proof_digest: bytes,
        session: SessionId,
        at: datetime,
        *,
        by: str,
        provider: str = "",
        is_logged: bool = False,
        owes_answers: bool = False,
        owes_terms: bool = False,
        offers_passkey: bool = False,
        upgrades: bool = False,
    ) -> None:
        """Records that the person has signed in by this flow: in which way, to which session, and through which provider, if one vouched
        for them; whether the log of the application's organization has the sign-in; whether a page may have fields, and terms, to ask
        for, whether one is to offer a passkey, and whether the browser `upgrades` by itself before that. The last look before it has found
        that nobody had signed in by the flow. Needs no round trip of its own.
        """

    async def have_answered(self, flow: FlowId) -> None:
        """No page of this flow asks for fields any more."""

    async def offer_passkey(self, flow: FlowId, user: UserId, at: datetime) -> bool:
        """Records that the person of this flow is offered a passkey now. False when there is nothing to offer any more: the person has made
        one, has answered, was offered one elsewhere since the sign-in, or is not who signed in by the flow. True again for the same flow.
        """

    async def may_offer_passkey(self, flow: FlowId, user: UserId, at: datetime) -> bool:
        """What `offer_passkey` would answer. Records nothing."""

    async def answer_offer(self, flow: FlowId, user: UserId, at: datetime, *, never_again: bool = False) -> None:
        """No page of this flow offers a passkey any more, and none of any flow to a person who wants no more of it."""

    async def have_asked_terms(self, flow: FlowId) -> None:
        """The person has accepted terms on the page of this flow, or will another time."""

    async def complete(self, flow: FlowId, at: datetime, *, refused: bool = False) -> bool:
        """Records that the flow is finished. Returns True to only one of several callers, and False to all others. `refused` says that the
        person has refused what the flow asked for.
        """


class LoginEventStore(Protocol):
    """Outside a unit of work, `list_own` is one statement and one round trip. `add` needs a unit of work."""

    async def list_own(self, user: UserId, before: LoginEventId | None, limit: int) -> Sequence[OwnLogin]:
        """The attempts to sign in to this account, newest first; with `before`, only older ones. A device that the person does not have, or
        no longer has, is without a name.
        """

    async def add(self, event: LoginEvent, by_installation: Decided | None = None) -> None:
        """`by_installation`: the rule for risk of the installation that decided. No organization reads it."""


class MailedTokenStore(Protocol):
    """All methods need a unit of work."""

    async def issue(self, token: MailedToken, asked_at: datetime | None = None) -> None:
        """Earlier unused tokens of the same person and purpose end. If there is no account of this id, no token is issued, by the same
        work. Nor is one for an account that is deactivated, unless somebody has asked for it after the deactivation.
        """

    async def find(self, digest: bytes, purposes: Collection[MailedTokenPurpose]) -> MailedToken | None:
        """Finds used and expired tokens too, as long as they are kept. None when no token with these purposes has the digest."""

    async def redeem(self, digest: bytes, purposes: Collection[MailedTokenPurpose], at: datetime) -> MailedToken | None:
        """None when the token is unknown, expired or used: of two callers, one gets None."""

    async def try_codes(self, flow: FlowId, purpose: MailedTokenPurpose, at: datetime) -> Sequence[MailedToken]:
        """Counts a try of each code that this flow was mailed for the purpose, and returns the links of those that had a try left. However
        many try at once, no code is returned more than `MOST_CODE_TRIES` times. A link that was used a moment ago comes along, so that a
        form that is sent twice is no error. The commit writes for every flow that there is, whether or not it was mailed a code.
        """

    async def try_proof(self, session: SessionId, user: UserId, at: datetime) -> MailedToken | None:
        """Counts a try of the code that was mailed to prove this session of the person's. None when there is no such code, when it has been
        used or had its tries, and when the account has another address by now, or none that is proved.
        """

    async def end(self, user: UserId, purpose: MailedTokenPurpose, at: datetime) -> None:
        """Links of this purpose that were mailed to this person stop working. May be repeated."""

    async def end_all(self, user: UserId, at: datetime) -> None:
        """As `end`, for every purpose."""


class GuessStore(Protocol):
    async def count(self, guess: FailedGuess) -> None:
        """Counts it, and notes what is no coincidence, without a round trip of its own."""


class PuzzleStore(Protocol):
    """All methods are transactions of their own."""

    async def use(self, puzzle: UUID, until: datetime) -> bool:
        """Whether nobody has used it before, in any process. It is remembered until then. A repeat writes nothing."""

    async def is_known_device(self, email: Email, device_token: Token) -> bool:
        """Whether the token belongs to a device of the account with this address."""


class WidgetSilent(Exception):
    """The maker gave no verdict: it did not answer in time, or with something else than a verdict, or does not know the secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WidgetMaker(Protocol):
    @property
    def preset(self) -> WidgetPreset: ...

    @property
    def site_key(self) -> str:
        """What the page names. It is no secret."""

    async def verify(self, answer: str) -> WidgetVerdict:
        """Asks the maker once; an answer that was asked about before is refused there. Raises `WidgetSilent`, and `Overloaded` while too
        many others are asked about.
        """


class DeviceStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each; both skip revoked devices. The other methods
    need a unit of work.
    """

    async def list(self, user: UserId) -> Sequence[Device]:
        """The last used first."""

    async def find(self, device: DeviceId) -> Device | None: ...

    async def knowledge(self, user: UserId, approach: Approach) -> Knowledge:
        """For a sign-in whose own look-up does not bring the knowledge: one round trip. Nothing is known of an unknown user."""

    async def add(self, device: Device, token_digest: bytes) -> None: ...

    async def used(self, device: DeviceId, user: UserId, sighting: Sighting, token_digest: bytes | None, at: datetime) -> None:
        """Records the sign-in: time, place, risk and software. A digest replaces the device's token and ends its trust. A revocation or a
        removal that came in between is undone: a device that has just signed in is in the list and can be revoked again.
        """

    async def trust(self, device: DeviceId, trust_digest: bytes, at: datetime, until: datetime) -> None:
        """The trust lasts from `at` until `until`, or until the trust period of one of the person's organizations is over. That period may
        become shorter later.
        """

    async def end_trust(self, user: UserId) -> None:
        """From now on, no device of this person may skip the second factor."""

    async def hold(self, device: DeviceId) -> Device | None:
        """The device, revoked or not. Nobody else changes it until the transaction ends. None when there is no such device."""

    async def rename(self, device: DeviceId, name: str, at: datetime) -> None: ...

    async def revoke(self, device: DeviceId, at: datetime) -> None:
        """Revokes the device with its token and its trust. The caller ends the device's sessions."""

    async def revoke_all(self, user: UserId, at: datetime, *, but: SessionId | None = None) -> None:
        """Revokes every device of this person, except for the one of that session: nobody is known by them any more."""


class UserAgents(Protocol):
    """A library implements it."""

    async def parse(self, text: str) -> UserAgent:
        """Never fails: for nonsense it returns what little is known. The time is bounded for any text."""


class Locations(Protocol):
    """A database file of the operator implements it. Without one, nothing is found."""

    async def find(self, address: str | None) -> Location | None:
        """None when there is no database, or the database does not know the address."""


class Proxies(Protocol):
    """Lists of the operator implement it."""

    def contain(self, address: str | None) -> bool | None:
        """None when there is no list, or the text is no address."""


class ProofLookup(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, session: SessionId, user: UserId) -> Standing | None:
        """None when this person has no such session, or it was revoked."""


class RealmLookup(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, domain: str) -> Realm | None:
        """The realm of the active organization that has proved the domain. None when no organization decides on the domain."""

    async def of_user(self, user: UserId, domain: str) -> Realm | None:
        """As `find`, and whether this person could become a member by the domain."""


class RealmProviders(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, realm: Realm) -> RealmProvider | None:
        """The provider that the realm names. None when it names none, or names one that is not there."""


class ProviderOutageStore(Protocol):
    """All methods need a unit of work. Callers of a provider report here, under the name that `Realm.provider` has for it."""

    async def failed(self, provider: str, at: datetime) -> None:
        """The provider could not be reached, or answered that it is down (5xx). An answer about a sign-in is no failure."""

    async def worked(self, provider: str) -> None: ...


class ProvidedFields(Protocol):
    """A use case of tenancy implements it: identity stands below tenancy and does not import it."""

    async def keep(self, user: UserId, organization: OrganizationId, provider: str, given: Mapping[str, Json]) -> None:
        """Writes what the organization's own provider has told of its fields. Wrong values are ignored. Never raises a refusal. Outside any
        unit of work.
        """


class Joining(Protocol):
    """A use case of tenancy implements it: identity stands below tenancy and does not import it."""

    async def join_at_sign_in(self, user: UserId, email: Email) -> None:
        """The person becomes a member of the organization that has proved the domain of this address, or asks to become one if the
        organization wants that. The address is the account's own, and verified. Nothing happens if something is in the way, or the second
        time. Outside any unit of work.
        """


class SignInHooks(Protocol):
    """The hooks of organizations and of the installation implement it; those of a higher floor, so that a sign-in knows nothing of them."""

    async def ask(self, door: AskingDoor) -> HookVerdict:
        """What they say of a sign-in at this door. Calls others for some seconds, so no transaction may be open. Never fails for them."""
