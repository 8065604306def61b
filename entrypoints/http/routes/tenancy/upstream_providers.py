"""The enterprise connections of an organization."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Conflict, Overloaded
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.proofs import StepUp
from core.domain.identity.upstream.connections import (
    LONGEST_SOURCE,
    CertificateSource,
    ConnectionState,
    KeptCertificate,
    ProviderKind,
    SamlChange,
    SamlSettings,
    addresses,
)
from core.domain.identity.upstream.ldap.filters import LONGEST_ATTRIBUTE, LONGEST_FILTER
from core.domain.identity.upstream.ldap.settings import (
    LEAST_STEP_MINUTES,
    LONGEST_AUTHORITIES,
    LONGEST_BIND_PASSWORD,
    LONGEST_DN,
    MOST_LOCKOUT_MINUTES,
    MOST_LOCKOUT_THRESHOLD,
    MOST_STEP_MINUTES,
    LdapChange,
    LdapIdentity,
    LdapPreset,
    LdapScope,
    LdapSettings,
)
from core.domain.identity.upstream.saml.assertions import DirectoryPreset
from core.domain.outbound import LONGEST_URL
from core.domain.saml import CertificateNotMade, SamlBinding
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.upstream_providers import LONGEST_ISSUER, LONGEST_OAUTH_CREDENTIAL, UpstreamProvider, UpstreamProviderChange
from core.frozen import names_of
from core.usecases.tenancy.upstream_providers import NO_FACTOR_BY_LDAP
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken, turned
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import (
    SECRET,
    CreatedAt,
    Id,
    Line,
    Lines,
    Name,
    OrganizationPath,
    UpdatedAt,
    Word,
    bounded,
    example,
    given,
)
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("connections",)
_PROVIDERS = "/api/organizations/{org_slug}/upstream-providers"
PROVIDER = f"{_PROVIDERS}/{{provider_id}}"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# An upstream provider lets people in, and outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

_Length = bounded({"minLength": 1, "maxLength": LONGEST_OAUTH_CREDENTIAL})
_Issuer = Annotated[str, bounded({"maxLength": LONGEST_ISSUER, "format": "uri"}, examples=["https://login.acme.example"])]
_ProviderName = Annotated[Name, example("Acme login")]
_ClientId = Annotated[str, _Length, example("postern")]
_ClientSecret = Annotated[str, _Length, SECRET, example("3c6e0b8a9c15224a8228b9a98ca1531d")]
_Scopes = Annotated[Sequence[Word], example(["groups"])]
_Enabled = Annotated[bool, example(True)]
_Kind = Annotated[ProviderKind, example("oidc")]
_Binding = Annotated[SamlBinding, example("redirect")]
_Url = bounded({"maxLength": LONGEST_URL})
_SsoUrl = Annotated[str, _Url, example("https://login.acme.example/saml/sso")]
_SloUrl = Annotated[str, _Url, example("https://login.acme.example/saml/slo")]
_SloResponseUrl = Annotated[str, _Url, example("https://login.acme.example/saml/slo/answers")]
_Certificates = Annotated[Sequence[Lines], example(["-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n"])]
_MetadataUrl = Annotated[str, _Url, example("https://login.acme.example/saml/metadata")]
_SubjectSource = Annotated[str, bounded({"maxLength": LONGEST_SOURCE}), example("urn:oasis:names:tc:SAML:attribute:subject-id")]
_EmailSources = Annotated[Sequence[Line], example(["http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress"])]
_Preset = Annotated[DirectoryPreset, example("entra_id")]
_WantsEncrypted = Annotated[bool, example(False)]
_Digest = Annotated[str, example("9f2c4d4c86a1d0c5f2a0b3b8a3d7e9f1c2b3a4958677869504132231f0e1d2c3")]
_Hosts = Annotated[Sequence[Line], example(["ldaps://dc1.acme.example"])]
_StartTls = Annotated[bool, example(False)]
_Authorities = Annotated[
    str,
    bounded({"maxLength": LONGEST_AUTHORITIES}),
    example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n"),
]
_Dn = bounded({"maxLength": LONGEST_DN})
_BindDn = Annotated[str, _Dn, example("cn=postern,ou=services,dc=acme,dc=example")]
_BaseDn = Annotated[str, _Dn, example("ou=people,dc=acme,dc=example")]
_BindPassword = Annotated[str, bounded({"minLength": 1, "maxLength": LONGEST_BIND_PASSWORD}), SECRET, example("correct horse battery")]
_SearchScope = Annotated[LdapScope, example("subtree")]
_LdapPreset = Annotated[LdapPreset, example("openldap")]
_PersonFilter = Annotated[str, bounded({"maxLength": LONGEST_FILTER}), example("(objectClass=inetOrgPerson)")]
_SignInAttributes = Annotated[Sequence[Word], example(["uid", "mail"])]
_IdentityAttribute = Annotated[LdapIdentity, example("entryUUID")]
_Attribute = bounded({"maxLength": LONGEST_ATTRIBUTE})
_AddressAttribute = Annotated[str, _Attribute, example("mail")]
_GroupsAttribute = Annotated[str, _Attribute, example("memberOf")]
_LockoutThreshold = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_LOCKOUT_THRESHOLD}), example(5)]
_LockoutMinutes = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST_LOCKOUT_MINUTES}), example(30)]
_AcceptsLockouts = Annotated[bool, example(False)]
_KeepsInStep = Annotated[bool, example(False)]
_StepMinutes = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": LEAST_STEP_MINUTES, "maximum": MOST_STEP_MINUTES}), example(15)]
_Contexts = Annotated[Sequence[Line], example(["urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"])]


class UpstreamProviderPath(OrganizationPath, frozen=True):
    provider_id: UUID
    """The provider's ID."""


