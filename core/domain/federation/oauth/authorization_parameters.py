"""Parses and validates the parameters of authorization requests (RFC 6749, OpenID Connect Core 3.1.2, RFC 7636, RFC 9126)."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from typing import Final

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorizations import (
    ASKED_MODES,
    PKCE_ALONE,
    AuthorizationErrorCode,
    AuthorizationPrompt,
    AuthorizationRefused,
    AuthorizationRequest,
    Recipient,
    Registered,
    ResponseMode,
    UnknownRecipient,
    is_registered,
    stored,
    unknown_application,
    unregistered,
)
from core.domain.federation.oauth.oidc import NO_CLAIMS, RequestedClaims, requested_claims
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.federation.oauth.resources import (
    EMAIL,
    LONGEST_RESOURCE,
    MOST_RESOURCES,
    OPENID,
    PROFILE,
    PROVIDER_TOKEN,
    TOO_MANY,
    UNKNOWN_RESOURCE,
    foreign_scopes,
    known,
)
from core.domain.federation.signal_grants import signals_asked
from core.domain.formats import Json
from core.domain.identifiers import ClientId
from core.domain.key_proofs import KeyThumbprint, is_thumbprint
from core.domain.services.clients import describes_itself, read_client_id
from core.domain.services.resource_servers import SIGNAL_SCOPES
from core.frozen import Frozen

LONGEST: Final = 2000
"""The limit of most parameters. They come in an address, and some go back in one."""
LONGEST_HINT: Final = 8192
NOT_OUR_HINT: Final = "id_token_hint: it is not an ID token that this application got here"
_LONGEST_LOGIN_HINT: Final = 320
_LONGEST_OBJECT: Final = 8000
_MOST_LOCALES: Final = 20
_MOST_ACR_VALUES: Final = 20
# Ten digits are three hundred years in seconds.
_SECONDS: Final = re.compile(r"[0-9]{1,10}")
# The characters of `state`, and in OpenID Connect of `nonce` (RFC 6749 appendix A).
_VISIBLE: Final = re.compile(r"[\x20-\x7e]*")
# RFC 6749 section 3.3.
_SCOPES: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: +[\x21\x23-\x5b\x5d-\x7e]+)*")
# SHA-256 in base64url without padding (RFC 7636 section 4.2).
_S256: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_LOCALE: Final = re.compile(r"[A-Za-z0-9]{1,8}(?:-[A-Za-z0-9]{1,8}){0,8}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
PUSHED: Final = "urn:ietf:params:oauth:request_uri:"
"""The prefix of the `request_uri` of a pushed request (RFC 9126 section 2.2)."""

_OURS: Final = frozenset(
    {
        "acr_values",
        "claims",
        "client_id",
        "code_challenge",
        "code_challenge_method",
        "dpop_jkt",
        "id_token_hint",
        "login_hint",
        "max_age",
        "nonce",
        "prompt",
        "redirect_uri",
        "registration",
        "request",
        "request_uri",
        "response_mode",
        "response_type",
        "scope",
        "state",
        "ui_locales",
    }
)


class Parameters:
    """The parameters of a request. A parameter without a value counts as left out (RFC 6749 section 3.1)."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        self.repeated: set[str] = set()
        self.resources: list[str] = []
        """The only parameter that a request may have more than once (RFC 8707 section 2)."""
        for name, value in pairs:
            if name == "resource":
                self.resources += [value] if value else []
            if name not in _OURS:
                continue
            if name in self._values:
                self.repeated.add(name)
            else:
                self._values[name] = value

    def get(self, name: str) -> str | None:
        """The value of a parameter. None when the request has it more than once: then nobody knows which value is meant."""
        return None if name in self.repeated else self._values.get(name) or None

    def __contains__(self, name: str) -> bool:
        return bool(self._values.get(name)) or name in self.repeated


def client_of(parameters: Parameters) -> ClientId:
    """The client as the request names it; for a metadata client, the address of its document, which nobody has checked. Raises
    `UnknownRecipient`.
    """
    named = parameters.get("client_id") or ""
    client = ClientId(named) if describes_itself(named) else read_client_id(named)
    if client is None:
        raise unknown_application()
    return client


