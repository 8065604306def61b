"""The device authorization grant: a device requests its codes, and an application's own page looks up the code that a user has entered."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import NotFound, OrganizationNotActive
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.device_flow import LONGEST_USER_CODE, AskingClient, DeviceCodeExpired
from core.domain.federation.oauth.oidc import DEVICE_AUTHORIZATION_ENDPOINT
from core.domain.federation.oauth.refusals import InvalidScope, InvalidTarget, UnauthorizedClient
from core.domain.federation.oauth.resources import LONGEST_SCOPES, MOST_RESOURCES
from core.domain.identity.sign_in import PASSWORD_PROVIDER
from core.usecases.federation.grants import asked_scopes
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormOrJson
from entrypoints.http.machinery.answers import Origins
from entrypoints.http.machinery.callers import ANYONE, CLIENT
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import ClientFields, all_said, credentials, said
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import Line, Slug, SlugOfOrganization, SlugOfService, example
from entrypoints.http.machinery.limits import AUTH, DEVICE_FLOW
from entrypoints.http.routes.federation.unplaced_clients import require_registered

_TAGS: Final = ("oauth",)
_USER_CODE: Final = example("WDJB-MJHT")


class DeviceCodeRequest(ClientFields, frozen=True, kw_only=True):
    """The device's service and the requested scopes, as a form or as JSON."""

    org: Annotated[Slug, example("acme")] | None = None
    """The slug of the service's organization. Optional, but a wrong slug is rejected."""
    service: Annotated[Slug, example("tv")] | None = None
    """The slug of the service. Optional."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES), example("openid email")] | None = None
    """The requested scopes, separated by spaces."""
    resource: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RESOURCES), example(["https://api.acme.example/orders"])] = ()
    """The identifiers of the APIs that the device requests tokens for (RFC 8707)."""


class DeviceCodes(msgspec.Struct, frozen=True, kw_only=True):
    """The device code and the user code (RFC 8628 section 3.2)."""

    device_code: Annotated[str, example("GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS4w")]
    """The code that the device sends to the token endpoint. Keep it secret."""
    user_code: Annotated[str, _USER_CODE]
    """The code that the device shows and the person enters. It has no vowels and no letters that look alike."""
    verification_uri: Annotated[str, example("https://id.example.org/ui/device")]
    """The URL of the page where the person enters the code: the service's own page, if it has one."""
    verification_uri_complete: Annotated[str, example("https://id.example.org/ui/device?user_code=WDJB-MJHT")]
    """The URL of the same page with the code filled in, to show as a QR code."""
    expires_in: Annotated[int, example(300)]
    """The number of seconds until both codes expire."""
    interval: Annotated[int, example(5)]
    """The minimum number of seconds between two polls."""


class EnteredUserCode(msgspec.Struct, frozen=True):
    """The user code that a person entered."""

    user_code: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_USER_CODE), _USER_CODE]
    """The user code, case-insensitive, with or without the hyphen."""


class DeviceVerification(msgspec.Struct, frozen=True):
    """The service of the device, and the available sign-in methods."""

    org_slug: SlugOfOrganization
    service_slug: SlugOfService
    available_providers: Annotated[Sequence[str], example(["password", "codehost", "websuite"])]
    """The available sign-in methods. `password` stands for Postern's pages. All others are providers for `GET
    /auth/{provider}?user_code=…`: `codehost`, `websuite`, `officesuite`, and the IDs of the organization's own providers.
    """


@endpoint.post(
    DEVICE_AUTHORIZATION_ENDPOINT,
    caller=CLIENT,
    limit=(AUTH, DEVICE_FLOW),
    refuses=(InvalidScope, InvalidTarget, UnauthorizedClient),
    accepts=FormOrJson(),
    errors=OAUTH,
    tags=_TAGS,
    origins=Origins.CLIENTS,
)
async def request_device_code(call: Call[DeviceCodeRequest], postern: Postern) -> DeviceCodes:
    """Request a device code

    Show the user code and the verification URL to the person. Then poll `POST /auth/token` with the device code every 5 seconds, until the
    person approves or denies the device. Confidential clients must authenticate at the token endpoint; at this endpoint, authentication is
    optional.
    """
    fields = call.body
    shown = await credentials(call, postern)
    require_registered(shown)
    if shown.method is not AuthenticationMethod.NONE:
        await postern.federation.clients.authenticate(shown)
    asking = AskingClient(id=shown.client, organization=said(fields.org), service=said(fields.service))
    resources = tuple(dict.fromkeys(all_said(fields.resource)))
    scopes, foreign = asked_scopes(said(fields.scope), of_apis=bool(resources))
    told = await postern.federation.device_flow.ask(asking, scopes, call.sender, resources, foreign)
    return DeviceCodes(
        device_code=told.device_code.reveal(),
        user_code=told.user_code.reveal(),
        verification_uri=told.verification_uri,
        verification_uri_complete=told.verification_uri_complete.reveal(),
        expires_in=told.expires_in,
        interval=told.interval,
    )


@endpoint.post(
    "/auth/device/verify",
    caller=ANYONE,
    limit=(AUTH, DEVICE_FLOW),
    refuses=(NotFound, DeviceCodeExpired, OrganizationNotActive),
    tags=_TAGS,
)
async def verify_user_code(call: Call[EnteredUserCode], postern: Postern) -> DeviceVerification:
    """Look up the service of a user code

    For your own page where people enter the code (`device_activation_uri`). This request does not approve the device. Next, send the person
    to `/ui/device?user_code=…` to sign in and to approve or deny the device. To use a provider, send the person to
    `/auth/{provider}?user_code=…` instead. After signing in there, the person returns to Postern's page.
    """
    found, _ = await postern.federation.device_flow.find_entered(call.body.user_code)
    organization = found.context.organization_slug
    offers = await postern.identity.journeys.offered_at(organization)
    return DeviceVerification(organization, found.context.service_slug, [PASSWORD_PROVIDER, *(offer.key for offer in offers)])
