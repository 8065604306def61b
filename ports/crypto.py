"""Sealing, signing and hashing with the keys of the installation, and proofs of keys of others."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from core.domain.formats import Json
from core.domain.identifiers import KeyId
from core.domain.identity.foreign_hashes.hashes import ForeignHash
from core.domain.identity.guards.bound_sessions import BindingProof
from core.domain.identity.sign_in import Priority
from core.domain.key_proofs import ReadKeyProof, UsedKeyProof
from core.domain.secrets import Password
from core.domain.tokens import KeyPurpose, SigningKey, TokenAlgorithm
from core.frozen import Frozen


class KeyRing(Protocol):
    """A key management service could implement it as well as our own ring of AES keys does."""

    def __hash__(self) -> int:
        """Each ring equals itself alone."""

    def seal(self, plaintext: bytes, context: str) -> bytes:
        """Encrypt under the ring's first key. `context` names the table, column and row; opening it elsewhere fails."""

    def open(self, sealed: bytes, context: str) -> bytes:
        """Raises `CannotOpen` when the key is unknown, the bytes were altered, or the context differs."""

    def is_outdated(self, sealed: bytes) -> bool:
        """Whether it was sealed under another key than the ring's first."""

    def derive(self, purpose: str) -> bytes:
        """A key of 256 bits from the ring's first key, for this purpose alone (HKDF). Every process with this ring derives the same, so
        it is kept nowhere. What must outlive a rotation of the ring is sealed instead.
        """

    def current_key_id(self) -> str: ...

    def current_header(self) -> bytes:
        """The bytes that begin every value sealed under the ring's first key and no other. The database finds outdated values by them."""


class CannotOpen(Exception):
    """A sealed value could not be opened. The fault lies in configuration or storage, never with the caller."""


class SealedValue(Frozen):
    """One sealed value where it is stored: the row's primary key as text, and the context that it was sealed with."""

    row: str
    sealed: bytes
    context: str


class SealedColumns(Protocol):
    """Every place where the database keeps sealed values. After a rotation of the ring, these values are sealed again."""

    @property
    def columns(self) -> Sequence[str]:
        """All of them, each as `table.column`."""

    async def all(self, column: str, after: str | None, limit: int) -> Sequence[SealedValue]:
        """Up to `limit` values of the column, in the order of their rows, behind this row. The first call passes None."""

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        """Up to `limit` values of the column that were sealed under another key than the ring's first, in a stable order."""

    async def count_outdated(self, column: str) -> int:
        """How many values of the column were sealed under another key than the ring's first. Reads the whole column."""

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        """Write the new value if the old one is still there. False when the row changed or disappeared meanwhile."""


class HeadSigner(Protocol):
    """A hardware security module could implement it as well as our own key does."""

    async def sign(self, claims: Mapping[str, Json]) -> str:
        """A compact JWS (RFC 7515), ES256, of the type `postern-head+jwt`."""

    async def sign_evidence(self, claims: Mapping[str, Json]) -> str:
        """Likewise, of the type `postern-evidence+jwt`."""

    async def public_key(self) -> Mapping[str, Json]:
        """The key as a JSON Web Key. It never changes, so that people can verify heads and evidence for as long as they keep them."""


class KeyProofReader(Protocol):
    def read(self, text: str) -> ReadKeyProof:
        """The proof, if the key that it names has signed it. Only public keys of the accepted kinds and sizes count. Raises
        `KeyProofRefused`.
        """


class BindingProofReader(Protocol):
    """Proofs of browsers for their bound sessions."""

    def read(self, text: str) -> BindingProof:
        """What the proof says, before anybody knows who has signed it. Only keys of the accepted kinds and sizes are read. Raises
        `BindingProofRefused`.
        """

    def verify(self, text: str, algorithm: str, public_key: str) -> None:
        """Raises `BindingProofRefused` when this key, as `BindingProof` had it once, has not signed the proof."""


class UsedKeyProofs(Protocol):
    async def use(self, proof: UsedKeyProof) -> bool:
        """False when the proof was used before, in any process."""


class Examined(Frozen):
    """Whether a password matches, and the moment before which nobody learns that it does not, by the clock of the hasher. None: at once."""

    matches: bool
    not_before: float | None = None