def pushed(parameters: Parameters) -> str | None:
    """The secret part of a `request_uri` that names a pushed request. None when the parameters are the request themselves."""
    uri = parameters.get("request_uri")
    return uri.removeprefix(PUSHED) if uri is not None and uri.startswith(PUSHED) else None


def recipient(parameters: Parameters, client: Registered) -> Recipient:
    """Returns the receiver of the response, whatever else may be wrong with the request. Raises `UnknownRecipient` for an unknown client
    and a wrong redirect URI, about which a page tells the user: responses go only to registered URIs. The application gets all other
    errors, at its redirect URI.
    """
    uri = parameters.get("redirect_uri")
    if uri is None:
        raise UnknownRecipient("redirect_uri: missing, or sent more than once", words="redirect_missing")
    if not is_registered(uri, client.redirect_uris, native=client.is_native):
        raise unregistered()
    mode, state = (
        parameters.get(name) if name in parameters else _said_by_object(parameters.get("request"), name)
        for name in ("response_mode", "state")
    )
    return Recipient(
        uri,
        ASKED_MODES.get(mode or "", ResponseMode.QUERY),
        state if state is not None and is_visible(state) else None,
    )


def _said_by_object(given: str | None, name: str) -> str | None:
    """The text that the claims of a request object have for this parameter, whoever signed them: a sender may say the same beside the
    object. Postern refuses objects, and the refusal goes where the application waits. None without an object, and for anything but a text.
    """
    parts = (given or "").split(".")
    if given is None or len(given) > _LONGEST_OBJECT or len(parts) != 3:
        return None
    try:
        claims = json.loads(urlsafe_b64decode(f"{parts[1]}=="))
    except (ValueError, RecursionError):
        return None
    said = claims.get(name) if isinstance(claims, dict) else None
    return said if isinstance(said, str) else None


def checked(parameters: Parameters, client: Registered, answers_to: Recipient) -> AuthorizationRequest:
    """Raises `AuthorizationRefused`."""
    _require_one_of_each(parameters)
    _require_no_objects(parameters)
    _require_code(parameters)
    scopes = _scopes(parameters)
    asked = _requested_claims(parameters, scopes)
    acr_values = tuple((_visible(parameters, "acr_values") or "").split()[:_MOST_ACR_VALUES])
    return AuthorizationRequest(
        client_id=client.client_id,
        recipient=answers_to,
        scopes=known((*scopes, *asked.scopes)),
        nonce=_visible(parameters, "nonce"),
        code_challenge=_code_challenge(parameters, client),
        prompts=_prompts(parameters),
        max_age=_max_age(parameters),
        login_hint=_login_hint(parameters),
        # An essential claim is stricter than the parameter, which only states a wish.
        acr_values=asked.acr_values or acr_values,
        ui_locales=locales(parameters.get("ui_locales")),
        subject=asked.subject,
        key=_key(parameters),
        resources=_resources(parameters),
        foreign_scopes=foreign_scopes((parameters.get("scope") or "").split()) if parameters.resources else (),
        signal_scopes=signals_asked((parameters.get("scope") or "").split()),
    )


def id_token_hint(parameters: Parameters) -> str | None:
    """An ID token that we are said to have issued, not verified yet. Raises `AuthorizationRefused`."""
    given = parameters.get("id_token_hint")
    if given is not None and (len(given) > LONGEST_HINT or not given.isascii()):
        raise _invalid(NOT_OUR_HINT)
    return given


def locales(given: str | None) -> tuple[str, ...]:
    """The languages in the order of preference. Words that are no language are ignored (OpenID Connect Core, section 3.1.2.1)."""
    return tuple(locale for locale in (given or "")[:LONGEST].split() if _LOCALE.fullmatch(locale))[:_MOST_LOCALES]


def _invalid(description: str) -> AuthorizationRefused:
    return AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, description)


def is_visible(value: str) -> bool:
    return len(value) <= LONGEST and _VISIBLE.fullmatch(value) is not None


def is_challenge(value: str) -> bool:
    """Whether the value can be a challenge of the method S256 (RFC 7636 section 4.2)."""
    return _S256.fullmatch(value) is not None


