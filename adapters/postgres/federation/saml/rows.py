"""The columns of a service's SAML configuration and of its certificates, for all statements about SAML."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.storable import storable_text
from core.domain.federation.saml.certificates import Certificate, CertificateState, Signer
from core.domain.federation.saml.configurations import AcsEndpoint, Configuration
from core.domain.identifiers import SamlCertificateId, ServiceId
from core.domain.saml.messages import SamlBinding
from core.frozen import Frozen

# The number of services with a sign-in in a busy minute. The cache keeps as many rows.
_READ: Final = 256


class CertificateRow(Frozen, kw_only=True):
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


# A configuration is JSON, because the text is the same for each sign-in to a service. A cache parses each text once, and again after a
# change.
CONFIGURATION: Final = """
           to_json(saml)::text as configuration"""

SIGNERS: Final[LiteralString] = """
           (
               select to_json(one)::text from saml_certificates as one where one.service_id = services.id and one.state = 'active'
           ) as active,
           (
               select to_json(one)::text from saml_certificates as one where one.service_id = services.id and one.state = 'next'
           ) as upcoming"""


@lru_cache(maxsize=_READ)
def configuration(row: str | None) -> Configuration | None:
    """Reads the column `CONFIGURATION`, which is null for a service without SAML."""
    if row is None:
        return None
    kept = json.loads(row)
    return Configuration(
        service=ServiceId(UUID(kept["service_id"])),
        enabled=kept["enabled"],
        entity_id=kept["entity_id"],
        acs_url=kept["acs_url"],
        slo_url=kept["slo_url"],
        slo_response_url=kept["slo_response_url"],
        slo_binding=None if kept["metadata_uploaded_at"] is None or kept["slo_by_hand"] else SamlBinding(kept["slo_binding"]),
        name_id_format=kept["name_id_format"],
        attribute_mapping=kept["attribute_mapping"],
        sign_assertions=kept["sign_assertions"],
        sign_response=kept["sign_response"],
        require_signed_requests=kept["require_signed_requests"],
        acs_endpoints=tuple(AcsEndpoint(one["index"], one["url"], is_default=one["is_default"]) for one in kept["acs_endpoints"]),
        signing_certificates=tuple(kept["signing_certificates"]),
        encryption_certificate=kept["encryption_certificate"],
        metadata_uploaded_at=_moment(kept["metadata_uploaded_at"]),
        metadata_fetched_at=_moment(kept["metadata_fetched_at"]),
        created_at=datetime.fromisoformat(kept["created_at"]),
        updated_at=datetime.fromisoformat(kept["updated_at"]),
    )


@lru_cache(maxsize=_READ)
def signer(row: str | None) -> Signer | None:
    """Reads one column of `SIGNERS`, which is null when there is no such certificate."""
    if row is None:
        return None
    kept = json.loads(row)
    certificate = Certificate(
        id=SamlCertificateId(UUID(kept["id"])),
        service=ServiceId(UUID(kept["service_id"])),
        state=CertificateState(kept["state"]),
        pem=kept["certificate"],
        valid_from=datetime.fromisoformat(kept["valid_from"]),
        valid_until=datetime.fromisoformat(kept["valid_until"]),
        created_at=datetime.fromisoformat(kept["created_at"]),
        last_signed_at=_moment(kept["last_signed_at"]),
    )
    return Signer(certificate, bytes.fromhex(kept["sealed_private_key"].removeprefix("\\x")))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


CERTIFICATE: Final = "id, service_id, state, certificate, valid_from, valid_until, created_at, last_signed_at"


def configuration_parameters(configuration: Configuration) -> Mapping[str, Any]:
    return {
        "service": configuration.service,
        "enabled": configuration.enabled,
        "entity_id": configuration.entity_id,
        "acs_url": configuration.acs_url,
        "slo_url": configuration.slo_url,
        "slo_response_url": configuration.slo_response_url,
        # Never null, because processes of the previous release read this column.
        "slo_binding": (configuration.slo_binding or SamlBinding.POST).value,
        "slo_by_hand": configuration.metadata_uploaded_at is not None and configuration.slo_binding is None,
        "name_id_format": configuration.name_id_format,
        "attribute_mapping": None if configuration.attribute_mapping is None else Jsonb(_storable(configuration.attribute_mapping)),
        "sign_assertions": configuration.sign_assertions,
        "sign_response": configuration.sign_response,
        "require_signed_requests": configuration.require_signed_requests,
        "acs_endpoints": Jsonb(
            [{"index": one.index, "url": one.url, "is_default": one.is_default is True} for one in configuration.acs_endpoints]
        ),
        "signing_certificates": list(configuration.signing_certificates),
        "encryption_certificate": configuration.encryption_certificate,
        "metadata_uploaded_at": configuration.metadata_uploaded_at,
        "created_at": configuration.created_at,
        "updated_at": configuration.updated_at,
    }


def _storable(mapping: Mapping[str, str]) -> Mapping[str, str]:
    return {source: storable_text(name) for source, name in mapping.items()}
