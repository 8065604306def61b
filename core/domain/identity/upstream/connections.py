"""Enterprise connections of organizations, by OpenID Connect, SAML or LDAP: their states and settings. Nobody signs in through a connection
before it is active; a draft serves its own test alone.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.saml.assertions import (
    MOST_CERTIFICATES,
    NAME_ID,
    PRESETS,
    AttributeMapping,
    DirectoryCertificate,
    DirectoryPreset,
)
from core.domain.outbound import NotADestination, destination
from core.domain.saml import SamlBinding
from core.frozen import Frozen, names_of, replace, values_of

MOST_CONTEXTS: Final = 10
MOST_SOURCES: Final = 10
LONGEST_SOURCE: Final = 200
LONGEST_CONTEXT: Final = 300


class ProviderKind(StrEnum):
    """The protocol between Postern and the provider."""

    OIDC = "oidc"
    SAML = "saml"
    LDAP = "ldap"


class ConnectionState(StrEnum):
    """The state of a connection."""

    DRAFT = "draft"
    """Nobody signs in through it. Its settings have not been tried as they are now."""
    TESTED = "tested"
    """Nobody signs in through it yet. A test of these settings has succeeded."""
    ACTIVE = "active"


class CertificateSource(StrEnum):
    """How Postern received a certificate of the identity provider."""

    METADATA = "metadata"
    HAND = "hand"


class KeptCertificate(DirectoryCertificate, kw_only=True):
    """A certificate with which the directory may sign."""

    source: CertificateSource
    added_at: datetime
    listed_at: datetime | None = None
    """When we last saw it in the directory's metadata."""
    missing_since: datetime | None = None
    """Since when the metadata lack it. None while they list it, and for a certificate that they never listed."""


def known(certificate: DirectoryCertificate, source: CertificateSource, now: datetime) -> KeptCertificate:
    return KeptCertificate(**values_of(as_given(certificate)), source=source, added_at=now)


def as_given(certificate: DirectoryCertificate) -> DirectoryCertificate:
    """The certificate without what we keep beside it."""
    return DirectoryCertificate(**{name: getattr(certificate, name) for name in names_of(DirectoryCertificate)})


class SeenMetadata(Frozen, kw_only=True):
    """The directory's metadata, as they were when they last counted."""

    valid_until: datetime | None = None
    """The end that the document names for itself."""
    was_signed: bool = False
    """A certificate that was known then had signed them."""


NO_METADATA: Final = SeenMetadata()


class SamlSettings(Frozen, kw_only=True):
    """A directory that speaks SAML, as the organization describes it. Its entity id is the connection's issuer."""

    sso_url: str = ""
    """The address that people go to with our requests, by redirect. Empty while it is not known."""
    slo_url: str = ""
    """The address for sign-outs. Empty when the directory has none."""
    slo_response_url: str = ""
    """The address for answers about sign-outs, if it is another one."""
    slo_binding: SamlBinding = SamlBinding.REDIRECT
    certificates: tuple[KeptCertificate, ...] = ()
    metadata_url: str = ""
    """The address at which the directory publishes its metadata. Empty when nobody has named one."""
    subject_source: str = NAME_ID
    """Where the directory says who a person is, for good: the NameID, or the name of an attribute."""
    email_sources: tuple[str, ...] = (NAME_ID,)
    """Where it says a person's address. The first that came counts."""
    wants_encrypted: bool = False
    """An assertion that is not encrypted is refused."""
    contexts: tuple[str, ...] = ()
    """The authentication contexts to ask for where the application asks for none. An answer must name one of them."""
    compares_contexts: bool = False
    """Whether an answer with another context is refused. Of a connection that nobody has tested since we compare, it is only told."""
    name_id_format: str = ""
    """The format to ask for. Empty where the directory's own setting decides."""
    preset: DirectoryPreset | None = None
    """The product that the sources were taken from."""
    waiting: tuple[KeptCertificate, ...] = ()
    """Certificates from the metadata that do not count before an owner approves them."""
    declined: tuple[str, ...] = ()
    """The fingerprints of those that an owner has declined, while the metadata list them."""
    metadata: SeenMetadata = NO_METADATA
    gone: tuple[str, ...] = ()
    """The fingerprints of the last certificates that the directory has taken out of its metadata."""

    @property
    def is_complete(self) -> bool:
        """Whether a person can be sent there, and an answer be checked. The issuer must be known, too."""
        return self.sso_url != "" and self.certificates != ()

    @property
    def publishes_encryption_key(self) -> bool:
        """Whether our metadata invite the directory to encrypt. Some products do it in a way that we refuse: an owner asks them."""
        return self.wants_encrypted or self.preset is None or not PRESETS[self.preset].encrypts_weakly

    @property
    def trusted(self) -> tuple[str, ...]:
        return tuple(one.pem for one in self.certificates)

    def mapping(self, profile_mapping: Mapping[str, str]) -> AttributeMapping:
        return AttributeMapping(subject=self.subject_source, email=self.email_sources, fields=profile_mapping)


