"""The JSON of Web Authentication (level 3, sections 5.1.8 to 5.1.10): what browsers take in `parseCreationOptionsFromJSON` and
`parseRequestOptionsFromJSON`, and what they make by `toJSON()`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.passkeys import (
    ALGORITHMS,
    CHALLENGE_LIFETIME,
    Assertion,
    CreationOptions,
    Passkey,
    PasskeyRegistration,
    RequestOptions,
)
from entrypoints.http.machinery.fields import example

_LONGEST: Final = 8192
_Binary = Annotated[str, msgspec.Meta(max_length=_LONGEST, pattern="^[A-Za-z0-9_-]*={0,2}$")]
_TIMEOUT: Final = int(CHALLENGE_LIFETIME.total_seconds() * 1000)


class CredentialDescriptor(msgspec.Struct, frozen=True):
    """A passkey, as browsers name it."""

    id: Annotated[str, example("lWrZ8mI3tq0Xo1u9sE2Zfg")]
    """Its credential id, in base64url."""
    type: Annotated[str, example("public-key")]
    """Always `public-key`."""
    transports: Annotated[Sequence[str], example(["internal"])]
    """How its authenticator can be reached."""


class RelyingPartyEntity(msgspec.Struct, frozen=True):
    """The installation."""

    id: Annotated[str, example("id.example.org")]
    """The host of its base URL."""
    name: Annotated[str, example("Postern")]
    """What the browser may call it."""


class UserEntity(msgspec.Struct, frozen=True, rename="camel"):
    """The account."""

    id: Annotated[str, example("AZMbK7tTd0u2mGqz1yH4Zw")]
    """The bytes of the account's id, in base64url."""
    name: Annotated[str, example("ada@example.org")]
    """The account's address."""
    display_name: Annotated[str, example("ada@example.org")]
    """The same."""


class KeyParameter(msgspec.Struct, frozen=True):
    """A kind of key that is accepted."""

    alg: Annotated[int, example(-7)]
    """The algorithm's number in COSE."""
    type: Annotated[str, example("public-key")] = "public-key"
    """Always `public-key`."""


class AuthenticatorSelection(msgspec.Struct, frozen=True, rename="camel"):
    """What the authenticator must do."""

    resident_key: Annotated[str, example("required")] = "required"
    """It keeps the passkey itself, so that nobody has to type a name."""
    require_resident_key: bool = True
    """The same, for older browsers."""
    user_verification: Annotated[str, example("required")] = "required"
    """It verifies its owner each time."""


class PasskeyCreationOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Give this to `PublicKeyCredential.parseCreationOptionsFromJSON`, and the result to `navigator.credentials.create`."""

    rp: RelyingPartyEntity
    """This installation."""
    user: UserEntity
    """The account."""
    challenge: Annotated[str, example("eFQ3bGk0dVdvY1l2Um1ySnB6c2FhUQ")]
    """What the authenticator signs. It works once, for five minutes."""
    pub_key_cred_params: Sequence[KeyParameter]
    """The kinds of keys that are accepted, the best first."""
    timeout: Annotated[int, example(300000)]
    """For how many milliseconds the browser may wait for the person."""
    exclude_credentials: Sequence[CredentialDescriptor]
    """The passkeys that the person has. No authenticator makes a second one."""
    authenticator_selection: AuthenticatorSelection
    """What the authenticator must do."""
    attestation: Annotated[str, example("none")] = "none"
    """Nobody asks who made the authenticator."""
    extensions: Annotated[dict[str, bool], example({"credProps": True})] = msgspec.field(default_factory=lambda: {"credProps": True})
    """The browser is to say whether the authenticator keeps the passkey itself."""


class PasskeyRequestOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Give this to `PublicKeyCredential.parseRequestOptionsFromJSON`, and the result to `navigator.credentials.get`."""

    challenge: Annotated[str, example("eFQ3bGk0dVdvY1l2Um1ySnB6c2FhUQ")]
    """What the authenticator signs. It works once, for five minutes."""
    timeout: Annotated[int, example(300000)]
    """For how many milliseconds the browser may wait for the person."""
    rp_id: Annotated[str, example("id.example.org")]
    """The host of this installation's base URL."""
    allow_credentials: Sequence[CredentialDescriptor]
    """Empty: the person chooses among all passkeys that they have here."""
    user_verification: Annotated[str, example("required")] = "required"
    """The authenticator verifies its owner."""


