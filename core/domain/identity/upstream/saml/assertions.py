"""SAML connections, with Postern as the service provider: the request, the assertion, the attribute mapping, and the metadata."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from core.domain.formats import Json, fields_as_json
from core.domain.saml import DirectoryNameId, KeyPair, NameIdFormat, RequestedContext, SamlBinding
from core.frozen import Frozen, names_of, replace


class ReceivedAttribute(Frozen, kw_only=True):
    name: str
    friendly_name: str | None = None
    """For people who read the test page. It identifies no attribute (SAML core, section 2.7.3.1)."""
    values: Sequence[str] = ()


class SigningCertificate(Frozen, kw_only=True):
    """The certificate that verified the signature."""

    fingerprint: str
    """SHA-256, in hexadecimal digits."""
    valid_until: datetime


class DirectoryAssertion(Frozen, kw_only=True):
    """What the identity provider has asserted about a user. It exists only for a response that passed every check."""

    id: str
    """For one use: the pair of `issuer` and `id` may count once until `usable_until`."""
    usable_until: datetime
    issuer: str
    name_id: DirectoryNameId | None
    attributes: Sequence[ReceivedAttribute]
    authenticated_at: datetime
    session_index: str | None
    session_ends_at: datetime | None
    """`SessionNotOnOrAfter`: the directory wants the session to end by then."""
    context_class: str | None
    signed_by: SigningCertificate
    encrypted: bool
    issued_at: datetime | None = None
    refuses_applications: bool = False
    """`ProxyRestriction`: the person may be signed in to our own pages, and to no application."""

    def values(self, name: str) -> Sequence[str]:
        """The values of an attribute, by its exact name. Empty when the directory sent none."""
        return tuple(value for one in self.attributes if one.name == name for value in one.values)


class DirectoryPerson(Frozen, kw_only=True):
    """The person, read from an assertion by the connection's mapping."""

    subject: str
    """The name by which the connection recognises the person, and which must never be given to another person."""
    email: str = ""
    given_name: str = ""
    family_name: str = ""
    name: str = ""
    groups: Sequence[str] = ()
    fields: Mapping[str, Sequence[str]] = {}
    """The values of the attributes that the organization's mapping names, by the keys of its fields."""


class Asserting(Frozen, kw_only=True):
    """An assertion and its person: what a sign-in takes."""

    assertion: DirectoryAssertion
    person: DirectoryPerson

    def stored(self) -> Mapping[str, Json]:
        """The form in which a checked answer waits for its browser. It contains personal data, so it is sealed."""
        said, name_id, person = self.assertion, self.assertion.name_id, self.person
        return {
            **fields_as_json(said, ("id", "issuer", "session_index", "context_class", "encrypted", "refuses_applications")),
            "usable_until": said.usable_until.isoformat(),
            "name_id": None if name_id is None else [name_id.text, name_id.format, name_id.name_qualifier, name_id.sp_name_qualifier],
            "attributes": [[one.name, one.friendly_name, list(one.values)] for one in said.attributes],
            "authenticated_at": said.authenticated_at.isoformat(),
            "session_ends_at": None if said.session_ends_at is None else said.session_ends_at.isoformat(),
            "signed_by": [said.signed_by.fingerprint, said.signed_by.valid_until.isoformat()],
            "issued_at": None if said.issued_at is None else said.issued_at.isoformat(),
            "person": fields_as_json(person, names_of(person)),
        }


def restored(kept: Mapping[str, Any]) -> Asserting:
    """Reads the form that `Asserting.stored` made."""
    name_id, ends, person = kept["name_id"], kept["session_ends_at"], kept["person"]
    return Asserting(
        assertion=DirectoryAssertion(
            id=kept["id"],
            usable_until=datetime.fromisoformat(kept["usable_until"]),
            issuer=kept["issuer"],
            name_id=None
            if name_id is None
            else DirectoryNameId(text=name_id[0], format=name_id[1], name_qualifier=name_id[2], sp_name_qualifier=name_id[3]),
            attributes=tuple(
                ReceivedAttribute(name=name, friendly_name=friendly, values=tuple(values)) for name, friendly, values in kept["attributes"]
            ),
            authenticated_at=datetime.fromisoformat(kept["authenticated_at"]),
            session_index=kept["session_index"],
            session_ends_at=None if ends is None else datetime.fromisoformat(ends),
            context_class=kept["context_class"],
            signed_by=SigningCertificate(fingerprint=kept["signed_by"][0], valid_until=datetime.fromisoformat(kept["signed_by"][1])),
            encrypted=kept["encrypted"],
            # An answer that a process of the release before keeps says nothing of it.
            refuses_applications=kept.get("refuses_applications", False),
            issued_at=None if kept.get("issued_at") is None else datetime.fromisoformat(kept["issued_at"]),
        ),
        person=DirectoryPerson(
            subject=person["subject"],
            email=person["email"],
            given_name=person["given_name"],
            family_name=person["family_name"],
            name=person["name"],
            groups=tuple(person["groups"]),
            fields={key: tuple(values) for key, values in person["fields"].items()},
        ),
    )