_Factors = Annotated[Sequence[Line], example(["mfa"])]
_Mapped = Annotated[Mapping[Word, Word], example({"https://idp.example.org/department": "department"})]


class NewUpstreamProvider(msgspec.Struct, frozen=True, kw_only=True):
    """An identity provider to create. OpenID Connect requires `issuer`, `client_id` and `client_secret`; the provider is active at once if
    an owner creates it. A SAML or LDAP provider, or one that anyone else creates, starts as a draft. You can send the settings of SAML and
    LDAP later, and import those of SAML from its metadata.
    """

    name: _ProviderName
    """1 to 100 characters, shown on the button of the sign-in page. The name must be unique in the organization."""
    kind: _Kind = ProviderKind.OIDC
    """`oidc` (OpenID Connect), `saml` or `ldap`."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """The provider's issuer, exactly as in its ID tokens. Postern reads the provider's metadata from there. For SAML: the provider's entity
    ID.
    """
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """Your client ID at the provider. Not for SAML."""
    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """Your client secret at the provider. Postern stores the secret encrypted, and no response contains it. Not for SAML."""
    scopes: _Scopes = ()
    """The scopes to request in addition to `openid email profile`. Not for SAML."""
    enabled: _Enabled = True
    """Whether people can sign in through the provider. Only an active provider can be enabled; a draft starts disabled."""
    profile_mapping: _Mapped = msgspec.field(default_factory=dict)
    """The attribute mapping: the keys of your profile fields, by the provider's claims or attributes. Postern writes the values at each
    sign-in. At most 50 entries. The fields need `provider` in `written_by`. Invalid values are ignored.
    """
    second_factor_values: _Factors = ()
    """The values by which the provider states that it used MFA, such as `mfa`, for your organization's MFA requirement. They are values of
    `amr` and `acr` in ID tokens, or of `AuthnContextClassRef` and Microsoft's `authnmethodsreferences`. At most 20. If empty (the default),
    the provider's MFA is not accepted. Not for LDAP.
    """
    sso_url: _SsoUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single sign-on URL."""
    slo_url: _SloUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout URL; empty for none."""
    slo_response_url: _SloResponseUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout response URL, if it differs; empty for none."""
    slo_binding: _Binding | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the binding for single logout messages, `redirect` (the default) or `post`."""
    metadata_url: _MetadataUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the URL at which the provider publishes its metadata."""
    preset: _Preset | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's product: `entra_id`, `okta`, `google`, `ad_fs`, `ping`, `shibboleth` or `keycloak`. It sets the defaults of
    the sources that you do not send.
    """
    subject_source: _SubjectSource | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the permanent identifier of a person, `name_id` (the default) or the name of an attribute. It cannot change once the
    provider was active.
    """
    email_sources: _EmailSources | msgspec.UnsetType = msgspec.UNSET
    """For SAML: where the email address is, `name_id` or names of attributes. The first one with a value is used."""
    wants_encrypted: _WantsEncrypted | msgspec.UnsetType = msgspec.UNSET
    """For SAML: whether assertions must be encrypted for Postern's certificate; false by default."""
    requested_contexts: _Contexts | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the authentication contexts to request if an application requests none."""
    certificates: _Certificates | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's certificates, in PEM or base64."""
    hosts: _Hosts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: up to 3 hosts, tried in this order, each as `ldaps://dc1.example.org`, or as `ldap://…` with `start_tls`."""
    start_tls: _StartTls | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether to use StartTLS, so that the connection switches to TLS before any other data is sent. Nothing is sent unencrypted.
    """
    ca_certificates: _Authorities | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the CA certificates that verify the hosts, in PEM, in place of the system's; empty for the system's."""
    bind_dn: _BindDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the DN of the account that searches the directory. It needs only read access."""
    bind_password: _BindPassword | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the password of this account. Postern stores it encrypted, and no response contains it. If the hosts, TLS, the CA
    certificates or `bind_dn` change, the password is deleted, unless the same request sends it again.
    """
    base_dn: _BaseDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the base DN of people; empty for the directory's own naming context."""
    search_scope: _SearchScope | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: `subtree` (the default), or `one_level` for people directly below the base DN."""
    ldap_preset: _LdapPreset | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the directory's product: `active_directory`, `samba`, `openldap`, `389`, `freeipa` or `lldap`. It sets the defaults of the
    filter and the attributes that you do not send.
    """
    person_filter: _PersonFilter | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the filter for people who can sign in (RFC 4515)."""
    sign_in_attributes: _SignInAttributes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attributes that people can enter to sign in. Each must be unique in the directory."""
    identity_attribute: _IdentityAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the permanent identifier of a person: `objectGUID`, `entryUUID`, `nsUniqueId` or `ipaUniqueID`. It cannot change once the
    provider was active.
    """
    address_attribute: _AddressAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attribute with the email address. If people can write this attribute themselves, they can impersonate others: use
    another attribute.
    """
    groups_attribute: _GroupsAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attribute with a person's groups; empty for none. A test shows the groups."""
    lockout_threshold: _LockoutThreshold | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the number of wrong passwords after which the directory locks an account; 5 by default. Postern stops 2 attempts before. If
    a test has read a lower number, Postern stops 2 before that number.
    """
    lockout_minutes: _LockoutMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the period in minutes over which the directory counts wrong passwords; 30 by default."""
    accepts_lockouts: _AcceptsLockouts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: true accepts a threshold of 1 or 2, with which anyone can lock people out of your directory."""
    keeps_in_step: _KeepsInStep | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether directory sync adds and removes people."""
    step_minutes: _StepMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the interval of directory sync in minutes."""


class UpstreamProviderPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an identity provider. Omitted fields keep their values. The issuer cannot change, because it identifies people: for
    another issuer, create another provider. Only a draft of a SAML provider that was never active can get another issuer.
    """

    name: _ProviderName | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """The current issuer. Any other issuer is rejected, except for a draft of a SAML provider that was never active."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """Your client ID at the provider."""
    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """Your client secret at the provider."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """The scopes to request in addition to `openid email profile`. The list replaces the previous one."""
    enabled: _Enabled | msgspec.UnsetType = msgspec.UNSET
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped | msgspec.UnsetType = msgspec.UNSET
    """The attribute mapping: the keys of your profile fields, by the provider's claims. It replaces the previous mapping."""
    second_factor_values: _Factors | msgspec.UnsetType = msgspec.UNSET
    """The values by which the provider states that it used MFA, for your organization's MFA requirement. The list replaces the previous
    one; if empty, the provider's MFA is no longer accepted. If anyone but an owner adds a value, the provider becomes a draft.
    """
    sso_url: _SsoUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single sign-on URL."""
    slo_url: _SloUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout URL; empty for none."""
    slo_response_url: _SloResponseUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout response URL, if it differs; empty for none."""
    slo_binding: _Binding | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the binding for single logout messages, `redirect` or `post`."""
    metadata_url: _MetadataUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the URL at which the provider publishes its metadata; empty for none."""
    preset: _Preset | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's product: `entra_id`, `okta`, `google`, `ad_fs`, `ping`, `shibboleth` or `keycloak`. It sets the defaults of
    the sources that you do not send.
    """
    subject_source: _SubjectSource | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the permanent identifier of a person, `name_id` (the default) or the name of an attribute."""
    email_sources: _EmailSources | msgspec.UnsetType = msgspec.UNSET
    """For SAML: where the email address is, `name_id` or names of attributes. The first one with a value is used."""
    wants_encrypted: _WantsEncrypted | msgspec.UnsetType = msgspec.UNSET
    """For SAML: whether assertions must be encrypted."""
    requested_contexts: _Contexts | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the authentication contexts to request if an application requests none. The list replaces the previous one."""
    certificates: _Certificates | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's manually added certificates, in PEM or base64. The list replaces the previous one. Certificates from the
    metadata are kept while `metadata_url` is set, and deleted otherwise.
    """
    hosts: _Hosts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: up to 3 hosts, tried in this order, each as `ldaps://dc1.example.org`, or as `ldap://…` with `start_tls`."""
    start_tls: _StartTls | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether to use StartTLS, so that the connection switches to TLS before any other data is sent. Nothing is sent unencrypted.
    """
    ca_certificates: _Authorities | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the CA certificates that verify the hosts, in PEM, in place of the system's; empty for the system's."""
    bind_dn: _BindDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the DN of the account that searches the directory. It needs only read access."""
    bind_password: _BindPassword | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the password of this account. Postern stores it encrypted, and no response contains it. If the hosts, TLS, the CA
    certificates or `bind_dn` change, the password is deleted, unless the same request sends it again.
    """
    base_dn: _BaseDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the base DN of people; empty for the directory's own naming context."""
    search_scope: _SearchScope | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: `subtree` (the default), or `one_level` for people directly below the base DN."""
    ldap_preset: _LdapPreset | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the directory's product: `active_directory`, `samba`, `openldap`, `389`, `freeipa` or `lldap`. It sets the defaults of the
    filter and the attributes that you do not send.
    """
    person_filter: _PersonFilter | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the filter for people who can sign in (RFC 4515)."""
    sign_in_attributes: _SignInAttributes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attributes that people can enter to sign in. Each must be unique in the directory."""
    identity_attribute: _IdentityAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the permanent identifier of a person: `objectGUID`, `entryUUID`, `nsUniqueId` or `ipaUniqueID`. It cannot change once the
    provider was active.
    """
    address_attribute: _AddressAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attribute with the email address. If people can write this attribute themselves, they can impersonate others: use
    another attribute.
    """
    groups_attribute: _GroupsAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attribute with a person's groups; empty for none. A test shows the groups."""
    lockout_threshold: _LockoutThreshold | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the number of wrong passwords after which the directory locks an account; 5 by default. Postern stops 2 attempts before. If
    a test has read a lower number, Postern stops 2 before that number.
    """
    lockout_minutes: _LockoutMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the period in minutes over which the directory counts wrong passwords; 30 by default."""
    accepts_lockouts: _AcceptsLockouts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: true accepts a threshold of 1 or 2, with which anyone can lock people out of your directory."""
    keeps_in_step: _KeepsInStep | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether directory sync adds and removes people."""
    step_minutes: _StepMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the interval of directory sync in minutes."""


class ProviderCertificateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of the provider."""

    public_key: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]
    """The X.509 certificate in PEM."""
    fingerprint: Annotated[str, example("9f2c4d…")]
    """The SHA-256 fingerprint, in hexadecimal."""
    valid_from: datetime
    """When the certificate becomes valid."""
    valid_until: datetime
    """When the certificate expires."""
    source: Annotated[CertificateSource, example("metadata")]
    """`metadata` if it came with the metadata, `hand` if it was added manually."""
    added_at: datetime
    """When the certificate was added."""
    listed_at: datetime | None
    """When the provider's metadata last contained the certificate; null if never."""
    missing_since: datetime | None
    """Since when the metadata no longer contains the certificate. It is deleted 7 days later, unless it was added manually."""
    signed_at: datetime | None
    """When the certificate last signed a response to Postern; null if never."""


class SamlProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The SAML settings of an identity provider."""

    entity_id: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009")]
    """Postern's entity ID at this provider, which is also the URL of its metadata."""
    acs_url: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009/acs")]
    """Postern's assertion consumer service URL, by HTTP-POST."""
    single_logout_url: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009/slo")]
    """Postern's single logout URL."""
    certificate: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]
    """Postern's certificate, which verifies its requests and encrypts assertions for it."""
    next_certificate: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")] | None
    """Postern's next certificate, which its metadata already contains."""
    former_certificate: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")] | None
    """Postern's former certificate. Its key still decrypts what the provider encrypts for it."""
    certificate_valid_until: datetime | None
    """When Postern's certificate expires; null during the first day."""
    sso_url: _SsoUrl
    """The provider's single sign-on URL."""
    slo_url: _SloUrl
    """The provider's single logout URL."""
    slo_response_url: _SloResponseUrl
    """The provider's single logout response URL, if it differs."""
    slo_binding: _Binding
    """The binding for single logout messages: `redirect` or `post`."""
    certificates: Sequence[ProviderCertificateRecord]
    """The provider's certificates."""
    waiting_certificates: Sequence[ProviderCertificateRecord]
    """New certificates from the metadata. They are not accepted until an owner approves them."""
    metadata_url: _MetadataUrl
    """The URL at which the provider publishes its metadata. Postern reads it every day."""
    metadata_valid_until: datetime | None
    """The expiration that the metadata states."""
    preset: _Preset | None
    """The product that set the default sources."""
    subject_source: _SubjectSource
    """The permanent identifier of a person: `name_id`, or the name of an attribute."""
    email_sources: _EmailSources
    """Where the email address is. The first source with a value is used."""
    wants_encrypted: _WantsEncrypted
    """Whether assertions must be encrypted."""
    requested_contexts: _Contexts
    """The authentication contexts to request if an application requests none."""


class LdapProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The LDAP settings of an identity provider, without the bind password."""

    hosts: _Hosts
    """The hosts, in the order in which they are tried."""
    start_tls: _StartTls
    """Whether the connection uses StartTLS; otherwise it uses TLS from the start."""
    ca_certificates: _Authorities
    """The CA certificates in place of the system's, in PEM; empty for the system's."""
    bind_dn: _BindDn
    """The DN of the account that searches the directory."""
    base_dn: _BaseDn
    """The base DN of people; empty for the directory's own naming context."""
    search_scope: _SearchScope
    """`subtree` or `one_level`."""
    ldap_preset: _LdapPreset | None
    """The product that set the default filter and attributes."""
    person_filter: _PersonFilter
    """The filter for people who can sign in."""
    sign_in_attributes: _SignInAttributes
    """The attributes that people can enter to sign in."""
    identity_attribute: _IdentityAttribute
    """The permanent identifier of a person."""
    address_attribute: _AddressAttribute
    """The attribute with the email address."""
    groups_attribute: _GroupsAttribute
    """The attribute with a person's groups."""
    lockout_threshold: _LockoutThreshold
    """The number of wrong passwords after which the directory locks an account, as entered."""
    lockout_minutes: _LockoutMinutes
    """The period in minutes over which the directory counts wrong passwords, as entered."""
    accepts_lockouts: _AcceptsLockouts
    """Whether a threshold of 1 or 2 was accepted."""
    keeps_in_step: _KeepsInStep
    """Whether directory sync adds and removes people and groups."""
    step_minutes: _StepMinutes
    """The interval of directory sync in minutes."""
    read_threshold: Annotated[int, example(10)] | None
    """The lockout threshold that the last successful test read; 0 if the directory locks no accounts, null if it could not be read."""


class UpstreamProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An identity provider of your organization, without your client secret at the provider."""

    id: Id
    successor_of: Annotated[Sequence[str], example([])]
    """The IDs of the former providers that this provider succeeds."""
    kind: _Kind
    """`oidc`, `saml` or `ldap`."""
    state: Annotated[ConnectionState, example("active")]
    """`draft`: the current settings are not tested. `tested`: they are tested, and await an owner who activates them. `active`: people can
    sign in through the provider if it is enabled.
    """
    digest: _Digest
    """The digest of the settings that decide who can sign in. Send it to activate the provider."""
    tested_at: datetime | None
    """When a test last succeeded."""
    metadata_read_at: datetime | None
    """When Postern last read the provider's metadata, which it does every day; null if there is no metadata URL."""
    metadata_fault: Annotated[str, example("status")]
    """Why Postern could not read the metadata at the last attempt: `unreachable`, `refused`, `status`, `too_long`, `not_metadata`,
    `other_entity`, `ended`, `too_many` or `issuer`; empty if it could. Sign-ins continue with the known settings.
    """
    metadata_failing_since: datetime | None
    """Since when the metadata cannot be read."""
    name: _ProviderName
    """The name on the button of the sign-in page."""
    issuer: Annotated[str, example("https://login.acme.example")]
    """The provider's issuer. For SAML: its entity ID, which is empty until it is known. For LDAP: a name that identifies the connection."""
    client_id: _ClientId | None
    """Your client ID at the provider; null for SAML and LDAP."""
    has_secret: Annotated[bool, example(True)]
    """Whether a client secret is stored. For LDAP: whether a bind password is stored."""
    scopes: _Scopes
    """The scopes to request in addition to `openid email profile`."""
    enabled: _Enabled
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped
    """The attribute mapping: the keys of your profile fields, by the provider's claims. Postern writes the values at each sign-in."""
    second_factor_values: _Factors
    """The values by which the provider states that it used MFA, for your organization's MFA requirement, in sessions that the provider
    opened; empty if its MFA is not accepted.
    """
    saml: SamlProviderRecord | None
    """The SAML settings; null for other kinds."""
    ldap: LdapProviderRecord | None
    """The LDAP settings; null for other kinds."""
    issues_assertions: Annotated[bool, example(False)]
    """Whether an owner allows the provider to issue identity assertions for its people
    (draft-ietf-oauth-identity-assertion-authz-grant-04), with which applications get tokens for them. False by default.
    """
    assertion_issuer: Annotated[str, example("https://login.acme.example")]
    """The issuer of the assertions; empty for OpenID Connect, which uses the provider's issuer."""
    assertion_jwks_uri: Annotated[str, example("https://login.acme.example/jwks")]
    """The URL of the keys that verify the assertions; empty for OpenID Connect, and if `assertion_jwks` is set."""
    assertion_jwks: Mapping[str, Any] | None
    """The keys that verify the assertions, if they were entered; null otherwise."""
    assertion_subject: Annotated[str, example("sub")]
    """The claim with the subject that identifies the person at sign-ins."""
    callback_url: Annotated[str, example("https://id.example.org/auth/0199d3a0-0000-7000-8000-000000000009/callback")]
    """The redirect URI to allow for your client at the provider."""
    created_at: CreatedAt
    updated_at: UpdatedAt


