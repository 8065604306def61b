"""Authorization requests: the requests by which an application sends a person to sign in (RFC 6749, OpenID Connect Core 3.1.2, RFC 7636,
RFC 9126). `authorization_parameters.py` reads and checks them. The answer goes to an address that the service has registered, or nowhere.
Where the FAPI 2.0 Security Profile meets a request, each refusal names the rule, for the author of the application; what the settings hold
is checked where they are set (`core/domain/services/services.py`).
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from core.domain.errors import BadRequest, Unauthorized
from core.domain.federation.oauth.refusals import CLIENT_UNKNOWN, RefusalReason, UnauthorizedClient
from core.domain.formats import Json
from core.domain.identifiers import ClientId, ResourceServerId, UserId
from core.domain.key_proofs import KeyThumbprint
from core.domain.services.clients import LOOPBACK_ORIGIN
from core.frozen import Frozen, json_of

# RFC 8252 section 7.3. RFC 9700 section 2.1 treats `localhost` like the loopback addresses.
_LOOPBACK: Final = re.compile(rf"(?P<host>{LOOPBACK_ORIGIN})(?::(?P<port>[1-9][0-9]{{0,4}}))?(?P<rest>(?:[/?].*)?)")
_LARGEST_PORT: Final = 65_535
_WEB: Final = "https://"


class ResponseMode(StrEnum):
    """The way in which an answer travels (OAuth 2.0 Multiple Response Type Encoding Practices, and Form Post Response Mode)."""

    QUERY = "query"
    FORM_POST = "form_post"
    CODE_IN_FRAGMENT = "code_fragment"
    """A code in the fragment, which browsers send to no server. Applications ask for it as `fragment`, and must use PKCE: any script of
    the page can read a fragment.
    """
    FRAGMENT = "fragment"
    """The fragment has the tokens themselves. Only for direct requests to a provider, and never as an authorization request asks."""


ASKED_MODES: Final[Mapping[str, ResponseMode]] = {
    "query": ResponseMode.QUERY,
    "form_post": ResponseMode.FORM_POST,
    "fragment": ResponseMode.CODE_IN_FRAGMENT,
}
"""The words of authorization requests."""


class Recipient(Frozen):
    """The receiver of the answer to a request, and how the answer travels. The service has registered the address."""

    redirect_uri: str
    response_mode: ResponseMode = ResponseMode.QUERY
    state: str | None = None

    def answered(self, issuer: str, fields: Mapping[str, str]) -> "Answered":
        """Every answer carries the issuer (RFC 9207), so that a client with several providers notices when two are mixed up."""
        state = {} if self.state is None else {"state": self.state}
        return Answered(self.redirect_uri, self.response_mode, {**fields, **state, "iss": issuer})


class Answered(Frozen):
    """An answer on its way to the client."""

    redirect_uri: str
    response_mode: ResponseMode
    fields: Mapping[str, str]
    recorded_as: str = ""
    """Of a refusal: the reason that it names for those who look after the application."""

    @property
    def url(self) -> str:
        """The address with the answer in its fragment, or in its query, after the query that was registered."""
        if self.response_mode in {ResponseMode.FRAGMENT, ResponseMode.CODE_IN_FRAGMENT}:
            return f"{self.redirect_uri}#{urlencode(self.fields)}"
        return with_query(self.redirect_uri, self.fields)


def with_query(uri: str, fields: Mapping[str, str]) -> str:
    """The registered address, with the fields added to its query."""
    if not fields:
        return uri
    separator = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{separator}{urlencode(fields)}"


def is_registered(uri: str, registered: Sequence[str], *, native: bool) -> bool:
    """Whether an address matches a registered one, byte for byte. `native` says that the application is installed on people's devices. Then
    an address on the device itself may have any port: such an application takes a free port (RFC 8252 section 7.3). An application without
    any other address is installed on the device, too, whatever it says.
    """
    any_port = native or all(map(_LOOPBACK.fullmatch, registered))
    return any(uri == one or (any_port and _differ_in_port(uri, one)) for one in registered)


def without_port(uri: str) -> str:
    """The address without its port, if it lies on the device itself: there, any port is as good. Any other address is unchanged."""
    here = _LOOPBACK.fullmatch(uri)
    return uri if here is None else here["host"] + here["rest"]


def proves_nothing(redirect_uri: str) -> bool:
    """Whether any program on the person's device could receive answers at this address. Then the application may be another one than it
    says (RFC 8252 section 8.6). An https address proves its owner.
    """
    return not redirect_uri.startswith(_WEB)


def destination(redirect_uri: str) -> str:
    """The target of the redirect, for people: the host, or the scheme of an application on the device."""
    scheme, _, rest = redirect_uri.partition(":")
    if not rest.startswith("//"):
        return scheme
    host = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
    return host if scheme in {"https", "http"} else f"{scheme}://{host}"


def after_logout(post_logout: Sequence[str], redirect_uris: Sequence[str]) -> Sequence[str]:
    """The addresses to which a service may send people after they have signed out. A service that registers none may
    use its redirect URIs.
    """
    return post_logout or redirect_uris


def _differ_in_port(given: str, registered: str) -> bool:
    """Whether both addresses lie on the device itself and differ at most in the port. The host must be the same: `localhost` may resolve to
    something else than `127.0.0.1`.
    """
    here, there = _LOOPBACK.fullmatch(given), _LOOPBACK.fullmatch(registered)
    if here is None or there is None or (here["host"], here["rest"]) != (there["host"], there["rest"]):
        return False
    return here["port"] is None or int(here["port"]) <= _LARGEST_PORT


class AuthorizationErrorCode(StrEnum):
    """The error codes that an application gets for a refused request: RFC 6749 section 4.1.2.1, OpenID Connect Core 3.1.2.6, RFC 8707,
    RFC 9101, RFC 9126 and RFC 9470.
    """

    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED_CLIENT = "unauthorized_client"
    ACCESS_DENIED = "access_denied"
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"
    INVALID_SCOPE = "invalid_scope"
    LOGIN_REQUIRED = "login_required"
    CONSENT_REQUIRED = "consent_required"
    INTERACTION_REQUIRED = "interaction_required"
    ACCOUNT_SELECTION_REQUIRED = "account_selection_required"
    REQUEST_NOT_SUPPORTED = "request_not_supported"
    REQUEST_URI_NOT_SUPPORTED = "request_uri_not_supported"
    REGISTRATION_NOT_SUPPORTED = "registration_not_supported"
    UNMET_REQUIREMENTS = "unmet_authentication_requirements"
    INVALID_TARGET = "invalid_target"
    INVALID_REQUEST_URI = "invalid_request_uri"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"


SHOWN_TO_THE_PERSON: Final = (
    *("application_unknown", "redirect_missing", "redirect_unregistered", "request_used", "application_closed"),
    # Of metadata clients.
    *("client_address", "resource_needed", "resource_unknown", "resource_on_machine", "resource_of_several", "document_not_let_in"),
    *("document_status", "document_too_long", "document_not_json", "document_lies", "document_secret", "document_name"),
    *("document_redirects", "document_method", "document_keys", "document_busy", "document_unreachable", "documents_full"),
    "documents_of_person",
)
"""The reasons that a page tells the person. Together with the error codes, these are all reasons for a refusal."""


class AuthorizationRefused(BadRequest):
    """A refusal for the application, which gets it at its redirect URI, or in the answer to a pushed request."""

    text = "The authorization request is refused"

    def __init__(self, word: AuthorizationErrorCode, description: str, *, recorded_as: str = "") -> None:
        super().__init__(description)
        self.word = word
        self.recorded_as = recorded_as
        self.oauth_error = word.value


class UnknownRecipient(BadRequest):
    """A refusal for the person alone: nobody knows who would receive an answer."""

    text = "This application's request cannot be answered"
    oauth_error: str | None = None
    client: ClientId | None = None
    """The client, where the request names it in another way than our look-ups do: a metadata client."""
    api: ResourceServerId | None = None
    """The API that a metadata client names which nobody has placed yet. Its owners can read why."""
    looked_after: "LookedAfter | None" = None
    """The application, if the person who reads the refusal may read the application's failed requests."""


