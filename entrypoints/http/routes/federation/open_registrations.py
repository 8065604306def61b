"""Open registration (RFC 7591): programs on people's own devices register themselves."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from core.domain.errors import NotFound
from core.domain.federation.oauth.oidc import REGISTRATION_ENDPOINT
from core.domain.federation.open_registrations import GRANTS, REGISTRATIONS, MetadataRefused, OpenRegistration, RedirectRefused
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Json
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.cors import Origins
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.error_shapes import OAUTH
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import UNLIMITED

_MOST_LISTED: Final = 100
_LONGEST: Final = 2000
_Address = Annotated[str, msgspec.Meta(max_length=_LONGEST)]
_Word = Annotated[str, msgspec.Meta(max_length=_LONGEST)]


class ClientRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says of itself. Everything that is not named here is ignored."""

    redirect_uris: Annotated[Sequence[_Address], msgspec.Meta(max_length=_MOST_LISTED), example(["http://127.0.0.1:33418/callback"])] = ()
    """One to ten addresses: `http` on `localhost`, `127.0.0.1` or `[::1]`, where any port counts later, or `https` at a host that the
    organization and the API name in their `metadata_hosts`.
    """
    client_name: Annotated[_Word, example("Notebook")] | None = None
    """The name that people read, behind the words that nobody has registered the program: one line, without markup and links."""
    token_endpoint_auth_method: Annotated[_Word, example("none")] | None = None
    """`none`, also where it is left out: such a client has no secret, and uses PKCE."""
    grant_types: (
        Annotated[Sequence[_Word], msgspec.Meta(max_length=_MOST_LISTED), example(["authorization_code", "refresh_token"])] | None
    ) = None
    """`authorization_code` must be one of them. The client gets codes and refresh tokens, whatever else it names."""
    response_types: Annotated[Sequence[_Word], msgspec.Meta(max_length=_MOST_LISTED), example(["code"])] | None = None
    """`code` must be one of them."""
    dpop_bound_access_tokens: bool = False
    """Whether the client gets only tokens that are bound to a key (DPoP, RFC 9449)."""


class RegisteredOpenClient(msgspec.Struct, frozen=True, kw_only=True):
    """The client as it is registered (RFC 7591 section 3.2.1)."""

    client_id: Annotated[str, example("open:4xw1fXqSYyRKkWm5oZ1Yi1siTm90ZWJvb2siLFsiaHR0cDovLzEyNy4wLjAuMS9jYWxsYmFjayJdXQ")]
    """The client id: what the client has said of itself, signed by us. We store nothing, and the same words get the same id."""
    client_id_issued_at: Annotated[int, example(1_780_000_000)]
    """Now, in seconds since 1970."""
    client_name: Annotated[str, example("Notebook")]
    """The name that people read."""
    redirect_uris: Annotated[Sequence[str], example(["http://127.0.0.1:33418/callback"])]
    """The addresses, as they were sent."""
    token_endpoint_auth_method: Literal["none"] = "none"  # noqa: S105 - no password
    """The client has no secret."""
    grant_types: Annotated[Sequence[str], example(["authorization_code", "refresh_token"])] = GRANTS
    """What the client may send to the token endpoint."""
    response_types: Annotated[Sequence[str], example(["code"])] = ("code",)
    """What the client may ask for at `/oauth/authorize`."""
    dpop_bound_access_tokens: bool = False
    """Whether the client gets only tokens that are bound to a key (DPoP, RFC 9449)."""


@endpoint.post(
    REGISTRATION_ENDPOINT,
    caller=ANYONE,
    limit=UNLIMITED,
    counts=(REGISTRATIONS,),
    accepts=Json(limit=16 << 10),
    refuses=(MetadataRefused, RedirectRefused, NotFound),
    errors=OAUTH,
    origins=Origins.ALL,
    status=201,
    tags=("oauth",),
)
async def register_open_client(call: Call[ClientRegistration], postern: Postern) -> RegisteredOpenClient:
    """Register a program on a person's own device (RFC 7591)

    For programs that meet this installation for the first time, such as MCP clients. It is off until the operator turns it on
    (`POSTERN_OPEN_REGISTRATION`); then the metadata has it as `registration_endpoint`. The client id opens nothing by itself: a request
    needs `resource`, and both the API and its organization must say `registered_clients: on`. There is no way to read or change a
    registration (RFC 7592): register again.
    """
    call.request.count_here(REGISTRATIONS)
    body = call.body
    registered = await postern.federation.open_registrations.register(
        OpenRegistration(
            redirect_uris=body.redirect_uris,
            name=body.client_name,
            method=body.token_endpoint_auth_method,
            grants=body.grant_types or (),
            response_types=body.response_types or (),
            dpop_bound_access_tokens=body.dpop_bound_access_tokens,
        )
    )
    return RegisteredOpenClient(
        client_id=registered.client,
        client_id_issued_at=int(postern.foundation.clock.now().timestamp()),
        client_name=registered.name,
        redirect_uris=registered.redirect_uris,
        dpop_bound_access_tokens=registered.dpop_bound_access_tokens,
    )