def _visible(parameters: Parameters, name: str) -> str | None:
    value = parameters.get(name)
    if value is not None and not is_visible(value):
        raise _invalid(f"{name}: at most {LONGEST} visible ASCII characters")
    return value


def _require_one_of_each(parameters: Parameters) -> None:
    """No parameter may be given twice (RFC 6749 section 3.1)."""
    for name in sorted(parameters.repeated):
        raise _invalid(f"{name}: send it only once")
    _visible(parameters, "state")


def _require_no_objects(parameters: Parameters) -> None:
    """Refuses requests in signed objects, by value or by reference (RFC 9101), and self-issued registration (OpenID
    Connect Core, section 7.2).
    """
    if "request" in parameters:
        raise AuthorizationRefused(AuthorizationErrorCode.REQUEST_NOT_SUPPORTED, "request: request objects are not supported")
    if "request_uri" in parameters:
        raise AuthorizationRefused(
            AuthorizationErrorCode.REQUEST_URI_NOT_SUPPORTED, "request_uri: push the request to the PAR endpoint (RFC 9126)"
        )
    if "registration" in parameters:
        raise AuthorizationRefused(AuthorizationErrorCode.REGISTRATION_NOT_SUPPORTED, "registration: it is not supported")


def _require_code(parameters: Parameters) -> None:
    response_type = parameters.get("response_type")
    if response_type is None:
        raise _invalid("response_type: it is missing")
    if response_type != "code":
        raise AuthorizationRefused(AuthorizationErrorCode.UNSUPPORTED_RESPONSE_TYPE, "response_type: must be code")
    mode = parameters.get("response_mode")
    if mode is not None and mode not in ASKED_MODES:
        raise _invalid("response_mode: must be query, fragment or form_post")
    if mode == "fragment" and "code_challenge" not in parameters:
        raise _invalid("response_mode: fragment requires code_challenge (PKCE), because every script of the page can read a fragment")


def _scopes(parameters: Parameters) -> tuple[str, ...]:
    given = parameters.get("scope")
    if given is None:
        # The server chooses what a request without scopes is for (RFC 6749 section 3.3): for nothing but to know who signed in.
        return ()
    if len(given) > LONGEST or not _SCOPES.fullmatch(given):
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_SCOPE, "scope: must be a list of scopes, separated by spaces")
    scopes = known(given.split())
    # Whether the two scopes of signals are known, the database says.
    if not scopes and not parameters.resources and SIGNAL_SCOPES.isdisjoint(given.split()):
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_SCOPE, "scope: none of these scopes exists")
    return scopes


def _resources(parameters: Parameters) -> tuple[str, ...]:
    """The identifiers, each once. Which APIs they name, and whether the application may ask for them, the database knows."""
    named = tuple(dict.fromkeys(parameters.resources))
    if len(named) > MOST_RESOURCES:
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_TARGET, TOO_MANY)
    if any(len(identifier) > LONGEST_RESOURCE for identifier in named):
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_TARGET, UNKNOWN_RESOURCE)
    return named


def _key(parameters: Parameters) -> KeyThumbprint | None:
    given = parameters.get("dpop_jkt")
    if given is None:
        return None
    if not is_thumbprint(given):
        raise _invalid("dpop_jkt: must be the SHA-256 thumbprint of a key in base64url (RFC 7638)")
    return KeyThumbprint(given)


def _requested_claims(parameters: Parameters, scopes: tuple[str, ...]) -> RequestedClaims:
    """Claims belong to OpenID Connect. Without the scope `openid` they must be well-formed, and ask for nothing."""
    asked = requested_claims(parameters.get("claims"))
    return asked if OPENID in scopes else NO_CLAIMS


def _code_challenge(parameters: Parameters, client: Registered) -> str | None:
    challenge = parameters.get("code_challenge")
    method = parameters.get("code_challenge_method")
    if challenge is None:
        if method is not None:
            raise _invalid("code_challenge: it is missing")
        if client.holds_fapi2:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, PKCE_ALONE, recorded_as=RefusalReason.PROFILE)
        if not client.authenticates:
            raise _invalid("code_challenge: an application without a client secret must use PKCE (RFC 7636)")
        return None
    if method != "S256":
        raise _invalid("code_challenge_method: must be S256")
    if not is_challenge(challenge):
        raise _invalid("code_challenge: must be a SHA-256 in base64url without padding")
    return challenge