class PasswordHasher(Protocol):
    """Argon2 in worker threads implements it."""

    async def hash(self, password: Password, priority: Priority = Priority.STRANGER) -> str:
        """The encoded hash. Raises `Overloaded` when the queue is full for this priority."""

    async def verify(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> bool:
        """Whether the password matches. Without a hash, the same work is done against a decoy and the answer is False, so that the time
        does not tell who has a password. Raises `Overloaded` as `hash` does.
        """

    async def examine(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> Examined:
        """Like `verify`, where a stranger may learn from the time of a refusal. While hashes of other systems remain, these take different
        times, so the caller waits by `hold_back` before it refuses anything.
        """

    async def hold_back(self, examined: Examined) -> None:
        """Waits until a refusal may be told. The wait takes no place in the queue."""

    async def renew(self, encoded: str, password: Password, priority: Priority = Priority.STRANGER) -> str:
        """The hash that takes the place of an outdated one. For the same hash and the same password it is the same, so that of two sign-ins
        at once neither finds the other's. Raises `Overloaded` as `hash` does.
        """

    def is_outdated(self, encoded: str) -> bool:
        """Whether another system made the hash, or it has other parameters than those in force. It is renewed at the next successful
        sign-in.
        """

    async def expect(self, shapes: Collection[str]) -> None:
        """Says which shapes the stored hashes of other systems have: from now on, every refusal takes as long as the slowest of them. Those
        that are new here are measured. Raises `Overloaded` as `hash` does.
        """

    async def stored(self, hashes: Sequence[ForeignHash]) -> Sequence[str]:
        """The texts under which hashes of other systems are kept, in the same order. Those that are fast to guess at are first wrapped
        in Argon2id, a few at a time. Raises `Overloaded` as `hash` does.
        """


class CommonPasswords(Protocol):
    """A shipped list implements it."""

    def contains(self, password: Password) -> bool: ...


class BreachedPasswords(Protocol):
    """A file with the hashes of stolen passwords implements it, or a service that knows them."""

    async def contains(self, password: Password) -> bool:
        """Without a statement. A service that does not answer in time knows nothing."""


class ListedPasswords(Frozen):
    """What a list of stolen passwords says of itself."""

    hashes: int
    day: date
    """When it was made."""


class WatchedFile(Protocol):
    """A file that the operator may exchange meanwhile."""

    async def look(self) -> ListedPasswords | None:
        """Takes a new content, once it has proved whole. Returns what is in force from then on; None if nothing is."""


class ServerSecrets(Protocol):
    """PostgreSQL keeps the keys, sealed."""

    async def get(self, purpose: str) -> bytes:
        """32 random bytes for each purpose, the same in every process and for good. Only the first use of a purpose asks the database."""


class KeptSecrets(ServerSecrets, Protocol):
    """For those who must not write."""

    async def find(self, purpose: str) -> bytes | None:
        """As `get`, but makes nothing. None when nobody has used the purpose yet."""


class SigningKeyStore(Protocol):
    """All methods need a unit of work."""

    async def hold(self) -> None:
        """One writer at a time, across all processes, until the transaction ends. Readers do not wait."""

    async def all(self) -> Sequence[SigningKey]: ...

    async def add(self, key: SigningKey) -> None: ...

    async def activate(self, key: KeyId, at: datetime) -> None:
        """The key goes from `next` to `current`."""

    async def retire(self, key: KeyId, until: datetime) -> None:
        """The key goes from `current` to `outgoing`, and verifies tokens until this time."""

    async def delete_retired(self, before: datetime) -> int: ...


class KeyMaker(Protocol):
    """Makes key pairs. The private half leaves the maker sealed. A hardware security module could implement it."""

    async def make(self, purpose: KeyPurpose, created_at: datetime) -> SigningKey:
        """A new key in the state `next`. RSA takes a good part of a second, so it runs in a worker thread."""


class KnownSigningKeys(Protocol):
    """The installation's keys as this process knows them: fresh while the database answers, older while it is away. It is a cache."""

    async def all(self) -> Sequence[SigningKey]:
        """Raises `Unavailable` only when none have ever been read."""

    def expire(self) -> None:
        """The keys have just changed: read them again before the next use."""


class TokenSigner(Protocol):
    """A hardware security module could implement it as well as our own keys do."""

    async def sign_access(self, claims: Mapping[str, Json]) -> str:
        """ES256, under the current access key; `kid` is in the header."""

    async def sign_for_application(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm) -> str:
        """For an access token that an application holds, under the current access key of that algorithm: the token's type is `at+jwt`
        (RFC 9068).
        """

    async def sign_logout(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm = TokenAlgorithm.RS256) -> str:
        """Under the same key as ID tokens; its type is `logout+jwt` (OpenID Connect Back-Channel Logout section 2.4)."""

    async def sign_signal(self, claims: Mapping[str, Json]) -> str:
        """RS256, under the same key as ID tokens; its type is `secevent+jwt` (RFC 8417)."""

    async def sign_proxy(self, claims: Mapping[str, Json]) -> str:
        """ES256, under the current access key; its type is `proxy+jwt`."""

    async def sign_id(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm = TokenAlgorithm.RS256) -> str:
        """Under the current key for ID tokens of that algorithm."""


class AccessTokenVerifier(Protocol):
    async def verify_access(self, token: str) -> Mapping[str, Json]:
        """The claims of a token that we signed, that has not expired, and that names us as issuer. The caller checks the use (`token_use`)
        and the audience. Keys that the token itself names are never read. Raises `TokenExpired` or `TokenInvalid`.
        """


class TokenVerifier(AccessTokenVerifier, Protocol):
    async def verify_issued(self, token: str) -> Mapping[str, Json]:
        """As `verify_access`, also for a token without a session: one that an application has in its own name."""

    async def verify_id(self, token: str) -> Mapping[str, Json]:
        """The claims of an ID token that we signed, expired or not: the token says who somebody was, and opens nothing. Raises
        `TokenInvalid`.
        """