NOTHING_SET: Final = SamlSettings()


class OurAddresses(Frozen):
    """Our addresses at one directory. The entity id is also the address of our metadata."""

    entity_id: str
    acs: str
    slo: str


def addresses(base_url: str, provider: UpstreamProviderId | str) -> OurAddresses:
    own = f"{base_url}/saml/sp/{provider}"
    return OurAddresses(own, f"{own}/acs", f"{own}/slo")


def private_key_context(provider: UpstreamProviderId | str) -> str:
    """The place that our private key is sealed for. The next key has a place of its own."""
    return f"upstream_providers.sealed_private_key:{provider}"


def next_private_key_context(provider: UpstreamProviderId | str) -> str:
    return f"upstream_providers.next_sealed_private_key:{provider}"


def former_private_key_context(provider: UpstreamProviderId | str) -> str:
    return f"upstream_providers.former_sealed_private_key:{provider}"


class SamlChange(Frozen, kw_only=True):
    """A change of the settings. Fields that are None keep their values."""

    sso_url: str | None = None
    slo_url: str | None = None
    slo_response_url: str | None = None
    slo_binding: SamlBinding | None = None
    certificates: tuple[DirectoryCertificate, ...] | None = None
    """They replace the known ones. A certificate that was known before keeps its source."""
    certificate_source: CertificateSource = CertificateSource.HAND
    by_hand: tuple[DirectoryCertificate, ...] | None = None
    """They replace those given by hand. Those that came by the metadata stay while there is an address of metadata, and go without one."""
    metadata_url: str | None = None
    subject_source: str | None = None
    email_sources: tuple[str, ...] | None = None
    wants_encrypted: bool | None = None
    contexts: tuple[str, ...] | None = None
    preset: DirectoryPreset | None = None
    """It gives the sources and the format that the change does not name."""
    metadata: SeenMetadata | None = None

    @property
    def is_empty(self) -> bool:
        return self == NO_CHANGE

    def applied(self, before: SamlSettings, now: datetime) -> SamlSettings:
        """Raises `BadRequest`. Another address for sign-outs drops the address for answers that came beside the former."""
        given: dict[str, Any] = {
            name: value for name in names_of(before) if name not in _FOLLOWS and (value := getattr(self, name, None)) is not None
        }
        if self.preset is not None:
            usual = PRESETS[self.preset]
            sources = {"subject_source": usual.mapping.subject, "email_sources": tuple(usual.mapping.email)}
            given = {**sources, "name_id_format": usual.name_id_format or "", **given}
        if self.certificates is not None:
            had = {one.fingerprint: one for one in before.certificates}
            new = {one.fingerprint: one for one in self.certificates}
            given["certificates"] = tuple(had.get(one.fingerprint) or known(one, self.certificate_source, now) for one in new.values())
            given["waiting"] = tuple(one for one in before.waiting if one.fingerprint not in new)
        if self.by_hand is not None:
            given |= self._by_hand(self.by_hand, before, now)
        if self.metadata_url not in {None, before.metadata_url}:
            # Another address: its certificates are asked about anew.
            given |= {"waiting": (), "declined": (), "metadata": self.metadata or NO_METADATA}
        if self.slo_response_url is None and self.slo_url not in {None, before.slo_url}:
            given["slo_response_url"] = ""
        return usable_settings(replace(before, **given))

    def _by_hand(self, certificates: Sequence[DirectoryCertificate], before: SamlSettings, now: datetime) -> dict[str, Any]:
        """The known ones keep their places: their order is a part of what was tested."""
        new = {one.fingerprint: one for one in certificates}
        has_address = (before.metadata_url if self.metadata_url is None else self.metadata_url) != ""
        kept = [
            replace(one, source=CertificateSource.HAND) if one.fingerprint in new else one
            for one in before.certificates
            if one.fingerprint in new or (has_address and one.source is CertificateSource.METADATA)
        ]
        had = {one.fingerprint for one in kept}
        added = [known(one, CertificateSource.HAND, now) for one in new.values() if one.fingerprint not in had]
        return {"certificates": (*kept, *added), "waiting": tuple(one for one in before.waiting if one.fingerprint not in new)}


