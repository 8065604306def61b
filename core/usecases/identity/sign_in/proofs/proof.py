"""The common form of every authentication: each method makes a proof, and `Admission` does everything that follows."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final

from core.domain.errors import Refusal, Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import DeviceId, FlowId, IdentityId, OrganizationId, ServiceId
from core.domain.identity.flows import FlowOver
from core.domain.identity.proofs import ProofMethod
from core.domain.identity.realms import OUR_OWN, Realm, Word
from core.domain.identity.risk import Approach
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import Confirmed, LastLook, NamedAccount
from core.domain.identity.upstream.directory_visits import DirectoryFactor, DirectoryVisit
from core.frozen import Frozen
from ports.unit_of_work import UnitOfWork

WRONG_PASSWORD: Final = "The email address or the password is wrong"  # noqa: S105 - a sentence
CHANGED: Final = "the account changed while the proof was checked"


class Overtaken(Unauthorized):
    """The account changed before the sign-in was finished."""

    def __init__(self) -> None:
        super().__init__(WRONG_PASSWORD, words="wrong_password", detail=CHANGED)


class EmailNotVerified(Unauthorized):
    """The password is right, and nobody has proved the address yet."""

    text = "The email address is not verified: open the link that was sent to it"

    def __init__(self) -> None:
        super().__init__(words="email_not_verified")


class StatedFields(Frozen):
    """Values for the fields of the organization that owns the provider."""

    organization: OrganizationId
    provider: str
    values: Mapping[str, Json]


class Proof(Frozen, kw_only=True):
    """Shows that a person is who they say they are."""

    method: ProofMethod
    provider: str
    """The name of this way to sign in in the login events."""
    amr: tuple[str, ...]
    """The methods, as RFC 8176 section 2 names them."""
    at: datetime
    """When the person came here with it."""
    use: Callable[[UnitOfWork], Awaitable[None]]
    """Uses up single-use values, after the last look and in its unit of work. Raises the refusal of this way to sign in."""
    opens: Callable[[UnitOfWork], Awaitable[None]] | None = None
    """Opens an account that a directory has deactivated, before the last look and in its unit of work. None where no proof opens it."""
    encoded: str | None = None
    """The hash that a password was checked against."""
    renewed: str | None = None
    """The hash of the same password that takes its place, in the unit of work of the last look."""
    since: datetime | None = None
    """The time from which the proof counts: a password that is set later ends the proof."""
    refusal: Callable[[], Refusal] = Overtaken
    """The refusal for a proof that no longer holds."""
    shows_two_factors: bool = False
    """Whether no second factor is asked for."""
    word: Word = OUR_OWN
    """What the organization that owns the domain of the account's address judges the proof by."""
    stated: StatedFields | None = None
    """What an organization's own provider tells of its fields."""
    identity: IdentityId | None = None
    """The connected identity that the provider vouched for."""
    visit: DirectoryVisit | None = None
    """The person's visit to a directory by SAML."""
    stated_at: datetime | None = None
    """When the person signed in at the provider, by the provider's word; see `Proved.stated_at`. None for a proof that was given here."""
    refuses_applications: bool = False
    """The provider lets the person use our own pages alone."""
    factor: DirectoryFactor | None = None
    """What an organization's own provider has stated of a second factor. It counts for that organization's rule alone."""


class Arrival(Frozen):
    """A person who has given a proof: the account, the proof, the client, and the place that the sign-in leads to."""

    named: NamedAccount
    proof: Proof
    approach: Approach
    context: Context
    realm: Realm | None = None
    """The realm of the address's domain, if an organization has proved the domain."""

    async def last_look(
        self,
        uow: UnitOfWork,
        *,
        service: ServiceId | None = None,
        device: DeviceId | None = None,
        flow: FlowId | None = None,
        organization: OrganizationId | None = None,
        offers_passkey: bool = False,
    ) -> Confirmed:
        """Raises the proof's refusal, and `FlowOver` when somebody has signed in by the flow."""
        account, proof = self.named.account, self.proof
        if proof.opens is not None:
            await proof.opens(uow)
        if proof.encoded is not None and proof.renewed is not None:
            # If the password has changed meanwhile, nothing is renewed, and the last look refuses this proof. Another sign-in with the same
            # password has made the same hash.
            await uow.sign_ins.renew(account.id, proof.encoded, proof.renewed)
        look = LastLook(
            user=account.id,
            encoded=proof.renewed or proof.encoded,
            since=proof.since,
            identity=proof.identity,
            email=account.email,
            device=device,
            service=service,
            flow=flow,
            organization=organization,
            offers_passkey=offers_passkey,
        )
        return await last_look(uow, look, proof.refusal)


async def last_look(uow: UnitOfWork, look: LastLook, refusal: Callable[[], Refusal]) -> Confirmed:
    """Checks, in one statement, that everything the sign-in rests on still holds.

    Raises the refusal, and `FlowOver` when somebody has signed in by the flow.
    """
    confirmed = await uow.sign_ins.confirm(look)
    if confirmed is None or not confirmed.is_connected:
        raise refusal()
    if not confirmed.flow_is_open:
        raise FlowOver
    return confirmed
