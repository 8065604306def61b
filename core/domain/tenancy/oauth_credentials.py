"""What an organization's sign-in through an upstream provider is done with: its own client there, in place of the installation's."""

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
    """Without the secret, which is only ever opened to be used."""

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
    # Both go into requests to the provider, and providers give out nothing else (RFC 6749, appendix A).
    if not 1 <= len(text) <= LONGEST or not text.isascii() or not text.isprintable():
        raise BadRequest(f"{field}: 1 to {LONGEST} visible ASCII characters")
    return text


# The API has one name for it, which speaks of services: theirs is the sign-in that these are for. They are the organization's all the same.
def credentials_updated(credentials: OAuthCredentials, actor: Actor) -> Event:
    return _event("service.oauth_credentials.updated", credentials, actor)


def credentials_removed(credentials: OAuthCredentials, actor: Actor) -> Event:
    return _event("service.oauth_credentials.removed", credentials, actor)


def _event(name: str, credentials: OAuthCredentials, actor: Actor) -> Event:
    details = {"provider": credentials.provider.value, "client_id": credentials.client_id}
    return Event(name, actor, Target("organization", str(credentials.organization)), credentials.organization, details)
