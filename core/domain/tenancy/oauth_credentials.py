"""OAuth credentials: an organization's own client at an upstream provider. It replaces the installation's client in the
organization's sign-ins.
"""

from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import OAuthCredentialId, OrganizationId
from core.domain.identity.upstream.providers import Provider
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.frozen import Frozen

LONGEST: Final = 500


class OAuthCredentials(Frozen, kw_only=True):
    """The credentials without the secret, which is opened only for use."""

    id: OAuthCredentialId
    organization: OrganizationId
    provider: Provider
    client_id: str
    created_at: datetime
    updated_at: datetime


def sealing_context(credentials: OAuthCredentialId) -> str:
    return f"oauth_credentials.sealed_client_secret:{credentials}"


def client_id(text: str) -> str:
    return _visible("client_id", text.strip())


def client_secret(text: str) -> Secret:
    return Secret(_visible("client_secret", text))


def _visible(field: str, text: str) -> str:
    # Both values go into requests to the provider. Providers issue only such characters (RFC 6749, appendix A).
    if not 1 <= len(text) <= LONGEST or not text.isascii() or not text.isprintable():
        raise BadRequest(f"{field}: 1 to {LONGEST} visible ASCII characters", words="ascii_length", values={"most": LONGEST})
    return text


# The API's event names speak of services, because these credentials are for sign-ins to services. The credentials belong to the
# organization all the same.
def credentials_updated(credentials: OAuthCredentials, actor: Actor) -> Event:
    return _event("service.oauth_credentials.updated", credentials, actor)


def credentials_removed(credentials: OAuthCredentials, actor: Actor) -> Event:
    return _event("service.oauth_credentials.removed", credentials, actor)


def _event(name: str, credentials: OAuthCredentials, actor: Actor) -> Event:
    details = {"provider": credentials.provider.value, "client_id": credentials.client_id}
    return Event(name, actor, Target("organization", str(credentials.organization)), credentials.organization, details)