class LookedAfter(NamedTuple):
    """An application, for somebody who looks after it."""

    organization_slug: str
    service_slug: str


def unknown_application() -> UnknownRecipient:
    return UnknownRecipient("client_id: no service of this installation has it", words="application_unknown")


def request_used() -> UnknownRecipient:
    refusal = UnknownRecipient("request_uri: it has expired, or was used already", words="request_used")
    refusal.oauth_error = AuthorizationErrorCode.INVALID_REQUEST_URI.value
    return refusal


def unregistered() -> UnknownRecipient:
    return UnknownRecipient("redirect_uri: the service has not registered it", words="redirect_unregistered")


class AuthorizationPrompt(StrEnum):
    """The questions that the person must answer, even if the answer is known already."""

    NONE = "none"
    LOGIN = "login"
    CONSENT = "consent"
    SELECT_ACCOUNT = "select_account"
    CREATE = "create"


class Registered(Frozen):
    """The registered data of a service that its requests are checked against."""

    client_id: ClientId
    redirect_uris: Sequence[str]
    is_native: bool
    """The application is installed on people's devices."""
    authenticates: bool
    """The application authenticates itself at the token endpoint, with a secret or a key. Otherwise PKCE alone protects its codes."""
    may_be_public: bool = True
    """If this is False, the application must authenticate itself: without a secret and keys, nobody could redeem its codes."""
    binds_tokens: bool = False
    """It gets only tokens that are bound to a key, so it gets them for a code, with a proof."""
    holds_fapi2: bool = False
    """It holds the FAPI 2.0 Security Profile: only a pushed request with PKCE gets a code."""


