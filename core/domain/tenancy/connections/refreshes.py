"""What the daily look at a connection changes, and the events that tell it."""

from collections.abc import Mapping, Sequence

from core.domain.identity.upstream.connections import ConnectionState, KeptCertificate, ProviderKind
from core.domain.identity.upstream.refreshes import AskedBecause, RefreshFault, Taken
from core.domain.json import Json
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.tenancy.upstream_providers import UpstreamProvider


def is_looked_at(provider: UpstreamProvider) -> bool:
    """A draft is not: whoever completes it reads the metadata anew."""
    if provider.kind is ProviderKind.OIDC:
        return provider.enabled
    return provider.state is not ConnectionState.DRAFT


def is_same(before: UpstreamProvider, now: UpstreamProvider) -> bool:
    """Whether a look that began with `before` still says something."""
    return (
        is_looked_at(now)
        and now.issuer == before.issuer
        and (before.saml is None) == (now.saml is None)
        and (before.saml is None or now.saml is None or before.saml.metadata_url == now.saml.metadata_url)
    )


def certificates_changed(provider: UpstreamProvider, taken: Taken) -> Event:
    return _event(
        "organization.upstream_provider.certificates.refreshed", provider, SYSTEM, _news(added=taken.added, removed=taken.removed)
    )


def certificates_wait(provider: UpstreamProvider, certificates: Sequence[KeptCertificate], because: AskedBecause) -> Event:
    details = {**_news(waiting=certificates), "reason": because.value}
    return _event("organization.upstream_provider.certificates.waiting", provider, SYSTEM, details)


def certificate_decided(provider: UpstreamProvider, fingerprint: str, actor: Actor, *, approved: bool) -> Event:
    approval, refusal = "organization.upstream_provider.certificates.approved", "organization.upstream_provider.certificates.declined"
    name = approval if approved else refusal
    return _event(name, provider, actor, {"certificate_sha256": fingerprint})


def reading_failed(provider: UpstreamProvider, fault: RefreshFault) -> Event:
    return _event("organization.upstream_provider.metadata.failed", provider, SYSTEM, {"fault": fault.value})


def _news(**certificates: Sequence[KeptCertificate]) -> Mapping[str, Json]:
    return {f"{name}_sha256": [one.fingerprint for one in ones] for name, ones in certificates.items()}


def _event(name: str, provider: UpstreamProvider, actor: Actor, details: Mapping[str, Json]) -> Event:
    target = Target("upstream_provider", str(provider.id))
    return Event(name, actor, target, provider.organization, {"name": provider.name, **details})
