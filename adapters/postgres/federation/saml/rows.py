"""The columns of a service's SAML configuration and of its certificates, for all statements about SAML."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.storable import storable_text
from core.domain.federation.saml.configurations import AcsEndpoint, Certificate, Configuration, Signer
from core.domain.federation.saml.messages import SamlExchange
from core.domain.saml import SamlBinding

# The number of services with a sign-in in a busy minute. The cache keeps as many rows.
_READ: Final = 256

CERTIFICATE: Final = Columns(Certificate, "saml_certificates", named={"service": "service_id", "pem": "certificate"})


def _mapping(mapping: Mapping[str, str]) -> Jsonb:
    return Jsonb({source: storable_text(name) for source, name in mapping.items()})


def _endpoints(endpoints: Sequence[AcsEndpoint]) -> Jsonb:
    return Jsonb([{"index": one.index, "url": one.url, "is_default": one.is_default is True} for one in endpoints])


SAML_CONFIGURATION: Final = Columns(
    Configuration,
    "saml_configurations",
    named={"service": "service_id"},
    # A column of its own says that nobody has stated the binding, and only the fetch writes its time.
    apart=("slo_binding", "metadata_fetched_at"),
    turned={"attribute_mapping": (dict, _mapping), "acs_endpoints": (tuple, _endpoints)},
)


EXCHANGE: Final = Columns(
    SamlExchange,
    "saml_exchanges",
    named={"service": "service_id", "message": "message_id", "certificate": "certificate_id"},
    texts=("reason", "advice", "message", "in_response_to"),
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
    is_stated = kept["metadata_uploaded_at"] is not None and not kept["slo_by_hand"]
    binding = kept["slo_binding"] if is_stated else None
    return SAML_CONFIGURATION.of_json(kept, slo_binding=binding, metadata_fetched_at=kept["metadata_fetched_at"])


@lru_cache(maxsize=_READ)
def signer(row: str | None) -> Signer | None:
    """Reads one column of `SIGNERS`, which is null when there is no such certificate."""
    if row is None:
        return None
    kept = json.loads(row)
    certificate = CERTIFICATE.of_json(kept)
    return Signer(certificate, bytes.fromhex(kept["sealed_private_key"].removeprefix("\\x")))


def configuration_parameters(configuration: Configuration) -> Mapping[str, Any]:
    return {
        **SAML_CONFIGURATION.values(configuration),
        # Never null, because processes of the previous release read this column.
        "slo_binding": (configuration.slo_binding or SamlBinding.POST).value,
        "slo_by_hand": configuration.metadata_uploaded_at is not None and configuration.slo_binding is None,
    }
