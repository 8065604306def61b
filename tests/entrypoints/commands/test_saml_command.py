"""`postern saml status`, as a table."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from core.domain.federation.saml.configurations import Certificate, CertificateState, Configuration, Signer
from core.domain.identifiers import SamlCertificateId, ServiceId
from entrypoints.cli.saml import table
from ports.federation.saml import Configured

_AT = datetime(2026, 3, 1, tzinfo=UTC)
_SERVICE = ServiceId(UUID(int=1))


def _signer(state: CertificateState, *, created: datetime = _AT, signed: datetime | None = None) -> Signer:
    certificate = Certificate(
        id=SamlCertificateId(UUID(int=2)),
        service=_SERVICE,
        state=state,
        pem="",
        valid_from=_AT,
        valid_until=_AT + timedelta(days=100),
        created_at=created,
        last_signed_at=signed,
    )
    return Signer(certificate, b"")


def _configured(*, active: Signer | None, upcoming: Signer | None, fetched: datetime | None) -> Configured:
    configuration = Configuration(
        service=_SERVICE, enabled=True, entity_id="https://crm.example.com", metadata_fetched_at=fetched, created_at=_AT, updated_at=_AT
    )
    return Configured(
        service=_SERVICE,
        organization_slug="acme",
        service_slug="crm",
        service_name="CRM",
        organization_is_active=True,
        configuration=configuration,
        active=active,
        next=upcoming,
    )


def test_it_tells_where_each_service_provider_stands() -> None:
    later = _AT + timedelta(days=1)
    heading, new, waiting, fetched = table(
        [
            _configured(active=None, upcoming=None, fetched=None),
            _configured(active=_signer(CertificateState.ACTIVE, signed=later), upcoming=_signer(CertificateState.NEXT), fetched=None),
            _configured(active=_signer(CertificateState.ACTIVE), upcoming=_signer(CertificateState.NEXT), fetched=later),
        ]
    )
    assert heading.split("  ")[0] == "service"
    assert new.split() == ["acme/crm", "yes", "none", "-", "-", "-", "https://crm.example.com"]
    assert "2026-06-09" in waiting
    assert "2026-03-02" in waiting
    assert "not fetched yet" in waiting
    assert fetched.split()[-2] == "fetched"


def test_it_says_when_there_is_none() -> None:
    assert table([]) == ["No service has SAML."]
