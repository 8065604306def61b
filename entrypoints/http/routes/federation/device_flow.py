"""The device flow: a device asks for its codes, and an application's own page looks up the code that a person has entered."""

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
    """The service that the device belongs to, as a form or as JSON."""

    org: Annotated[Slug, example("acme")] | None = None
    """The slug of the service's organization. A device may leave it out, but a wrong one is refused."""
    service: Annotated[Slug, example("tv")] | None = None
    """The slug of the service. A device may leave it out."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES), example("openid email")] | None = None
    """The scopes that the device asks for, separated by spaces."""
    resource: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RESOURCES), example(["https://api.acme.example/orders"])] = ()
    """The identifiers of the APIs that the device wants tokens for (RFC 8707)."""


class DeviceCodes(msgspec.Struct, frozen=True, kw_only=True):
    """A code for the device, and a code for its person (RFC 8628 section 3.2)."""

    device_code: Annotated[str, example("GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS4w")]
    """The code that the device sends to the token endpoint. Keep it secret."""
    user_code: Annotated[str, _USER_CODE]
    """The code that the device shows and the person enters. The code has no vowels, and no letters that look alike."""
    verification_uri: Annotated[str, example("https://id.example.org/ui/device")]
    """The page where the person enters the code: the service's own page, if it has one."""
    verification_uri_complete: Annotated[str, example("https://id.example.org/ui/device?user_code=WDJB-MJHT")]
    """The same page with the code filled in, to show as a QR code."""
    expires_in: Annotated[int, example(300)]
    """How many seconds both codes last."""
    interval: Annotated[int, example(5)]
    """The number of seconds that the device waits between two polls."""


class EnteredUserCode(msgspec.Struct, frozen=True):
    """The code that a person has entered."""

    user_code: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_USER_CODE), _USER_CODE]
    """The code: in small letters or capitals, with or without the hyphen."""


class DeviceVerification(msgspec.Struct, frozen=True):
    """The service that the device belongs to, and the person's ways to sign in."""

    org_slug: SlugOfOrganization
    service_slug: SlugOfService
    available_providers: Annotated[Sequence[str], example(["password", "codehost", "websuite"])]
    """The ways to sign in: `password` for Postern's pages, and each provider that `GET /auth/{provider}?user_code=…` leads to: `codehost`,
    `websuite`, `officesuite`, and the organization's own providers by their IDs.
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
    """Request the codes of a device

    Show the user code and the address to the person. Then poll `POST /auth/token` with the device code, every five seconds, until the
    person has decided. An application with a client secret or key must authenticate there; here it may.
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

    For a page of your own where people enter the code (`device_activation_uri`). This approves nothing. Send the person to
    `/ui/device?user_code=…`, where the person signs in and decides. You may also send the person to a provider by
    `/auth/{provider}?user_code=…`; afterwards the person comes back to Postern's page and decides there.
    """
    found, _ = await postern.federation.device_flow.find_entered(call.body.user_code)
    organization = found.context.organization_slug
    offers = await postern.identity.journeys.offered_at(organization)
    return DeviceVerification(organization, found.context.service_slug, [PASSWORD_PROVIDER, *(offer.key for offer in offers)])
