"""Upstream providers of an organization's own."""

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
    """A provider of yours. One of OpenID Connect needs `issuer`, `client_id` and `client_secret`, and is active at once if an owner makes
    it. One of SAML or LDAP, or one that anyone else makes, begins as a draft. The settings of SAML and LDAP can come later, those of SAML
    from its metadata.
    """

    name: _ProviderName
    """1 to 100 characters, for the button on the sign-in page. Each provider of an organization needs a name of its own."""
    kind: _Kind = ProviderKind.OIDC
    """`oidc` (OpenID Connect), `saml` or `ldap`."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """The provider's issuer, exactly as in its ID tokens. Postern reads its metadata from there. For SAML: the provider's entity ID."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """The ID of your client at the provider. Not for SAML."""
    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """The secret of that client. Postern stores the secret encrypted, and no response contains it. Not for SAML."""
    scopes: _Scopes = ()
    """Further scopes to ask for, beside `openid email profile`. Not for SAML."""
    enabled: _Enabled = True
    """Whether people can sign in through the provider. Only one that is active can be enabled: a draft begins without it."""
    profile_mapping: _Mapped = msgspec.field(default_factory=dict)
    """The keys of fields of your organization, by the claims of the provider that go into them at each sign-in, or by the names of the
    attributes: at most 50. The fields need `provider` in `written_by`. Wrong values are ignored.
    """
    second_factor_values: _Factors = ()
    """The provider's words for MFA that counts for your organization's own rule: values of `amr` and `acr` of its ID tokens, or of
    `AuthnContextClassRef` and Microsoft's `authnmethodsreferences`, such as `mfa`; at most 20. Empty, as at first: none counts. Not for
    LDAP.
    """
    sso_url: _SsoUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single sign-on URL."""
    slo_url: _SloUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout URL; empty for none."""
    slo_response_url: _SloResponseUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout response URL, if it is another one; empty for none."""
    slo_binding: _Binding | msgspec.UnsetType = msgspec.UNSET
    """For SAML: `redirect` (the default) or `post`, as messages go to that address."""
    metadata_url: _MetadataUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the URL at which the provider publishes its metadata."""
    preset: _Preset | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the directory's product, whose sources are taken for those that you do not name: `entra_id`, `okta`, `google`, `ad_fs`,
    `ping`, `shibboleth` or `keycloak`.
    """
    subject_source: _SubjectSource | msgspec.UnsetType = msgspec.UNSET
    """For SAML: where the provider says who a person is, for good: `name_id` (the default), or the name of an attribute. It cannot change
    once the provider was active.
    """
    email_sources: _EmailSources | msgspec.UnsetType = msgspec.UNSET
    """For SAML: where it says a person's email address: `name_id` or names of attributes; the first that came counts."""
    wants_encrypted: _WantsEncrypted | msgspec.UnsetType = msgspec.UNSET
    """For SAML: whether assertions must be encrypted for Postern's certificate; false by default."""
    requested_contexts: _Contexts | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the authentication contexts to ask for where an application asks for none."""
    certificates: _Certificates | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's certificates, in PEM or in base64."""
    hosts: _Hosts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: up to three hosts, tried in this order, each as `ldaps://dc1.example.org`, or as `ldap://…` with `start_tls`."""
    start_tls: _StartTls | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether the connection begins in clear and goes over to TLS before anything else is said. Nothing goes in clear."""
    ca_certificates: _Authorities | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the authorities that vouch for the hosts, in PEM, in place of the system's; empty for the system's."""
    bind_dn: _BindDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the account that looks people up. It needs no right but to read them."""
    bind_password: _BindPassword | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: its password. Postern stores it encrypted, and no response contains it. It goes when hosts, TLS, authorities or `bind_dn`
    change, unless the same request gives it again.
    """
    base_dn: _BaseDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: where people are; empty for the directory's own naming context."""
    search_scope: _SearchScope | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: `subtree` (the default), or `one_level` for people right below the base."""
    ldap_preset: _LdapPreset | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the directory's product, whose filter and attributes are taken for those that you do not name: `active_directory`, `samba`,
    `openldap`, `389`, `freeipa` or `lldap`.
    """
    person_filter: _PersonFilter | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: who may sign in (RFC 4515)."""
    sign_in_attributes: _SignInAttributes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attributes that people may type to sign in. Each must be unique in the directory."""
    identity_attribute: _IdentityAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: by what a person is known for good: `objectGUID`, `entryUUID`, `nsUniqueId` or `ipaUniqueID`. It cannot change once the
    provider was active.
    """
    address_attribute: _AddressAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: where people's addresses are. If people may write it themselves, they choose who they are: then name another one."""
    groups_attribute: _GroupsAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: where people's groups are; empty for none. A test shows them."""
    lockout_threshold: _LockoutThreshold | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: after how many wrong passwords the directory locks someone, 5 at first. Postern stops two before, also before the number
    that a test has read.
    """
    lockout_minutes: _LockoutMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: for how long the directory counts wrong passwords, 30 at first."""
    accepts_lockouts: _AcceptsLockouts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: yes to a threshold of 1 or 2, at which a stranger can lock people out of your directory."""
    keeps_in_step: _KeepsInStep | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether people come and go with the directory."""
    step_minutes: _StepMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: every how many minutes it is read then."""


class UpstreamProviderPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a provider. Omitted fields keep their values. The issuer cannot change, since it identifies people: for another issuer,
    create another provider. Only the draft of a provider of SAML that never was active can still get another one.
    """

    name: _ProviderName | msgspec.UnsetType = msgspec.UNSET
    """1 to 100 characters."""
    issuer: _Issuer | msgspec.UnsetType = msgspec.UNSET
    """The present issuer. Any other issuer is refused, except for a draft of SAML that never was active."""
    client_id: _ClientId | msgspec.UnsetType = msgspec.UNSET
    """The ID of your client at the provider."""
    client_secret: _ClientSecret | msgspec.UnsetType = msgspec.UNSET
    """The secret of that client."""
    scopes: _Scopes | msgspec.UnsetType = msgspec.UNSET
    """Further scopes to ask for, beside `openid email profile`. The list replaces the old one."""
    enabled: _Enabled | msgspec.UnsetType = msgspec.UNSET
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped | msgspec.UnsetType = msgspec.UNSET
    """The keys of fields of your organization, by the claims that go into them. The mapping replaces the old one."""
    second_factor_values: _Factors | msgspec.UnsetType = msgspec.UNSET
    """The provider's words for MFA that counts for your organization's own rule. The list replaces the old one; empty: none counts any
    more. Only an owner adds to it without making a draft.
    """
    sso_url: _SsoUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single sign-on URL."""
    slo_url: _SloUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout URL; empty for none."""
    slo_response_url: _SloResponseUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's single logout response URL, if it is another one; empty for none."""
    slo_binding: _Binding | msgspec.UnsetType = msgspec.UNSET
    """For SAML: `redirect` or `post`, as messages go to that address."""
    metadata_url: _MetadataUrl | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the URL at which the provider publishes its metadata; empty for none."""
    preset: _Preset | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the directory's product, whose sources are taken for those that you do not name: `entra_id`, `okta`, `google`, `ad_fs`,
    `ping`, `shibboleth` or `keycloak`.
    """
    subject_source: _SubjectSource | msgspec.UnsetType = msgspec.UNSET
    """For SAML: where the provider says who a person is, for good: `name_id` (the default), or the name of an attribute."""
    email_sources: _EmailSources | msgspec.UnsetType = msgspec.UNSET
    """For SAML: where it says a person's email address: `name_id` or names of attributes; the first that came counts."""
    wants_encrypted: _WantsEncrypted | msgspec.UnsetType = msgspec.UNSET
    """For SAML: whether assertions must be encrypted."""
    requested_contexts: _Contexts | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the authentication contexts to ask for where an application asks for none. The list replaces the old one."""
    certificates: _Certificates | msgspec.UnsetType = msgspec.UNSET
    """For SAML: the provider's certificates that are given by hand, in PEM or in base64. The list replaces the old one. Certificates that
    came by the metadata stay while `metadata_url` names an address, and go otherwise.
    """
    hosts: _Hosts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: up to three hosts, tried in this order, each as `ldaps://dc1.example.org`, or as `ldap://…` with `start_tls`."""
    start_tls: _StartTls | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether the connection begins in clear and goes over to TLS before anything else is said. Nothing goes in clear."""
    ca_certificates: _Authorities | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the authorities that vouch for the hosts, in PEM, in place of the system's; empty for the system's."""
    bind_dn: _BindDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the account that looks people up. It needs no right but to read them."""
    bind_password: _BindPassword | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: its password. Postern stores it encrypted, and no response contains it. It goes when hosts, TLS, authorities or `bind_dn`
    change, unless the same request gives it again.
    """
    base_dn: _BaseDn | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: where people are; empty for the directory's own naming context."""
    search_scope: _SearchScope | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: `subtree` (the default), or `one_level` for people right below the base."""
    ldap_preset: _LdapPreset | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the directory's product, whose filter and attributes are taken for those that you do not name: `active_directory`, `samba`,
    `openldap`, `389`, `freeipa` or `lldap`.
    """
    person_filter: _PersonFilter | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: who may sign in (RFC 4515)."""
    sign_in_attributes: _SignInAttributes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: the attributes that people may type to sign in. Each must be unique in the directory."""
    identity_attribute: _IdentityAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: by what a person is known for good: `objectGUID`, `entryUUID`, `nsUniqueId` or `ipaUniqueID`. It cannot change once the
    provider was active.
    """
    address_attribute: _AddressAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: where people's addresses are. If people may write it themselves, they choose who they are: then name another one."""
    groups_attribute: _GroupsAttribute | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: where people's groups are; empty for none. A test shows them."""
    lockout_threshold: _LockoutThreshold | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: after how many wrong passwords the directory locks someone, 5 at first. Postern stops two before, also before the number
    that a test has read.
    """
    lockout_minutes: _LockoutMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: for how long the directory counts wrong passwords, 30 at first."""
    accepts_lockouts: _AcceptsLockouts | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: yes to a threshold of 1 or 2, at which a stranger can lock people out of your directory."""
    keeps_in_step: _KeepsInStep | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: whether people come and go with the directory."""
    step_minutes: _StepMinutes | msgspec.UnsetType = msgspec.UNSET
    """For LDAP: every how many minutes it is read then."""


class ProviderCertificateRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of the provider."""

    public_key: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]
    """The X.509 certificate in PEM."""
    fingerprint: Annotated[str, example("9f2c4d…")]
    """The SHA-256 fingerprint, in hexadecimal."""
    valid_from: datetime
    """The beginning of its validity."""
    valid_until: datetime
    """The end of its validity."""
    source: Annotated[CertificateSource, example("metadata")]
    """`metadata`, or `hand`."""
    added_at: datetime
    """When the certificate came."""
    listed_at: datetime | None
    """When the provider's metadata last contained it; null if they never did."""
    missing_since: datetime | None
    """Since when the metadata lack it. It goes a week later, unless it was given by hand."""
    signed_at: datetime | None
    """When it last signed an answer to us; null if it never did."""


class SamlProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider of SAML has besides."""

    entity_id: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009")]
    """Postern's entity ID at this provider, which is also the URL of its metadata."""
    acs_url: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009/acs")]
    """Postern's assertion consumer service URL, by HTTP-POST."""
    single_logout_url: Annotated[str, example("https://id.example.org/saml/sp/0199d3a0-0000-7000-8000-000000000009/slo")]
    """Postern's single logout URL."""
    certificate: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]
    """Postern's certificate, which signs its requests, and for which assertions are encrypted."""
    next_certificate: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")] | None
    """Postern's next certificate, which its metadata already contains."""
    former_certificate: Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")] | None
    """Postern's former certificate. Its key still opens what the provider encrypts for it."""
    certificate_valid_until: datetime | None
    """When Postern's certificate expires; null during the first day."""
    sso_url: _SsoUrl
    """The provider's single sign-on URL."""
    slo_url: _SloUrl
    """The provider's single logout URL."""
    slo_response_url: _SloResponseUrl
    """The provider's single logout response URL, if it is another one."""
    slo_binding: _Binding
    """`redirect` or `post`."""
    certificates: Sequence[ProviderCertificateRecord]
    """The provider's certificates."""
    waiting_certificates: Sequence[ProviderCertificateRecord]
    """New certificates from the metadata. They do not count before an owner approves them."""
    metadata_url: _MetadataUrl
    """The URL at which the provider publishes its metadata. Postern reads it every day."""
    metadata_valid_until: datetime | None
    """The end that the metadata name for themselves."""
    preset: _Preset | None
    """The product whose sources were taken."""
    subject_source: _SubjectSource
    """Where the provider says who a person is: `name_id`, or the name of an attribute."""
    email_sources: _EmailSources
    """Where it says a person's email address; the first that came counts."""
    wants_encrypted: _WantsEncrypted
    """Whether assertions must be encrypted."""
    requested_contexts: _Contexts
    """The authentication contexts to ask for where an application asks for none."""


class LdapProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider of LDAP has besides, without the bind password."""

    hosts: _Hosts
    """The hosts, in the order in which they are tried."""
    start_tls: _StartTls
    """Whether a connection goes over to TLS; otherwise it begins in TLS."""
    ca_certificates: _Authorities
    """The authorities in place of the system's, in PEM; empty for the system's."""
    bind_dn: _BindDn
    """The DN of the account that searches the directory."""
    base_dn: _BaseDn
    """Where people are; empty for the directory's own naming context."""
    search_scope: _SearchScope
    """`subtree` or `one_level`."""
    ldap_preset: _LdapPreset | None
    """The product whose filter and attributes were taken."""
    person_filter: _PersonFilter
    """Who may sign in."""
    sign_in_attributes: _SignInAttributes
    """The attributes that people may type."""
    identity_attribute: _IdentityAttribute
    """By what a person is known permanently."""
    address_attribute: _AddressAttribute
    """Where addresses are."""
    groups_attribute: _GroupsAttribute
    """Where groups are."""
    lockout_threshold: _LockoutThreshold
    """After how many wrong passwords the directory locks someone, as it was typed."""
    lockout_minutes: _LockoutMinutes
    """For how long the directory counts, as it was typed."""
    accepts_lockouts: _AcceptsLockouts
    """Whether someone has said yes to a threshold of 1 or 2."""
    keeps_in_step: _KeepsInStep
    """Whether people and groups come and go with the directory."""
    step_minutes: _StepMinutes
    """Every how many minutes it is read then."""
    read_threshold: Annotated[int, example(10)] | None
    """The threshold that the last successful test has read; 0 if the directory locks no one, null if it could not be read."""


class UpstreamProviderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of yours, without the secret of your client at the provider."""

    id: Id
    successor_of: Annotated[Sequence[str], example([])]
    """The IDs of former providers whose successor an owner has named this one."""
    kind: _Kind
    """`oidc`, `saml` or `ldap`."""
    state: Annotated[ConnectionState, example("active")]
    """`draft`: its settings were not tested as they are now. `tested`: they were, and it waits for an owner to activate it. `active`:
    people can sign in through it, if it is enabled.
    """
    digest: _Digest
    """The digest of the settings that say who signs in. An owner who activates the provider sends it back."""
    tested_at: datetime | None
    """When a test last succeeded."""
    metadata_read_at: datetime | None
    """When Postern last read the provider's metadata, which Postern does every day; null if there is no metadata URL."""
    metadata_fault: Annotated[str, example("status")]
    """Why the metadata could not be read at the last look: `unreachable`, `refused`, `status`, `too_long`, `not_metadata`, `other_entity`,
    `ended`, `too_many` or `issuer`; empty if they could. Sign-ins continue with what is known.
    """
    metadata_failing_since: datetime | None
    """Since when they cannot be read."""
    name: _ProviderName
    """The name on the button."""
    issuer: Annotated[str, example("https://login.acme.example")]
    """The provider's issuer; for SAML its entity ID, which is empty while it is not known; for LDAP a name of the connection's own."""
    client_id: _ClientId | None
    """The ID of your client at the provider; null for SAML and LDAP."""
    has_secret: Annotated[bool, example(True)]
    """Whether there is a secret of your client, or for LDAP a bind password. A bind password goes with what it belongs to."""
    scopes: _Scopes
    """The further scopes, beside `openid email profile`."""
    enabled: _Enabled
    """Whether people can sign in through the provider."""
    profile_mapping: _Mapped
    """The keys of fields of your organization, by the claims that go into them at each sign-in."""
    second_factor_values: _Factors
    """The provider's words for MFA that counts for your organization's own rule, in sessions that it has opened; empty if none counts."""
    saml: SamlProviderRecord | None
    """What a provider of SAML has besides; null for any other kind."""
    ldap: LdapProviderRecord | None
    """What a provider of LDAP has besides; null for any other kind."""
    issues_assertions: Annotated[bool, example(False)]
    """Whether an owner lets the provider issue identity assertions for its people
    (draft-ietf-oauth-identity-assertion-authz-grant-04): then applications get tokens in their name. False at first.
    """
    assertion_issuer: Annotated[str, example("https://login.acme.example")]
    """The issuer of the assertions; empty for OpenID Connect, whose own it is."""
    assertion_jwks_uri: Annotated[str, example("https://login.acme.example/jwks")]
    """The URL of their keys; empty for OpenID Connect, and for pasted keys."""
    assertion_jwks: Mapping[str, Any] | None
    """Their pasted keys; null otherwise."""
    assertion_subject: Annotated[str, example("sub")]
    """The claim that has the subject by which sign-ins know the person."""
    callback_url: Annotated[str, example("https://id.example.org/auth/0199d3a0-0000-7000-8000-000000000009/callback")]
    """The redirect URI that you must allow for your client at the provider."""
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
    """List the organization's own upstream providers, the oldest first

    Drafts are in the list, too. Secrets of clients are not.
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
    """Create an upstream provider of your organization

    The provider can be any that supports OpenID Connect over https, SAML, or LDAP over TLS. No one can sign in through a provider before an
    owner has said yes to its settings: one of OpenID Connect that an owner makes is active at once, one that anyone else makes, also with a
    management API key, waits for an owner, and one of SAML or LDAP waits for a test and an owner. Its statements about an address count
    only in a domain that your organization has verified, and never for platform owners. Allow `callback_url` for your client at the
    provider. An organization has at most 20 providers. Requires a recent sign-in or reauthentication, with MFA if you have it enabled.
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
    """Change an upstream provider of your organization

    If you change what was tested, the provider becomes a draft again, and no one can sign in through it until it is tested and activated
    once more. A provider of OpenID Connect that is active stays so if an owner changes it, or if `client_id` stays. Once the provider is
    disabled, no one can sign in through it, not even people who are at the provider at this time. Sessions continue. Requires a recent
    sign-in or reauthentication, with MFA if you have it enabled.
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
    """Delete an upstream provider of your organization

    The identities that people have connected at this provider are deleted, too. Requires a recent sign-in or reauthentication, with MFA if
    you have it enabled.
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