class AttestationResponse(msgspec.Struct, frozen=True, rename="camel"):
    """What the authenticator has made."""

    client_data: _Binary = msgspec.field(name="clientDataJSON")
    """What the browser says about the page, in base64url."""
    attestation_object: _Binary
    """The new key, in base64url."""
    transports: Annotated[list[Annotated[str, msgspec.Meta(max_length=32)]], msgspec.Meta(max_length=16)] = msgspec.field(
        default_factory=list
    )
    """How the authenticator can be reached."""


class CredentialProperties(msgspec.Struct, frozen=True):
    """What the browser says about the new passkey."""

    rk: bool | None = None
    """Whether the authenticator keeps it itself."""


class ExtensionResults(msgspec.Struct, frozen=True, rename="camel"):
    """The results of extensions."""

    cred_props: CredentialProperties | None = None
    """Absent where the browser does not know it."""


class RegistrationCredential(msgspec.Struct, frozen=True, rename="camel"):
    """What `navigator.credentials.create` has made, by its `toJSON()`."""

    response: AttestationResponse
    """What the authenticator has made."""
    type: Literal["public-key"] = "public-key"
    """Always `public-key`."""
    client_extension_results: ExtensionResults = ExtensionResults()
    """What else the browser says."""

    def registration(self) -> PasskeyRegistration:
        """Raises `BadRequest`."""
        properties = self.client_extension_results.cred_props
        return PasskeyRegistration(
            decoded(self.response.client_data),
            decoded(self.response.attestation_object),
            tuple(self.response.transports),
            None if properties is None else properties.rk,
        )


class AssertionResponse(msgspec.Struct, frozen=True, rename="camel"):
    """What the authenticator has signed."""

    client_data: _Binary = msgspec.field(name="clientDataJSON")
    """What the browser says about the page, in base64url."""
    authenticator_data: _Binary
    """What the authenticator says, in base64url."""
    signature: _Binary
    """Its signature over both, in base64url."""
    user_handle: _Binary | None = None
    """Whose passkey it is, in base64url."""


class AssertionCredential(msgspec.Struct, frozen=True):
    """What `navigator.credentials.get` has found, by its `toJSON()`."""

    id: _Binary
    """The passkey's credential id, in base64url."""
    response: AssertionResponse
    """What the authenticator has signed."""
    type: Literal["public-key"] = "public-key"
    """Always `public-key`."""

    def assertion(self) -> Assertion:
        """Raises `BadRequest`."""
        handle = self.response.user_handle
        return Assertion(
            decoded(self.id),
            decoded(self.response.client_data),
            decoded(self.response.authenticator_data),
            decoded(self.response.signature),
            decoded(handle) if handle else None,
        )


def creation_options(options: CreationOptions, name: str) -> PasskeyCreationOptions:
    return PasskeyCreationOptions(
        RelyingPartyEntity(options.relying_party.id, name),
        UserEntity(encoded(options.user.bytes), options.email, options.email),
        options.challenge,
        [KeyParameter(algorithm) for algorithm in ALGORITHMS],
        _TIMEOUT,
        [_descriptor(one) for one in options.excluded],
        AuthenticatorSelection(),
    )


def request_options(options: RequestOptions) -> PasskeyRequestOptions:
    return PasskeyRequestOptions(options.challenge, _TIMEOUT, options.relying_party.id, [_descriptor(one) for one in options.allowed])


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Raises `BadRequest`."""
    bare = text.rstrip("=")
    try:
        return urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        raise BadRequest("credential: not base64url", words="passkey_refused") from None


def _descriptor(passkey: Passkey) -> CredentialDescriptor:
    return CredentialDescriptor(encoded(passkey.credential_id), "public-key", list(passkey.transports))