# What a body says besides the settings of SAML, and what only metadata say of these settings.
_BESIDES = ("name", "issuer", "client_id", "client_secret", "scopes", "enabled", "profile_mapping", "second_factor_values", "certificates")
_OF_LDAP = ("bind_password", *names_of(LdapChange))
_BY_METADATA = ("certificates", "certificate_source", "by_hand", "metadata")

_new_settings = taken(
    NewUpstreamProvider,
    SamlChange,
    apart=("kind", *_BESIDES, *_OF_LDAP, "requested_contexts"),
    given=_BY_METADATA,
    email_sources=lambda body: turned(body.email_sources, tuple),
    contexts=lambda body: turned(body.requested_contexts, tuple),
)
_changed_settings = taken(
    UpstreamProviderPatch,
    SamlChange,
    apart=(*_BESIDES, *_OF_LDAP, "requested_contexts"),
    given=_BY_METADATA,
    email_sources=lambda body: turned(body.email_sources, tuple),
    contexts=lambda body: turned(body.requested_contexts, tuple),
)
_OF_SAML = ("certificates", "requested_contexts", *_changed_settings.places, "email_sources")
_change = taken(UpstreamProviderPatch, UpstreamProviderChange, apart=(*_OF_SAML, *_OF_LDAP))
_new_description = taken(
    NewUpstreamProvider,
    LdapChange,
    apart=("kind", "bind_password", *_BESIDES, *_OF_SAML),
    hosts=lambda body: turned(body.hosts, tuple),
    sign_in_attributes=lambda body: turned(body.sign_in_attributes, tuple),
)
_changed_description = taken(
    UpstreamProviderPatch,
    LdapChange,
    apart=("bind_password", *_BESIDES, *_OF_SAML),
    hosts=lambda body: turned(body.hosts, tuple),
    sign_in_attributes=lambda body: turned(body.sign_in_attributes, tuple),
)
_record = shown(
    UpstreamProvider,
    UpstreamProviderRecord,
    given=("saml", "ldap", "callback_url"),
    named={
        "metadata_read_at": "upkeep.read_at",
        "metadata_fault": "upkeep.fault",
        "metadata_failing_since": "upkeep.failing_since",
        "issues_assertions": "assertions.issues",
        "assertion_issuer": "assertions.issuer",
        "assertion_jwks_uri": "assertions.jwks_uri",
        "assertion_jwks": "assertions.jwks",
        "assertion_subject": "assertions.subject",
    },
    successor_of=lambda provider: [str(one.provider) for one in provider.succeeds],
    digest=lambda provider: provider.digest.hex(),
    client_id=lambda provider: provider.client_id if provider.kind is ProviderKind.OIDC else None,
    has_secret=lambda provider: provider.kind is ProviderKind.OIDC or (provider.ldap is not None and provider.secret_set_at is not None),
    profile_mapping=lambda provider: dict(provider.profile_mapping),
)
_saml_settings = shown(
    SamlSettings,
    SamlProviderRecord,
    given=(
        *("entity_id", "acs_url", "single_logout_url", "certificate", "next_certificate", "former_certificate", "certificate_valid_until"),
        *("certificates", "waiting_certificates"),
    ),
    named={"metadata_valid_until": "metadata.valid_until", "requested_contexts": "contexts"},
)
_description = shown(LdapSettings, LdapProviderRecord)
_certificate = shown(KeptCertificate, ProviderCertificateRecord, given=("signed_at",), named={"public_key": "pem"})