NAME_ID: Final = "name_id"
"""A source that is the subject's NameID, and no attribute."""


class AttributeMapping(Frozen, kw_only=True):
    """Where an identity provider states who a user is. Each source is `NAME_ID` or the exact name of an attribute. Several are tried in
    order, and the first one that the identity provider sent counts; the subject has exactly one source, since a user must not get another
    subject when the identity provider sends more or less.
    """

    subject: str = NAME_ID
    email: Sequence[str] = ()
    given_name: Sequence[str] = ()
    family_name: Sequence[str] = ()
    name: Sequence[str] = ()
    groups: Sequence[str] = ()
    fields: Mapping[str, str] = {}
    """The keys of the organization's fields, by the attributes that go into them."""


class DirectoryPreset(StrEnum):
    """Identity providers with a known attribute mapping. Any other is configured by hand."""

    ENTRA_ID = "entra_id"
    OKTA = "okta"
    GOOGLE = "google"
    AD_FS = "ad_fs"
    PING = "ping"
    SHIBBOLETH = "shibboleth"
    KEYCLOAK = "keycloak"


class Preset(Frozen, kw_only=True):
    """The sources of each are in docs/guides/directories/saml-directories.md."""

    name: str
    """The product's name for people."""
    mapping: AttributeMapping
    name_id_format: str | None = None
    """The format to ask for. None where the directory's own setting decides."""
    encrypts_weakly: bool = False
    """The product encrypts with CBC as soon as our metadata publish a key for encryption, whatever methods they name."""


_SOAP: Final = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims"
_ENTRA: Final = "http://schemas.microsoft.com/identity/claims"
_WINDOWS: Final = "http://schemas.microsoft.com/ws/2008/06/identity/claims"
# Directories that leave the names to whoever sets them up. The set-up tells these.
_OURS: Final = AttributeMapping(
    email=("email",), given_name=("firstName",), family_name=("lastName",), name=("displayName",), groups=("groups",)
)

PRESETS: Final[Mapping[DirectoryPreset, Preset]] = {
    DirectoryPreset.ENTRA_ID: Preset(
        name="Microsoft Entra ID",
        mapping=AttributeMapping(
            # The NameID is the user principal name at first, which changes with a marriage.
            subject=f"{_ENTRA}/objectidentifier",
            email=(f"{_SOAP}/emailaddress",),
            given_name=(f"{_SOAP}/givenname",),
            family_name=(f"{_SOAP}/surname",),
            name=(f"{_ENTRA}/displayname",),
            groups=(f"{_WINDOWS}/groups",),
        ),
    ),
    DirectoryPreset.OKTA: Preset(name="Okta", mapping=_OURS),
    # It has no name that never changes, unless the organization keeps one in a custom attribute: its NameID is the address.
    DirectoryPreset.GOOGLE: Preset(name="Google Workspace", mapping=replace(_OURS, email=("email", NAME_ID), name=())),
    DirectoryPreset.AD_FS: Preset(
        name="AD FS",
        mapping=AttributeMapping(
            subject=f"{_WINDOWS}/primarysid",
            email=(f"{_SOAP}/emailaddress",),
            given_name=(f"{_SOAP}/givenname",),
            family_name=(f"{_SOAP}/surname",),
            name=(f"{_SOAP}/name",),
            groups=("http://schemas.xmlsoap.org/claims/Group",),
        ),
        encrypts_weakly=True,
    ),
    DirectoryPreset.PING: Preset(name="PingOne", mapping=_OURS),
    DirectoryPreset.SHIBBOLETH: Preset(
        name="Shibboleth",
        mapping=AttributeMapping(
            email=("urn:oid:0.9.2342.19200300.100.1.3",),
            given_name=("urn:oid:2.5.4.42",),
            family_name=("urn:oid:2.5.4.4",),
            name=("urn:oid:2.16.840.1.113730.3.1.241",),
            groups=("urn:oid:1.3.6.1.4.1.5923.1.5.1.1",),
        ),
        name_id_format=NameIdFormat.PERSISTENT.value,
    ),
    DirectoryPreset.KEYCLOAK: Preset(
        name="Keycloak",
        mapping=AttributeMapping(
            email=("urn:oid:1.2.840.113549.1.9.1",),
            given_name=("urn:oid:2.5.4.42",),
            family_name=("urn:oid:2.5.4.4",),
            groups=("member",),
        ),
        name_id_format=NameIdFormat.PERSISTENT.value,
    ),
}