def _prompts(parameters: Parameters) -> frozenset[AuthorizationPrompt]:
    given = (parameters.get("prompt") or "").split()
    if not frozenset(AuthorizationPrompt).issuperset(given):
        raise _invalid("prompt: must be none, or some of login, consent, select_account and create")
    prompts = frozenset(map(AuthorizationPrompt, given))
    if AuthorizationPrompt.NONE in prompts and len(prompts) > 1:
        raise _invalid("prompt: none cannot be combined with another value")
    if AuthorizationPrompt.CREATE in prompts and prompts & {AuthorizationPrompt.LOGIN, AuthorizationPrompt.SELECT_ACCOUNT}:
        raise _invalid("prompt: create cannot be combined with login or select_account")
    return prompts


def _max_age(parameters: Parameters) -> int | None:
    given = parameters.get("max_age")
    if given is None:
        return None
    if not _SECONDS.fullmatch(given):
        raise _invalid("max_age: must be a number of seconds")
    return int(given)


def _login_hint(parameters: Parameters) -> str | None:
    """The hint only fills in a field, so a hint that is no address is ignored."""
    given = parameters.get("login_hint")
    return None if given is None or len(given) > _LONGEST_LOGIN_HINT or _CONTROL.search(given) else given


THROUGH: Final = "through"
"""A member of the request that a flow stores: the provider that the request named, by its word, or by the id of an organization's own."""


class DirectRequest(Frozen, kw_only=True):
    """The parameters of a direct request: an application's own page sends a user straight to an identity provider (`GET /auth/{provider}`).
    It has fewer parameters than an authorization request; the registration of the application fills in the rest. A missing parameter is
    empty.
    """

    redirect_uri: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""


def checked_direct_request(asked: DirectRequest, registered: Registered) -> AuthorizationRequest:
    """Raises `UnknownRecipient` and `BadRequest`, which a page shows to the person."""
    uri = asked.redirect_uri or next(iter(registered.redirect_uris), "")
    if not uri:
        raise UnknownRecipient("redirect_uri: the service has registered none", words="redirect_missing")
    if not is_registered(uri, registered.redirect_uris, native=registered.is_native):
        raise unregistered()
    if asked.state and not is_visible(asked.state):
        raise BadRequest("state: visible ASCII characters only", words="not_as_declared")
    challenge = asked.code_challenge or None
    # The method may be left out, since there is only one. The token endpoint refuses a challenge of another method.
    methods = {"", "S256"} if challenge is not None else {""}
    if asked.code_challenge_method not in methods or (challenge is not None and not is_challenge(challenge)):
        raise BadRequest("code_challenge: a SHA-256 in base64url without padding, with code_challenge_method S256", words="not_as_declared")
    if challenge is None and registered.is_native:
        raise BadRequest("code_challenge: an application on people's devices must use PKCE (RFC 7636)", words="not_as_declared")
    in_code = challenge is not None or registered.authenticates
    return AuthorizationRequest(
        client_id=registered.client_id,
        recipient=Recipient(uri, ResponseMode.QUERY if in_code else ResponseMode.FRAGMENT, asked.state or None),
        # The request has no parameter for scopes. The person chooses an account at the provider for this very application, so its session
        # opens the provider's token, too.
        scopes=(OPENID, PROFILE, EMAIL, PROVIDER_TOKEN),
        code_challenge=challenge,
    )


def has_chosen(request: Mapping[str, Json], provider: str) -> bool:
    """Whether a sign-in through this provider counts as the person's choice: the flow's request named the same provider. `provider` is
    empty for a person who signed in otherwise.
    """
    return provider != "" and request.get(THROUGH) == provider


def kept(request: AuthorizationRequest, provider: str) -> Mapping[str, Json]:
    """The form that the flow stores."""
    return {**stored(request), THROUGH: provider}