@endpoint.get(_PROVIDERS, caller=_MANAGE, keys=True, tags=_TAGS)
async def list_upstream_providers(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> Sequence[UpstreamProviderRecord]:
    """List the identity providers of an organization

    Return the providers, the oldest first, including drafts. The response does not contain client secrets.
    """
    return [record_of(postern, one) for one in await postern.tenancy.upstream_providers.list(call.caller)]


@endpoint.post(
    _PROVIDERS,
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    status=201,
    refuses=(BadRequest, CertificateNotMade, Overloaded),
    tags=_TAGS,
)
async def create_upstream_provider(
    call: Call[NewUpstreamProvider, None, OrganizationPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Create an identity provider

    The provider can be any that supports OpenID Connect over https, SAML, or LDAP over TLS. No one can sign in through it until an owner
    has approved its settings. An OpenID Connect provider that an owner creates is active at once. If anyone else creates it, or a
    management API key does, it awaits an owner. A SAML or LDAP provider awaits a test and an owner.

    The provider's email addresses are accepted only in domains that your organization has verified, and never for platform owners. Allow
    `callback_url` for your client at the provider. An organization can have at most 20 providers. Requires a recent sign-in or
    reauthentication, with MFA if you have it enabled.
    """
    body, providers = call.body, postern.tenancy.upstream_providers
    settings, description = _new_settings(body), _new_description(body)
    if body.kind is not ProviderKind.LDAP and not (description.is_empty and given(body.bind_password) is None):
        raise BadRequest(f"A provider of the kind {body.kind.value} has no settings of LDAP", words="provider_kind")
    if body.kind is ProviderKind.SAML:
        if body.client_id or body.client_secret or body.scopes:
            raise BadRequest("client_id, client_secret, scopes: not allowed for a provider of kind saml")
        made = await providers.create_saml(
            call.caller,
            call.actor,
            name=body.name,
            issued_by=given(body.issuer) or "",
            settings=settings,
            mapping=body.profile_mapping,
            factors=body.second_factor_values,
            certificates=given(body.certificates),
        )
        return record_of(postern, made)
    if not settings.is_empty or given(body.certificates) is not None:
        raise BadRequest(f"A provider of the kind {body.kind.value} has no settings of SAML", words="provider_kind")
    if body.kind is ProviderKind.LDAP:
        if body.issuer or body.client_id or body.client_secret or body.scopes:
            raise BadRequest("issuer, client_id, client_secret, scopes: not allowed for a provider of kind ldap", words="provider_kind")
        if body.second_factor_values:
            raise BadRequest(NO_FACTOR_BY_LDAP, words="provider_kind")
        described = await providers.create_ldap(
            call.caller,
            call.actor,
            name=body.name,
            settings=description,
            password=given(body.bind_password) or "",
            mapping=body.profile_mapping,
        )
        return record_of(postern, described)
    created = await providers.create(
        call.caller,
        call.actor,
        name=body.name,
        issued_by=given(body.issuer) or "",
        client=given(body.client_id) or "",
        secret=given(body.client_secret) or "",
        asked=body.scopes,
        enabled=body.enabled,
        mapping=body.profile_mapping,
        factors=body.second_factor_values,
    )
    return record_of(postern, created)


@endpoint.patch(
    PROVIDER,
    caller=_IN_PERSON,
    keys=Capability.CONNECTIONS_MANAGE,
    limit=CREDENTIALS,
    step_up=StepUp.ACCOUNT,
    refuses=(BadRequest, Conflict, Overloaded),
    tags=_TAGS,
)
async def change_upstream_provider(
    call: Call[UpstreamProviderPatch, None, UpstreamProviderPath, Member], postern: Postern
) -> UpstreamProviderRecord:
    """Change an identity provider

    If you change settings that were tested, the provider becomes a draft again. No one can then sign in through it until it is tested and
    activated again. An active OpenID Connect provider stays active if an owner changes it, or if `client_id` stays the same. If you disable
    a provider, no one can sign in through it, not even people who are already on the provider's page. Existing sessions continue. Requires
    a recent sign-in or reauthentication, with MFA if you have it enabled.
    """
    body = call.body
    changed = await postern.tenancy.upstream_providers.change(
        call.caller,
        UpstreamProviderId(call.path.provider_id),
        call.actor,
        _change(body),
        settings=_changed_settings(body),
        certificates=given(body.certificates),
        description=_changed_description(body),
        password=given(body.bind_password),
    )
    return record_of(postern, changed)


@endpoint.delete(
    PROVIDER, caller=_IN_PERSON, keys=Capability.CONNECTIONS_MANAGE, limit=CREDENTIALS, step_up=StepUp.ACCOUNT, status=204, tags=_TAGS
)
async def delete_upstream_provider(call: Call[None, None, UpstreamProviderPath, Member], postern: Postern) -> NoBody:
    """Delete an identity provider

    The identities that people have linked at this provider are deleted, too. Requires a recent sign-in or reauthentication, with MFA if you
    have it enabled.
    """
    await postern.tenancy.upstream_providers.delete(call.caller, UpstreamProviderId(call.path.provider_id), call.actor)
    return NO_BODY


def record_of(postern: Postern, provider: UpstreamProvider) -> UpstreamProviderRecord:
    return _record(
        provider,
        saml=_saml_record(postern, provider),
        ldap=None if provider.ldap is None else _description(provider.ldap),
        callback_url=postern.identity.journeys.callback(str(provider.id)),
    )


def _saml_record(postern: Postern, provider: UpstreamProvider) -> SamlProviderRecord | None:
    settings = provider.saml
    if settings is None:
        return None
    ours, upkeep = addresses(postern.foundation.public_url, provider.id), provider.upkeep
    return _saml_settings(
        settings,
        entity_id=ours.entity_id,
        acs_url=ours.acs,
        single_logout_url=ours.slo,
        certificate=provider.certificate,
        next_certificate=provider.next_certificate or None,
        former_certificate=provider.former_certificate or None,
        certificate_valid_until=upkeep.certificate_until,
        certificates=[_certificate(one, signed_at=upkeep.signed.get(one.fingerprint)) for one in settings.certificates],
        waiting_certificates=[_certificate(one, signed_at=upkeep.signed.get(one.fingerprint)) for one in settings.waiting],
    )