# The authentication contexts that applications may ask a directory for: SAML's own, and that of research and education for two factors.
_OF_DIRECTORIES: Final = ("urn:oasis:names:tc:SAML:2.0:ac:classes:", "https://refeds.org/profile/")


def directory_contexts(acr_values: object) -> tuple[str, ...]:
    """Those of an application's `acr_values` that a directory understands. Ours are left out: a directory cannot give our factors."""
    if not isinstance(acr_values, list | tuple):
        return ()
    return tuple(one for one in acr_values if isinstance(one, str) and one.startswith(_OF_DIRECTORIES))[:MOST_CONTEXTS]


NO_CHANGE: Final = SamlChange()
# What `applied` derives from the rest of a change.
_FOLLOWS: Final = frozenset({"certificates", "waiting", "declined"})
# What no test is about.
_UNTESTED: Final = frozenset({"waiting", "declined", "metadata", "gone", "compares_contexts"})


def usable_settings(settings: SamlSettings) -> SamlSettings:
    """The settings, if each of them can be used. Raises `BadRequest`."""
    for field in ("sso_url", "slo_url", "slo_response_url"):
        _require_page(field, getattr(settings, field))
    if settings.metadata_url:
        _require_destination("metadata_url", settings.metadata_url)
    if not _are_sources((settings.subject_source,)):
        raise BadRequest(
            f"subject_source: name_id, or the name of an attribute, of at most {LONGEST_SOURCE} visible characters",
            words="source_malformed",
            values={"most": LONGEST_SOURCE},
        )
    if len(settings.email_sources) > MOST_SOURCES or not _are_sources(settings.email_sources):
        raise BadRequest(
            f"email_sources: at most {MOST_SOURCES}, each name_id or the name of an attribute",
            words="sources_malformed",
            values={"most": MOST_SOURCES},
        )
    if len(settings.contexts) > MOST_CONTEXTS or not all(0 < len(one) <= LONGEST_CONTEXT and _is_visible(one) for one in settings.contexts):
        raise BadRequest(
            f"requested_contexts: at most {MOST_CONTEXTS}, of at most {LONGEST_CONTEXT} visible characters each",
            words="contexts_malformed",
            values={"count": MOST_CONTEXTS, "most": LONGEST_CONTEXT},
        )
    if len(settings.certificates) > MOST_CERTIFICATES:
        raise BadRequest(f"certificates: at most {MOST_CERTIFICATES}", words="certificates_most", values={"most": MOST_CERTIFICATES})
    return settings


def _are_sources(texts: Sequence[str]) -> bool:
    return all(0 < len(one) <= LONGEST_SOURCE and one.isprintable() for one in texts)


def _is_visible(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _require_page(field: str, text: str) -> None:
    """An address of the directory that browsers go to: over https, or on this very machine."""
    if text and _require_destination(field, text) != "https":
        raise BadRequest(f"{field}: must begin with https://", words="https_only")


# A directory without a certificate may run on the machine itself.
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def _require_destination(field: str, text: str) -> str:
    """Returns the scheme that counts: https also for this very machine."""
    try:
        found = destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"{field}: {refusal}", words="web_address") from None
    return "https" if found.host in _THIS_MACHINE else found.scheme


def tested_digest(told: Mapping[str, Json], settings: SamlSettings | None, secret_set_at: datetime | None) -> bytes:
    """The settings that a test is about. `told` has those that are no settings of SAML. The time when the secret was set stands for the
    secret, which a digest must not give away.
    """
    saml = None if settings is None else {name: _plain(getattr(settings, name)) for name in names_of(settings) if name not in _UNTESTED}
    at = None if secret_set_at is None else secret_set_at.isoformat()
    return sha256(json.dumps([dict(told), saml, at], sort_keys=True).encode()).digest()


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [one.fingerprint if isinstance(one, KeptCertificate) else str(one) for one in value]
    return value if isinstance(value, bool) else str(value)
