"""The JSON of Web Authentication, and the names of authenticator models."""

import tomllib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.identity.passkeys import (
    ALGORITHMS,
    CHALLENGE_LIFETIME,
    Assertion,
    Ceremony,
    CreationOptions,
    Passkey,
    PasskeyRegistration,
    RelyingParty,
    RequestOptions,
)
from entrypoints.http.machinery.fields import example

_LONGEST: Final = 8192
_Binary = Annotated[str, msgspec.Meta(max_length=_LONGEST, pattern="^[A-Za-z0-9_-]*={0,2}$")]
_TIMEOUT: Final = int(CHALLENGE_LIFETIME.total_seconds() * 1000)


class CredentialDescriptor(msgspec.Struct, frozen=True):
    """A passkey, in the form in which browsers name passkeys."""

    id: Annotated[str, example("lWrZ8mI3tq0Xo1u9sE2Zfg")]
    """The passkey's credential ID, in base64url."""
    type: Annotated[str, example("public-key")]
    """Always `public-key`."""
    transports: Annotated[Sequence[str], example(["internal"])]
    """The transports of the authenticator that has the passkey."""


class RelyingPartyEntity(msgspec.Struct, frozen=True):
    """The installation of Postern."""

    id: Annotated[str, example("id.example.org")]
    """The host that passkeys belong to: of the installation's base URL, unless `POSTERN_PASSKEY_ID` names another one."""
    name: Annotated[str, example("Postern")]
    """The name that the browser may show for the installation."""


class UserEntity(msgspec.Struct, frozen=True, rename="camel"):
    """The account."""

    id: Annotated[str, example("AZMbK7tTd0u2mGqz1yH4Zw")]
    """The bytes of the account's ID, in base64url."""
    name: Annotated[str, example("ada@example.org")]
    """The account's email address."""
    display_name: Annotated[str, example("ada@example.org")]
    """The account's email address, as in `name`."""


class KeyParameter(msgspec.Struct, frozen=True):
    """A type of key that Postern accepts."""

    alg: Annotated[int, example(-7)]
    """The algorithm's number in COSE."""
    type: Annotated[str, example("public-key")] = "public-key"
    """Always `public-key`."""


class AuthenticatorSelection(msgspec.Struct, frozen=True, rename="camel"):
    """The requirements for the authenticator."""

    resident_key: Annotated[str, example("required")] = "required"
    """The authenticator stores the passkey itself (discoverable credential), so the person does not type a name."""
    require_resident_key: bool = True
    """The same as `residentKey`, for older browsers."""
    user_verification: Annotated[str, example("required")] = "required"
    """The authenticator verifies the person at each use. `preferred` where the browser makes a passkey by itself after a password: it asks
    nobody then.
    """


class PasskeyCreationOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Pass this to `PublicKeyCredential.parseCreationOptionsFromJSON`, and the result to `navigator.credentials.create`."""

    rp: RelyingPartyEntity
    """This installation."""
    user: UserEntity
    """The account."""
    challenge: Annotated[str, example("eFQ3bGk0dVdvY1l2Um1ySnB6c2FhUQ")]
    """The challenge that the authenticator signs. A challenge is valid once, for five minutes."""
    pub_key_cred_params: Sequence[KeyParameter]
    """The accepted types of keys, in order of preference."""
    timeout: Annotated[int, example(300000)]
    """How long the browser may wait for the person, in milliseconds."""
    exclude_credentials: Sequence[CredentialDescriptor]
    """The passkeys that the person already has. An authenticator with one of them does not create a second passkey."""
    authenticator_selection: AuthenticatorSelection
    """The requirements for the authenticator."""
    attestation: Annotated[str, example("none")] = "none"
    """Always `none`: Postern does not request attestation."""
    extensions: Annotated[dict[str, bool], example({"credProps": True})] = msgspec.field(default_factory=lambda: {"credProps": True})
    """The requested extensions. With `credProps`, the browser reports whether the authenticator stores the passkey itself."""


class PasskeyRequestOptions(msgspec.Struct, frozen=True, rename="camel"):
    """Pass this to `PublicKeyCredential.parseRequestOptionsFromJSON`, and the result to `navigator.credentials.get`."""

    challenge: Annotated[str, example("eFQ3bGk0dVdvY1l2Um1ySnB6c2FhUQ")]
    """The challenge that the authenticator signs. A challenge is valid once, for five minutes."""
    timeout: Annotated[int, example(300000)]
    """How long the browser may wait for the person, in milliseconds."""
    rp_id: Annotated[str, example("id.example.org")]
    """The host that passkeys belong to: of the installation's base URL, unless `POSTERN_PASSKEY_ID` names another one."""
    allow_credentials: Sequence[CredentialDescriptor]
    """The passkeys that the person can use. Empty if the person can choose among all of their passkeys for this installation."""
    user_verification: Annotated[str, example("required")] = "required"
    """Always `required`: the authenticator verifies the person."""


class AttestationResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The new passkey from the authenticator."""

    client_data: _Binary = msgspec.field(name="clientDataJSON")
    """The browser's data about the page, in base64url."""
    attestation_object: _Binary
    """The new key, in base64url."""
    transports: Annotated[list[Annotated[str, msgspec.Meta(max_length=32)]], msgspec.Meta(max_length=16)] = msgspec.field(
        default_factory=list
    )
    """The transports of the authenticator."""