TOLERANCE: Final = timedelta(seconds=60)
"""How far the directory's clock may be from ours."""
LONGEST_RESPONSE: Final = 256 << 10
"""In bytes, without base64. An answer with a thousand groups has about 100 KiB."""
LONGEST_PACKED_RESPONSE: Final = LONGEST_RESPONSE * 4 // 3 + LONGEST_RESPONSE // 32
"""In base64, whose lines may have ends."""
MOST_CERTIFICATES: Final = 10
MOST_DECRYPTION_KEYS: Final = 4


class OurAuthnRequest(Frozen, kw_only=True):
    """The authentication request that Postern sends as a service provider. The response repeats `id`, and comes by POST to `acs_url`."""

    id: str
    """An xs:ID: `_` and hexadecimal digits, which nobody can guess."""
    issuer: str
    """Our entity id for this connection."""
    destination: str
    """The directory's address for requests by redirect. It may have a query of its own."""
    acs_url: str
    issued_at: datetime
    force: bool = False
    """The person must prove again who they are (`ForceAuthn`)."""
    passive: bool = False
    """The directory may not show anything to the person (`IsPassive`)."""
    name_id_format: str | None = None
    """The URI of the format. None leaves the choice to the directory, which is what most directories want."""
    context: RequestedContext | None = None


class Expected(Frozen, kw_only=True):
    """What an answer must say to be the answer to one request of one connection."""

    entity_id: str
    """Ours, which must be among the audience."""
    acs_url: str
    """The address at which the answer arrived, exactly as our metadata name it."""
    issuer: str
    """The directory's entity id."""
    certificates: Sequence[str]
    """The directory's certificates for signatures, in PEM. A signature by any of them counts, while the certificate is valid."""
    decryption_keys: Sequence[KeyPair] = ()
    """Our keys for encrypted assertions, the present one first."""
    request_id: str | None
    """The id of the request. None when the browser brought none: then the answer is unsolicited, and nothing behind that is looked at."""
    mapping: AttributeMapping
    now: datetime
    authenticated_since: datetime | None = None
    """The person must have signed in at the directory since then: for `ForceAuthn` and `max_age`. None when any sign-in will do."""
    contexts: Sequence[str] = ()
    """The authentication contexts that the connection asks for. Empty when any will do."""
    compares_contexts: bool = True
    """Whether another context is refused, and not only told."""


class ServiceProviderMetadata(Frozen, kw_only=True):
    """Our metadata for one connection."""

    id: str
    entity_id: str
    acs_url: str
    slo_url: str
    signing_certificates: Sequence[str]
    """The certificate that signs requests, and the next one, if there is one."""
    encryption_certificates: Sequence[str]
    """Directories encrypt for the first. While a certificate changes, both keys must open."""
    name_id_formats: Sequence[str] = ()
    valid_until: datetime | None = None


class DirectoryCertificate(Frozen, kw_only=True):
    """A certificate of the directory: an RSA key of 2048 bits or more, or an elliptic curve of 256 bits or more."""

    pem: str
    fingerprint: str
    """SHA-256, in hexadecimal digits."""
    subject: str
    """For people, to tell certificates apart. Nothing trusts it."""
    valid_from: datetime
    valid_until: datetime


class DirectoryEndpoint(Frozen):
    binding: SamlBinding
    url: str
    response_url: str | None = None
    """The address for answers to a sign-out, if it is another one."""


class DirectoryMetadata(Frozen, kw_only=True):
    """The metadata of an identity provider, as far as a connection needs them."""

    entity_id: str
    sign_in: Sequence[DirectoryEndpoint]
    """At least one, and at most one of each binding."""
    sign_out: Sequence[DirectoryEndpoint] = ()
    signing_certificates: Sequence[DirectoryCertificate]
    """At least one. Ended ones are among them: the caller tells of them."""
    encryption_certificates: Sequence[DirectoryCertificate] = ()
    name_id_formats: Sequence[str] = ()
    wants_requests_signed: bool = False
    valid_until: datetime | None = None
    """The earliest end that the document names."""
    cache_for: timedelta | None = None
    """`cacheDuration`: the document should be read again after this time."""
    signed_by: str | None = None
    """The fingerprint of the known certificate that verifies the document's own signature. None when the document is unsigned, or none of
    the known certificates verifies it.
    """
    is_signed: bool = False
    """The document has a signature, whether or not a known certificate verifies it."""

    def address(self, binding: SamlBinding) -> str | None:
        """Where requests for a sign-in go by this binding."""
        return next((one.url for one in self.sign_in if one.binding is binding), None)