class AuthorizationRequest(Frozen, kw_only=True):
    client_id: ClientId
    recipient: Recipient
    scopes: tuple[str, ...]
    nonce: str | None = None
    code_challenge: str | None = None
    prompts: frozenset[AuthorizationPrompt] = frozenset()
    max_age: int | None = None
    login_hint: str | None = None
    acr_values: tuple[str, ...] = ()
    ui_locales: tuple[str, ...] = ()
    subject: UserId | None = None
    """The person whom the application expects: from the ID token in `id_token_hint`, or from the `sub` of its `claims`."""
    resources: tuple[str, ...] = ()
    """The identifiers of the APIs that the application wants tokens for."""
    foreign_scopes: tuple[str, ...] = ()
    """The words of `scope` that are none of ours: scopes of these APIs."""
    signal_scopes: tuple[str, ...] = ()
    """The scopes of signals that it asks for. Nobody but a person who may manage integrations grants them."""
    pushed: bytes | None = None
    """The digest of the pushed request that this one came by. It is good for one code."""
    key: KeyThumbprint | None = None
    """The key that the code is bound to, as `dpop_jkt` or a pushed request's proof names it."""
    described: Mapping[str, Json] | None = None
    """What a client that nobody has placed yet says of itself; see `consents.py`."""

    @property
    def granted_scopes(self) -> tuple[str, ...]:
        """What a code for this request is good for."""
        return (*self.scopes, *self.signal_scopes)


_KEPT_AS: Final[Mapping[str, str]] = {
    "scopes": "scope",
    "prompts": "prompt",
    "resources": "resource",
    "foreign_scopes": "foreign_scope",
    "signal_scopes": "signal_scope",
    "key": "dpop_jkt",
}
"""The parameters of requests, by the fields that have another name."""


def stored(request: AuthorizationRequest) -> Mapping[str, Json]:
    """The form that a flow or a pushed request stores. What was not given is left out, but for the scopes: a request may have none."""
    kept = json_of(request)
    kept |= {
        **kept.pop("recipient"),
        "prompts": sorted(request.prompts),
        "pushed": None if request.pushed is None else request.pushed.hex(),
    }
    return {_KEPT_AS.get(name, name): value for name, value in kept.items() if name == "scopes" or value not in (None, [])}


def restored(kept: Mapping[str, Any]) -> AuthorizationRequest:
    """Reads the form that `stored` made."""
    return AuthorizationRequest(
        client_id=ClientId(kept["client_id"]),
        recipient=Recipient(kept["redirect_uri"], ResponseMode(kept["response_mode"]), kept.get("state")),
        scopes=tuple(kept["scope"]),
        nonce=kept.get("nonce"),
        code_challenge=kept.get("code_challenge"),
        prompts=frozenset(map(AuthorizationPrompt, kept.get("prompt", ()))),
        max_age=kept.get("max_age"),
        login_hint=kept.get("login_hint"),
        acr_values=tuple(kept.get("acr_values", ())),
        ui_locales=tuple(kept.get("ui_locales", ())),
        subject=UserId(UUID(kept["subject"])) if "subject" in kept else None,
        resources=tuple(kept.get("resource", ())),
        foreign_scopes=tuple(kept.get("foreign_scope", ())),
        signal_scopes=tuple(kept.get("signal_scope", ())),
        pushed=bytes.fromhex(kept["pushed"]) if "pushed" in kept else None,
        key=kept.get("dpop_jkt"),
        described=kept.get("described"),
    )


ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {"RSA": ("PS256",), "EC": ("ES256",), "OKP": ("EdDSA",)}
"""What each kind of key may sign assertions with."""
PUSHED_ALONE: Final = "The security profile fapi2 of this application requires pushed requests (RFC 9126): push the request to /oauth/par"
PKCE_ALONE: Final = "code_challenge: the security profile fapi2 of this application requires PKCE with S256 (RFC 7636)"
VERIFIER_NEEDED: Final = "code_verifier: the security profile fapi2 of this application requires PKCE (RFC 7636)"
_ASSERTIONS_ALONE: Final = (
    f"{CLIENT_UNKNOWN}. Its security profile fapi2 requires private_key_jwt: an assertion signed with PS256, ES256 or "
    "EdDSA, whose aud is the issuer only, as a string"
)
_NO_DEVICES: Final = "The security profile fapi2 of this application does not support device codes"


def require_pushed(request: AuthorizationRequest, registered: Registered) -> None:
    """Also for a request that began before the service had its profile. Raises `AuthorizationRefused`."""
    if not registered.holds_fapi2:
        return
    for missing, description in ((request.pushed is None, PUSHED_ALONE), (request.code_challenge is None, PKCE_ALONE)):
        if missing:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, description, recorded_as=RefusalReason.PROFILE)


def assertions_alone(detail: str | None) -> Unauthorized:
    """The refusal of any other credential, and of an assertion that does not fit."""
    refusal = Unauthorized(_ASSERTIONS_ALONE, detail=detail)
    refusal.recorded_as = RefusalReason.PROFILE
    return refusal


def no_devices() -> UnauthorizedClient:
    refusal = UnauthorizedClient(_NO_DEVICES)
    refusal.recorded_as = RefusalReason.PROFILE
    return refusal