class CredentialProperties(msgspec.Struct, frozen=True):
    """The browser's report about the new passkey."""

    rk: bool | None = None
    """Whether the authenticator stores the passkey itself."""


class ExtensionResults(msgspec.Struct, frozen=True, rename="camel"):
    """The results of extensions."""

    cred_props: CredentialProperties | None = None
    """The result of the extension `credProps`. Absent if the browser does not know the extension."""


class RegistrationCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The result of `navigator.credentials.create`, written by `toJSON()`."""

    response: AttestationResponse
    """The new passkey from the authenticator."""
    type: Literal["public-key"] = "public-key"
    """Always `public-key`."""
    client_extension_results: ExtensionResults = ExtensionResults()
    """The results of the requested extensions."""

    def registration(self) -> PasskeyRegistration:
        """The passkey for the use case. Raises `BadRequest`."""
        properties = self.client_extension_results.cred_props
        return PasskeyRegistration(
            decoded(self.response.client_data),
            decoded(self.response.attestation_object),
            tuple(self.response.transports),
            None if properties is None else properties.rk,
        )


class AssertionResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The data that the authenticator has signed, with the signature."""

    client_data: _Binary = msgspec.field(name="clientDataJSON")
    """The browser's data about the page, in base64url."""
    authenticator_data: _Binary
    """The authenticator's data, in base64url."""
    signature: _Binary
    """The authenticator's signature over `authenticatorData` and the hash of `clientDataJSON`, in base64url."""
    user_handle: _Binary | None = None
    """The ID of the passkey's account, in base64url."""


class AssertionCredential(msgspec.Struct, frozen=True):
    """The result of `navigator.credentials.get`, written by `toJSON()`."""

    id: _Binary
    """The passkey's credential ID, in base64url."""
    response: AssertionResponse
    """The data that the authenticator has signed, with the signature."""
    type: Literal["public-key"] = "public-key"
    """Always `public-key`."""

    def assertion(self) -> Assertion:
        """The assertion for the use case. Raises `BadRequest`."""
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
        AuthenticatorSelection(user_verification="preferred" if options.ceremony is Ceremony.CONDITIONAL else "required"),
    )


def request_options(options: RequestOptions) -> PasskeyRequestOptions:
    return PasskeyRequestOptions(options.challenge, _TIMEOUT, options.relying_party.id, [_descriptor(one) for one in options.allowed])


class UnknownCredentialSignal(msgspec.Struct, frozen=True, rename="camel"):
    rp_id: str
    credential_id: str


class AcceptedCredentialsSignal(msgspec.Struct, frozen=True, rename="camel"):
    rp_id: str
    user_id: str
    all_accepted_credential_ids: Sequence[str]


class UserDetailsSignal(msgspec.Struct, frozen=True, rename="camel"):
    rp_id: str
    user_id: str
    name: str
    display_name: str


class PasskeySignal(NamedTuple):
    """What a page's script tells the browser (Web Authentication, level 3, section 5.1.10), where the browser knows the method."""

    method: str
    options: str
    """As JSON."""


def unknown_signal(relying_party: RelyingParty, credential_id: str) -> PasskeySignal:
    """The browser need not offer this passkey any more. It has named the passkey itself."""
    return _signal("signalUnknownCredential", UnknownCredentialSignal(relying_party.id, credential_id))


def accepted_signals(relying_party: RelyingParty, user: UserId, passkeys: Sequence[Passkey]) -> Sequence[PasskeySignal]:
    """All passkeys of a person, by the names that authenticators have for the person: the browser need offer no others."""
    handles: dict[bytes, list[str]] = {user.bytes: []}
    for one in passkeys:
        handles.setdefault(one.handle, []).append(encoded(one.credential_id))
    return [
        _signal("signalAllAcceptedCredentials", AcceptedCredentialsSignal(relying_party.id, encoded(handle), ids))
        for handle, ids in handles.items()
    ]


def details_signal(relying_party: RelyingParty, user: UserId, email: str, name: str) -> PasskeySignal:
    return _signal("signalCurrentUserDetails", UserDetailsSignal(relying_party.id, encoded(user.bytes), email, name or email))


def _signal(method: str, options: msgspec.Struct) -> PasskeySignal:
    return PasskeySignal(method, msgspec.json.encode(options).decode())


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """The bytes of a text in base64url. Raises `BadRequest`."""
    bare = text.rstrip("=")
    try:
        return urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        raise BadRequest("credential: not base64url", words="passkey_refused") from None


def _descriptor(passkey: Passkey) -> CredentialDescriptor:
    return CredentialDescriptor(encoded(passkey.credential_id), "public-key", list(passkey.transports))


_MAKERS: Final = Path(__file__).parent / "passkey_makers.toml"


def maker_named(aaguid: UUID) -> str:
    """Empty for an authenticator that does not say, and for one that is not in the list."""
    return _makers().get(str(aaguid), "")


@lru_cache(maxsize=1)
def _makers() -> Mapping[str, str]:
    file = tomllib.loads(_MAKERS.read_text("utf-8"))
    return {**file["makers"], **file["security_keys"]}
