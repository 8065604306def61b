"""What an address is worth. It is *proved* by a mailed link or code that its reader used, or by one of the installation's own providers. An
organization's own provider only *vouches* for an address: the organization can make it say anything. The table below says for each purpose
whether a vouched address is enough. Statements say it by the fragments of `adapters/postgres/identity/addresses.py`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import Final, Self
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.frozen import Frozen


class AddressUse(Enum):
    """What an address is asked for. "The voucher" is the provider that vouched, or its organization."""

    SIGN_IN_AT_VOUCHER = auto()
    SWEEP = auto()
    """The account must not end as one that nobody has verified."""
    CLAIMS_OF_VOUCHER = auto()
    """`email_verified` towards the services of the organization."""
    JOINING_VOUCHER = auto()
    """Becoming a member of the organization by the domain of the address."""
    LISTING = auto()
    """A directory lists the person, or somebody accepts for them. It proves nothing, so it must end nothing."""
    OTHER_SIGN_IN = auto()
    """Signing in with a password, a passkey or a mailed link."""
    OTHER_PROVIDER = auto()
    """Another provider's first word about the address."""
    INVITATIONS = auto()
    """Reading and accepting invitations in one's own list, confirming memberships, and founding an organization."""
    JOINING_ELSEWHERE = auto()
    CLAIMS_OF_OTHERS = auto()
    PLATFORM = auto()
    """Rights on the platform."""
    HOLDING = auto()
    """The account is its owner's, so that whoever made it can neither move nor delete it, and a proof does not open it."""
    FORGETTING = auto()
    """What others keep about the address is about the person."""


# Whether a vouched address counts as a proved one.
VOUCHED_COUNTS: Final[Mapping[AddressUse, bool]] = {
    AddressUse.SIGN_IN_AT_VOUCHER: True,
    AddressUse.SWEEP: True,
    AddressUse.CLAIMS_OF_VOUCHER: True,
    AddressUse.JOINING_VOUCHER: True,
    AddressUse.LISTING: True,
    AddressUse.OTHER_SIGN_IN: False,
    AddressUse.OTHER_PROVIDER: False,
    AddressUse.INVITATIONS: False,
    AddressUse.JOINING_ELSEWHERE: False,
    AddressUse.CLAIMS_OF_OTHERS: False,
    AddressUse.PLATFORM: False,
    AddressUse.HOLDING: False,
    AddressUse.FORGETTING: False,
}


class Voucher(Frozen):
    """The organization's own provider that vouched for an address. It is kept as a text, and outlives both."""

    organization: OrganizationId
    provider: UUID

    @property
    def text(self) -> str:
        return f"{self.organization}/{self.provider}"

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Reads what `text` wrote."""
        if text is None:
            return None
        organization, _, provider = text.partition("/")
        return cls(OrganizationId(UUID(organization)), UUID(provider))


class AddedKind(StrEnum):
    """What was added to an account."""

    PASSWORD = "password"  # noqa: S105 - a kind, not a password
    SECOND_FACTOR = "second_factor"
    PASSKEY = "passkey"
    IDENTITY = "identity"
    USER_KEY = "user_key"


class AddedWay(Frozen):
    """A way into an account, a second factor, or a key for the API of an application, that was not made in the browser session that proves
    the address. Somebody else may have made it, so it stays only if the person says so. The password and the keys are always here, since
    nothing says where they were chosen and made.
    """

    kind: AddedKind
    id: UUID
    """The account's, for a password and a second factor."""
    name: str
    """The person's, or the provider's."""
    at: datetime | None
    application: str = ""
    """That of a key."""
    made_by_service: bool = False
    """The application made the key."""
    last_used_at: datetime | None = None
    """Of a key."""

    @property
    def key(self) -> str:
        """Its name in a form."""
        return f"{self.kind}:{self.id}"
