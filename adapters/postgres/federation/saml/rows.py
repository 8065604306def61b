"""What statements about SAML have in common: the columns of a service's configuration and of its certificates."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.storable import storable_text
from core.domain.federation.saml.certificates import Certificate, CertificateState, Signer
from core.domain.federation.saml.configurations import AcsEndpoint, Binding, Configuration
from core.domain.identifiers import SamlCertificateId, ServiceId


@dataclass(frozen=True, slots=True)
class ConfigurationRow:
    """What `CONFIGURATION` reads, in its order. All null for a service without one, in a statement that joins it."""

    saml_service: UUID | None
    enabled: bool | None
    entity_id: str | None
    acs_url: str | None
    slo_url: str | None
    slo_response_url: str | None
    slo_binding: str | None
    name_id_format: str | None
    attribute_mapping: dict[str, str] | None
    sign_assertions: bool | None
    sign_response: bool | None
    require_signed_requests: bool | None
    acs_endpoints: list[dict[str, Any]] | None
    signing_certificates: list[str] | None
    encryption_certificate: str | None
    metadata_uploaded_at: datetime | None
    metadata_fetched_at: datetime | None
    saml_created_at: datetime | None
    saml_updated_at: datetime | None

    def configuration(self) -> Configuration | None:
        if self.saml_service is None or self.saml_created_at is None or self.saml_updated_at is None:
            return None
        return Configuration(
            service=ServiceId(self.saml_service),
            enabled=bool(self.enabled),
            entity_id=self.entity_id,
            acs_url=self.acs_url,
            slo_url=self.slo_url,
            slo_response_url=self.slo_response_url,
            slo_binding=Binding(self.slo_binding or Binding.POST),
            name_id_format=self.name_id_format,
            attribute_mapping=self.attribute_mapping,
            sign_assertions=bool(self.sign_assertions),
            sign_response=bool(self.sign_response),
            require_signed_requests=bool(self.require_signed_requests),
            acs_endpoints=tuple(AcsEndpoint(one["index"], one["url"], is_default=one["is_default"]) for one in self.acs_endpoints or ()),
            signing_certificates=tuple(self.signing_certificates or ()),
            encryption_certificate=self.encryption_certificate,
            metadata_uploaded_at=self.metadata_uploaded_at,
            metadata_fetched_at=self.metadata_fetched_at,
            created_at=self.saml_created_at,
            updated_at=self.saml_updated_at,
        )


# Without slots, so that a row can be this and something else.
@dataclass(frozen=True, kw_only=True)
class SignersRow:
    """What `SIGNERS` reads: the active certificate and the next one, each all null where there is none."""

    active: str | None
    upcoming: str | None

    def signer(self) -> Signer | None:
        return signer(self.active)

    def next_signer(self) -> Signer | None:
        return signer(self.upcoming)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRow:
    id: UUID
    service_id: UUID
    state: str
    certificate: str
    valid_from: datetime
    valid_until: datetime
    created_at: datetime
    last_signed_at: datetime | None

    def kept(self) -> Certificate:
        return Certificate(
            id=SamlCertificateId(self.id),
            service=ServiceId(self.service_id),
            state=CertificateState(self.state),
            pem=self.certificate,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
            created_at=self.created_at,
            last_signed_at=self.last_signed_at,
        )


# It is the same for each sign-in to a service, and changes when its use is noted, once a minute.
@lru_cache(maxsize=64)
def signer(certificate: str | None) -> Signer | None:
    """Of a column of `SIGNERS`."""
    if certificate is None:
        return None
    columns = json.loads(certificate)
    at = {name: None if columns[name] is None else datetime.fromisoformat(columns[name]) for name in _TIMES}
    row: Any = {name: columns[name] for name in ("state", "certificate")} | at
    kept = CertificateRow(id=UUID(columns["id"]), service_id=UUID(columns["service_id"]), **row).kept()
    return Signer(kept, bytes.fromhex(columns["sealed_private_key"].removeprefix("\\x")))


_TIMES: Final = ("valid_from", "valid_until", "created_at", "last_signed_at")

CONFIGURATION: Final = """
           saml.service_id as saml_service, saml.enabled, saml.entity_id, saml.acs_url, saml.slo_url, saml.slo_response_url,
           saml.slo_binding, saml.name_id_format, saml.attribute_mapping, saml.sign_assertions, saml.sign_response,
           saml.require_signed_requests, saml.acs_endpoints, saml.signing_certificates, saml.encryption_certificate,
           saml.metadata_uploaded_at, saml.metadata_fetched_at, saml.created_at as saml_created_at, saml.updated_at as saml_updated_at"""

CERTIFICATE: Final = "id, service_id, state, certificate, valid_from, valid_until, created_at, last_signed_at"

SIGNERS: Final[LiteralString] = """
           (
               select to_json(one)::text from saml_certificates as one where one.service_id = services.id and one.state = 'active'
           ) as active,
           (
               select to_json(one)::text from saml_certificates as one where one.service_id = services.id and one.state = 'next'
           ) as upcoming"""


def configuration_parameters(configuration: Configuration) -> Mapping[str, Any]:
    return {
        "service": configuration.service,
        "enabled": configuration.enabled,
        "entity_id": configuration.entity_id,
        "acs_url": configuration.acs_url,
        "slo_url": configuration.slo_url,
        "slo_response_url": configuration.slo_response_url,
        "slo_binding": configuration.slo_binding.value,
        "name_id_format": configuration.name_id_format,
        "attribute_mapping": None if configuration.attribute_mapping is None else Jsonb(_storable(configuration.attribute_mapping)),
        "sign_assertions": configuration.sign_assertions,
        "sign_response": configuration.sign_response,
        "require_signed_requests": configuration.require_signed_requests,
        "acs_endpoints": Jsonb([{"index": one.index, "url": one.url, "is_default": one.is_default} for one in configuration.acs_endpoints]),
        "signing_certificates": list(configuration.signing_certificates),
        "encryption_certificate": configuration.encryption_certificate,
        "metadata_uploaded_at": configuration.metadata_uploaded_at,
        "created_at": configuration.created_at,
        "updated_at": configuration.updated_at,
    }


def _storable(mapping: Mapping[str, str]) -> Mapping[str, str]:
    return {source: storable_text(name) for source, name in mapping.items()}
