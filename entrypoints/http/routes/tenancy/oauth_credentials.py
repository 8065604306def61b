"""An organization's own OAuth clients at the social providers."""

from typing import Annotated

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.identity.upstream.providers import Provider
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.upstream_providers import LONGEST_OAUTH_CREDENTIAL, OAuthCredentials
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import SECRET, OrganizationPath, Word, bounded, example
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS = ("settings",)
_CREDENTIALS = "/api/organizations/{org_slug}/oauth-credentials/{provider}"
_MANAGE = able(Capability.SETTINGS_MANAGE, impersonated=True)
# People sign in with this client, and it outlasts an impersonation.
_IN_PERSON = able(Capability.SETTINGS_MANAGE, impersonated=False)

_Length = bounded({"minLength": 1, "maxLength": LONGEST_OAUTH_CREDENTIAL})
_ClientId = Annotated[str, _Length, example("Iv1.4f2d9a1b")]
_ClientSecret = Annotated[str, _Length, SECRET, example("3c6e0b8a9c15224a8228b9a98ca1531d")]


class OAuthCredentialsPath(OrganizationPath, frozen=True):
    provider: Annotated[Word, example("codehost")]
    """The social provider: `codehost`, `websuite` or `officesuite`."""


class OAuthCredentialsBody(msgspec.Struct, frozen=True):
    """The client at the social provider."""

    client_id: _ClientId
    """The client ID."""
    client_secret: _ClientSecret
    """The client secret. Postern stores the secret encrypted, and no response contains it."""


class OAuthCredentialsRecord(msgspec.Struct, frozen=True):
    """The client at the social provider, without its secret."""

    provider: Annotated[str, example("codehost")]
    """The social provider."""
    client_id: _ClientId | None
    """The client ID; null if no client is set."""
    has_secret: Annotated[bool, example(True)]
    """Whether a client secret is stored."""


@endpoint.post(
    _CREDENTIALS, caller=_IN_PERSON, keys=True, limit=CREDENTIALS, refuses=(BadRequest,), tags=_TAGS, verb="oauth-credential set"
)
async def set_oauth_credentials(
    call: Call[OAuthCredentialsBody, None, OAuthCredentialsPath, Member], postern: Postern
) -> OAuthCredentialsRecord:
    """Set an organization's client at a social provider

    The client replaces the previous one. People who sign in to the organization through the provider use this client, in place of the
    installation's client.
    """
    provider = _provider(call.path.provider)
    body = call.body
    credentials = await postern.tenancy.oauth_credentials.configure(
        call.caller, call.actor, provider, client=body.client_id, secret=body.client_secret
    )
    return _record(provider, credentials)


@endpoint.get(_CREDENTIALS, caller=_MANAGE, keys=True, tags=_TAGS)
async def get_oauth_credentials(call: Call[None, None, OAuthCredentialsPath, Member], postern: Postern) -> OAuthCredentialsRecord:
    """Get an organization's client at a social provider

    The response does not contain the secret. If the organization has no client, sign-ins use the installation's client.
    """
    provider = _provider(call.path.provider)
    return _record(provider, await postern.tenancy.oauth_credentials.get(call.caller, provider))


@endpoint.delete(_CREDENTIALS, caller=_IN_PERSON, keys=True, limit=CREDENTIALS, status=204, tags=_TAGS)
async def remove_oauth_credentials(call: Call[None, None, OAuthCredentialsPath, Member], postern: Postern) -> NoBody:
    """Delete an organization's client at a social provider

    Sign-ins use the installation's client again. If no client is set, nothing happens.
    """
    await postern.tenancy.oauth_credentials.remove(call.caller, call.actor, _provider(call.path.provider))
    return NO_BODY


def _provider(text: str) -> Provider:
    try:
        return Provider(text)
    except ValueError:
        raise NotFound("Provider not found") from None


def _record(provider: Provider, credentials: OAuthCredentials | None) -> OAuthCredentialsRecord:
    if credentials is None:
        return OAuthCredentialsRecord(provider.value, None, False)
    return OAuthCredentialsRecord(provider.value, credentials.client_id, True)
