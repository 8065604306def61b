"""Caller rules: every endpoint declares one, which admits a request with its caller or refuses it."""

from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from core.domain.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    OrganizationNotActive,
    ReauthenticationRequired,
    Refusal,
    SecondFactorRequired,
    TermsRequired,
    TokenExpired,
    TokenInvalid,
    Unauthorized,
)
from core.domain.federation.oauth.refusals import InsufficientScope
from core.domain.federation.oauth.resources import OPENID
from core.domain.federation.scim.tokens import KIND, ScimHolder
from core.domain.federation.signals import SignalCaller
from core.domain.identifiers import OrganizationId, SessionId
from core.domain.identity.callers import Caller, CallerContext, Participation
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.api_keys import API_KEY_KIND as OF_SERVICE
from core.domain.services.api_keys import KeyHolder, Permission
from core.domain.services.user_keys import has_key_shape
from core.domain.tenancy.management_keys import CLOSED, OF_ORGANIZATION, OF_PLATFORM, OF_WORKLOAD, ManagementKeyHolder, PlatformCapability
from core.domain.tenancy.members import IN_A_SERVICE, Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.tenancy.callers import Witness
from entrypoints.bootstrap import Postern
from entrypoints.http.key_proofs import prove_key
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.limits import CLIENT as CLIENT_LIMIT
from entrypoints.http.machinery.limits import MANAGEMENT_KEYS, SCIM
from entrypoints.http.machinery.scim_recording import recording


class SecurityScheme(Frozen):
    """The way in which a caller authenticates, in OpenAPI's terms."""

    name: str
    definition: dict[str, Any]
    challenge: bytes = b"Bearer"
    """The `WWW-Authenticate` header of a 401 (RFC 9110 section 11.6.1)."""


class Leaving(Frozen):
    """A session that its holder wants to end, and the holder."""

    session: SessionId
    actor: Actor


@runtime_checkable
class CallerRule(Protocol):
    """A new kind of caller is a new class with these methods."""

    @property
    def name(self) -> str: ...
    @property
    def scheme(self) -> SecurityScheme | None:
        """None when the caller presents no credentials in the request's headers."""

    @property
    def refuses(self) -> tuple[type[Refusal], ...]: ...
    @property
    def reads(self) -> tuple[str, ...]:
        """The path parameters that the rule depends on."""

    def owes_limit(self, method: str) -> bool:
        """Whether a declaration with this rule must state its rate limits. True for endpoints without sign-in, endpoints where API keys
        write, and endpoints that make or give something lasting.
        """

    async def admit(self, request: Request, postern: Postern) -> Any:
        """The caller, of the type that the handler's `Call` names. None when the rule admits requests without a caller. Raises one of
        `refuses`.
        """


_KNOWN_RULES: Final[set[type]] = set()


def is_caller_rule(rule: object) -> bool:
    """Python looks for each member in each object, at each of a thousand declarations. So the first rule of a class answers for all."""
    if type(rule) not in _KNOWN_RULES and isinstance(rule, CallerRule):
        _KNOWN_RULES.add(type(rule))
    return type(rule) in _KNOWN_RULES


BEARER: Final = SecurityScheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})
BOUND: Final = SecurityScheme(
    "dpop",
    {
        "type": "http",
        "scheme": "dpop",
        "description": "A sender-constrained access token, with a DPoP proof for this request in the header `DPoP` (RFC 9449)."
        " Responses can have a `DPoP-Nonce` for the next proof.",
    },
    b"DPoP",
)
# Postern's access tokens are far shorter. A longer token is refused before the code hashes or parses the token.
_LONGEST_TOKEN = 8192
# Postern's API keys and SCIM tokens are far shorter. A longer one is refused before the code hashes it.
_LONGEST_KEY = 200
_API_KEYS: Final = f"{OF_SERVICE}_".encode()
_SCIM_TOKENS: Final = f"{KIND}_".encode()
WHILE_IMPERSONATING: Final = "This cannot be done while impersonating"
_KEY_TOKEN: Final = f"{OF_WORKLOAD}_"
_MANAGEMENT_KEYS: Final = (f"{OF_ORGANIZATION}_", f"{OF_PLATFORM}_", _KEY_TOKEN)
_MANAGEMENT_KEY_STARTS: Final = tuple(start.encode() for start in _MANAGEMENT_KEYS)
_OTHER_ORGANIZATION: Final = "This management key is not of this organization"
_OF_AN_APPLICATION: Final = "This is a user API key, not an access token. A user API key works at the application's own API only"
_LACKS: Final = (
    "This management API key cannot do this: it needs the capability {}, which its creator must still have until an owner adopts the key"
)
_NOT_FROM: Final = {
    CallerContext.PLATFORM: "This cannot be done with a token for the platform",
    CallerContext.ORGANIZATION: "This cannot be done with a token for an organization",
    CallerContext.SERVICE: IN_A_SERVICE,
}


class _Anyone:
    name = "anyone"
    scheme = None
    refuses: tuple[type[Refusal], ...] = ()
    reads: tuple[str, ...] = ()

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> None:
        """Admit every request."""


class AdmittedCaller(Frozen, kw_only=True):
    """For each rule about sessions, it names the kinds of session that pass, and states whether a platform owner may call in another user's
    name.

    The kinds of session that a rule lets in. No field has a default, so every rule has to decide about each kind.
    """

    contexts: frozenset[CallerContext]
    """The admitted contexts of sessions. The holder of a session of the context `SERVICE` is the service's application, which belongs to
    a tenant.
    """
    impersonated: bool
    """Whether a platform owner may call in the person's name."""
    participation: Participation
    """The person's necessary participation in the session's organization."""

    def require(self, caller: Caller) -> None:
        """Raises `Forbidden` for a kind of session that this rule does not admit."""
        if caller.impersonator is not None and not self.impersonated:
            raise Forbidden(WHILE_IMPERSONATING, words="impersonating")
        if caller.context not in self.contexts:
            raise Forbidden(_NOT_FROM[caller.context])


class SessionRule:
    """For holders of an active session of an admitted kind."""

    scheme = BEARER
    reads: tuple[str, ...] = ()

    def __init__(self, name: str, admitted: AdmittedCaller, *, platform_owner: bool) -> None:
        self.name = name
        self.admitted = admitted
        self.platform_owner = platform_owner
        # Only applications have tokens that are bound to keys.
        self.also_by = BOUND if CallerContext.SERVICE in admitted.contexts else None
        self.refuses = (*_refused_sessions(admitted), *((TermsRequired,) if platform_owner else ()))

    def owes_limit(self, _method: str) -> bool:
        return False

    async def admit(self, request: Request, postern: Postern) -> Caller:
        token = _persons_token(request) if self.also_by is None else await _any_token(request, postern)
        request.caller = caller = await postern.tenancy.callers.resolve(
            token, self.admitted.participation, witness_of(request, postern), key=request.shown_key
        )
        self.require(caller)
        return caller

    def require(self, caller: Caller) -> None:
        """Raises `Forbidden` for a caller whom this rule does not admit, and `TermsRequired`."""
        if self.platform_owner and not caller.is_platform_owner:
            raise Forbidden
        self.admitted.require(caller)
        if self.platform_owner and caller.owes_terms:
            raise TermsRequired


class MemberRule:
    """For members of the organization that the path names as `org_slug`: all of them, those whose role has a capability, or its owner. A
    session in another organization does not count here.
    """

    scheme = BEARER
    reads: tuple[str, ...] = ("org_slug",)

    def __init__(self, name: str, admitted: AdmittedCaller, *, capability: Capability | None, owner: bool) -> None:
        self.name = name
        self.admitted = admitted
        self.capability = capability
        self.owner = owner
        self.refuses = (*_refused_sessions(admitted), NotFound, ReauthenticationRequired, SecondFactorRequired, TermsRequired)

    def owes_limit(self, method: str) -> bool:
        """False for endpoints that make or give something lasting: keys, secrets, invitations, roles. Nobody may do this while
        impersonating.
        """
        return method != "GET" and not self.admitted.impersonated

    async def admit(self, request: Request, postern: Postern) -> Member:
        slug = request.path_values["org_slug"]
        member = await postern.tenancy.callers.resolve_member(
            _persons_token(request), slug, self.admitted.participation, witness_of(request, postern)
        )
        request.caller = member.caller
        self.require(member)
        return member

    def require(self, member: Member) -> None:
        """Raises `Forbidden` for a person whom this rule does not admit."""
        self.admitted.require(member.caller)
        if self.owner and not member.is_owner:
            raise Forbidden
        if self.capability is not None:
            member.require(self.capability)


class _Buyer:
    """For people who buy: members of the organization that the path names as `org_slug`, and users of the organization's service
    `service_slug` with a session in this service. Nobody buys in another person's name.
    """

    name = "buyer"
    scheme = BEARER
    also_by = BOUND
    reads: tuple[str, ...] = ("org_slug", "service_slug")

    def __init__(self, admitted: AdmittedCaller) -> None:
        self.admitted = admitted
        self.refuses = (*_refused_sessions(admitted), NotFound, ReauthenticationRequired)

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> Caller:
        organization, service = request.path_values["org_slug"], request.path_values["service_slug"]
        token, witness = await session_token(request, postern), witness_of(request, postern)
        key = request.shown_key
        if await postern.tenancy.callers.is_in_service(token, key):
            caller = await postern.tenancy.callers.resolve(token, self.admitted.participation, witness, key=key)
            request.caller = caller
            if (caller.organization, caller.service) != (organization, service):
                raise Forbidden("This token is for another service")
        else:
            member = await postern.tenancy.callers.resolve_member(token, organization, self.admitted.participation, witness)
            request.caller = caller = member.caller
        self.admitted.require(caller)
        return caller


class _Key:
    """Admits a service's own server that shows an API key with the permission."""

    # No registered authentication scheme uses a header of its own. So the challenge names a scheme `ApiKey` and the header, and no client
    # takes the scheme for Bearer.
    scheme = SecurityScheme(
        "api_key", {"type": "apiKey", "in": "header", "name": "X-Api-Key"}, b'ApiKey realm="service interface", header="X-Api-Key"'
    )
    refuses: tuple[type[Refusal], ...] = (Unauthorized, Forbidden, OrganizationNotActive)
    reads: tuple[str, ...] = ()

    def __init__(self, permission: Permission) -> None:
        self.name = permission.value
        self.permission = permission

    def owes_limit(self, method: str) -> bool:
        return method != "GET"

    async def admit(self, request: Request, postern: Postern) -> Any:
        holder = await postern.services.api_keys.resolve(_shown_key(request))
        admit_key(holder, self.permission, request)
        return holder


class _KeyByEitherHeader(_Key):
    """As `_Key`, for a protocol of others: its clients and gateways send a key as a bearer token."""

    scheme = SecurityScheme(_Key.scheme.name, _Key.scheme.definition, _Key.scheme.challenge + b', Bearer realm="service interface"')
    also_by = SecurityScheme(
        "api_key_as_bearer",
        {"type": "http", "scheme": "bearer", "description": "An API key of a service (`sk_…`), for clients that send no other header."},
    )
    refuses = (BadRequest, *_Key.refuses)

    async def admit(self, request: Request, postern: Postern) -> Any:
        header = request.header(b"authorization")
        if header is None:
            return await super().admit(request, postern)
        if request.header(b"x-api-key") is not None:
            raise BadRequest("Send the API key in X-Api-Key or in Authorization, and not in both")
        scheme, _, token = header.partition(b" ")
        token = token.strip()
        # Whatever else is a bearer token elsewhere opens nothing here, and is not looked for among the keys.
        if scheme.lower() != b"bearer" or not token.startswith(_API_KEYS) or not token.isascii() or len(token) > _LONGEST_KEY:
            raise Unauthorized
        holder = await postern.services.api_keys.resolve(Token(token.decode("ascii")))
        admit_key(holder, self.permission, request)
        return holder


class _KeyWithBody(_Key):
    """As `_Key`, where the handler looks the key up together with something from the body. So the rule returns the shown key."""

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, _postern: Postern) -> Token:
        return _shown_key(request)


def admit_key(holder: KeyHolder, permission: Permission, request: Request) -> None:
    """Notes who calls. Raises `Forbidden` for a key without the permission."""
    request.acting_key = holder.acting
    holder.require(permission)


def _shown_key(request: Request) -> Token:
    header = request.header(b"x-api-key")
    if header is None or not header.isascii() or not 0 < len(header) <= _LONGEST_KEY:
        raise Unauthorized
    return Token(header.decode("ascii"))


MANAGEMENT_KEY: Final = SecurityScheme(
    "management_key",
    {
        "type": "http",
        "scheme": "bearer",
        "description": "A management API key: `pto_…` of an organization, `ptp_…` of the platform, or `ptw_…`, which a workload"
        " received for a key of its organization. Each operation that accepts one lists the capability that the key"
        " needs.",
    },
)


class ManagementKeyRule(Frozen):
    """Admits a management key with these capabilities, beside the people whom the endpoint's caller rule admits."""

    capabilities: tuple[Capability, ...] = ()
    """Of a key of an organization. Empty when any key of the organization may call."""
    of_platform: PlatformCapability | None = None
    """Of a key of the platform. None when keys of organizations open the endpoint."""

    scheme: ClassVar[SecurityScheme] = MANAGEMENT_KEY
    refuses: ClassVar[tuple[type[Refusal], ...]] = (Unauthorized, Forbidden, OrganizationNotActive)

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the capabilities that the key needs."""
        return self.capabilities if self.of_platform is None else (self.of_platform,)

    async def admit(self, request: Request, postern: Postern) -> Member | ManagementKeyHolder:
        token = bearer_token(request)
        if token.startswith(_KEY_TOKEN):
            holder = await postern.tenancy.key_tokens.resolve(token)
        elif len(token) > _LONGEST_KEY:
            raise Unauthorized
        else:
            holder = await postern.tenancy.management_keys.resolve(Token(token))
        request.acting_key = holder.acting
        if request.limiter is not None:
            request.limiter.admit_client(MANAGEMENT_KEYS, str(holder.key))
        if self.of_platform is not None:
            if self.of_platform not in holder.platform_capabilities:
                raise Forbidden(_LACKS.format(self.of_platform))
            return holder
        # An organization that does not exist gets the same answer, so that a key finds no slugs out.
        if holder.organization is None or holder.organization_slug != request.path_values["org_slug"]:
            raise Forbidden(_OTHER_ORGANIZATION)
        for capability in self.capabilities:
            if capability not in holder.capabilities:
                raise Forbidden(_LACKS.format(capability))
        return Member(None, holder.organization, holder.organization_slug, True, "", holder.capabilities, holder)


def shows_management_key(request: Request) -> bool:
    header = request.header(b"authorization")
    return header is not None and header[:7].lower() == b"bearer " and header[7:].lstrip().startswith(_MANAGEMENT_KEY_STARTS)


class _Directory:
    """Admits a directory that shows a SCIM token of its organization. Postern stores the requests and answers, so that the organization's
    administrators can read them.
    """

    name = "scim"
    scheme = SecurityScheme("scim", {"type": "http", "scheme": "bearer", "description": "A SCIM token of the organization."})
    refuses: tuple[type[Refusal], ...] = (Unauthorized, OrganizationNotActive)
    reads: tuple[str, ...] = ()

    def owes_limit(self, method: str) -> bool:
        return method != "GET"

    async def admit(self, request: Request, postern: Postern) -> ScimHolder:
        scheme, _, token = (request.header(b"authorization") or b"").partition(b" ")
        token = token.strip()
        if scheme.lower() != b"bearer" or not token.startswith(_SCIM_TOKENS) or not token.isascii() or len(token) > _LONGEST_KEY:
            raise Unauthorized
        holder = await postern.federation.scim_tokens.resolve(Token(token.decode("ascii")))
        request.acting_key = holder.acting
        request.tell = recording(request, holder, postern)
        if request.limiter is not None:
            request.limiter.admit_client(SCIM, str(holder.token))
        return holder


class _Leaving:
    """Admits a caller who signs out of a session of any kind. The token must be signed by Postern and name the session. The session may
    have ended already, so that signing out twice is no error. The session's organization need not be active.
    """

    name = "leaving"
    scheme = BEARER
    also_by = BOUND
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)
    reads: tuple[str, ...] = ()

    def owes_limit(self, _method: str) -> bool:
        """True, since the rule also admits sessions that have ended."""
        return True

    async def admit(self, request: Request, postern: Postern) -> Leaving:
        token = await session_token(request, postern)
        session, user, impersonator = await postern.tenancy.callers.signed(token, request.shown_key)
        return Leaving(session, request.sender.actor(user, impersonator))


class _Client:
    """For applications that authenticate by the `Authorization` header or by the body. The body is read after the rule, so the handler
    authenticates the application (`entrypoints/http/machinery/clients.py`).
    """

    name = "client"
    scheme = SecurityScheme(
        "client",
        {
            "type": "http",
            "scheme": "basic",
            "description": "The client ID and a client secret of a service, each form-urlencoded (`client_secret_basic`). Without the"
            " header, the body authenticates the client: `client_id` with `client_secret` (`client_secret_post`),"
            " `client_assertion` (`private_key_jwt`), or, from a public client, `client_id` alone (`none`).",
        },
        b'Basic realm="clients", charset="UTF-8"',
    )
    refuses: tuple[type[Refusal], ...] = (Unauthorized, OrganizationNotActive)
    reads: tuple[str, ...] = ()
    also_in_body = True

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, _request: Request, _postern: Postern) -> None:
        """No request is refused before its body is read."""


class _SignalReceiver:
    """For an application with a token of its own, where an owner has turned signals on. Such a token opens nothing else here. And for one
    with the token of a session in which a person has granted scopes of signals.
    """

    name = "signal_receiver"
    scheme = SecurityScheme(
        "client_token",
        {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "An application's own access token, issued by `/oauth/token` with `grant_type=client_credentials`; or the"
            " token of a session in which a person who may manage integrations has granted `ssf.manage` or `ssf.read`.",
        },
    )
    also_by = BOUND
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid, Forbidden, InsufficientScope)
    reads: tuple[str, ...] = ()

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> SignalCaller:
        caller = await postern.federation.signal_streams.resolve(await _any_token(request, postern), request.shown_key)
        if request.limiter is not None:
            request.limiter.admit_client(CLIENT_LIMIT, str(caller.service))
        return caller


class _OpenId(SessionRule):
    """For applications with a session that a person opened for them, and the scope `openid`. The token may also come in a form (RFC 6750
    section 2.2), which is read after the rule. So the rule returns None when the header has no token, and the handler checks the form's
    token.
    """

    also_in_body = True

    def __init__(self) -> None:
        super().__init__("openid", _IN_PERSON_OF_APPLICATION, platform_owner=False)

    def owes_limit(self, _method: str) -> bool:
        return True

    async def admit(self, request: Request, postern: Postern) -> Any:
        if request.method == "POST" and request.header(b"authorization") is None:
            return None
        return await self.resolve(await session_token(request, postern), request, postern)

    async def resolve(self, token: str, request: Request, postern: Postern) -> Caller:
        request.caller = caller = await postern.tenancy.callers.resolve(
            token, self.admitted.participation, witness_of(request, postern), for_userinfo=True, key=request.shown_key
        )
        if OPENID not in (caller.scopes or ()):
            raise InsufficientScope(OPENID)
        self.admitted.require(caller)
        return caller


class _Preauthenticated:
    """For a person who has given a password and still owes a second factor. The token may also come in the body, which is read after the
    rule. So the rule returns None when the header has no token, and the handler checks the body's token.
    """

    name = "preauthenticated"
    scheme = SecurityScheme(
        "preauth",
        {"type": "http", "scheme": "bearer", "description": "The pre-auth token from the response to a sign-in that requires MFA."},
    )
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)
    reads: tuple[str, ...] = ()
    also_in_body = True

    def owes_limit(self, _method: str) -> bool:
        """True, since the rule admits requests without a token in the header."""
        return True

    async def admit(self, request: Request, postern: Postern) -> Token | None:
        if request.header(b"authorization") is None:
            return None
        token = Token(bearer_token(request))
        await postern.identity.sign_in.preauthenticated(token)
        return token


def witness_of(request: Request, postern: Postern) -> Witness:
    """A function that records a request in another person's name, in the audit log of the request's organization."""

    async def witness(caller: Caller, organization: OrganizationId | None) -> None:
        request.caller = caller
        await postern.identity.impersonations.witness(caller, request.method, request.path, request.actor, organization)

    return witness


async def session_token(request: Request, postern: Postern) -> str:
    """The access token of a session: as `bearer_token`, or one that is bound to a key, with the scheme `DPoP` and a proof of the key, which
    `request.shown_key` names from then on (RFC 9449 section 7.1).
    """
    if not _is_bound(request):
        return bearer_token(request)
    token = _token_of(request, b"dpop")
    await prove_key(request, postern, token)
    return token


def _is_bound(request: Request) -> bool:
    header = request.header(b"authorization")
    return header is not None and header[:5].lower() == b"dpop "


def bearer_token(request: Request) -> str:
    return _token_of(request, b"bearer")


def _token_of(request: Request, needed: bytes) -> str:
    header = request.header(b"authorization")
    if header is None:
        raise Unauthorized
    scheme, _, token = header.partition(b" ")
    if scheme.lower() != needed:
        raise Unauthorized
    token = token.strip()
    if not token.isascii() or not 0 < len(token) <= _LONGEST_TOKEN:
        raise TokenInvalid
    return token.decode("ascii")


async def _any_token(request: Request, postern: Postern) -> str:
    """As `_persons_token`, also for an application's token that is bound to a key."""
    return await session_token(request, postern) if _is_bound(request) else _persons_token(request)


def _persons_token(request: Request) -> str:
    """The bearer token of an endpoint that management keys do not open. Raises `Forbidden` for a key, good or bad."""
    token = bearer_token(request)
    if token.startswith(_MANAGEMENT_KEYS):
        raise Forbidden(CLOSED)
    if "." not in token and has_key_shape(token):
        raise TokenInvalid(_OF_AN_APPLICATION)
    return token


def _refused_sessions(admitted: AdmittedCaller) -> tuple[type[Refusal], ...]:
    inactive: tuple[type[Refusal], ...] = (OrganizationNotActive,) if admitted.participation is Participation.ACTIVE else ()
    in_service: tuple[type[Refusal], ...] = (SecondFactorRequired, TermsRequired) if CallerContext.SERVICE in admitted.contexts else ()
    return (Unauthorized, TokenExpired, TokenInvalid, Forbidden, *inactive, *in_service)


_EVERYWHERE: Final = frozenset(CallerContext)
_OWN_ACCOUNT: Final = frozenset({CallerContext.PLATFORM, CallerContext.ORGANIZATION})

# Also for applications, with the session that a person opened for the application: applications read the person's profile and the person's
# use of the service.
_ANY_SESSION: Final = AdmittedCaller(contexts=_EVERYWHERE, impersonated=True, participation=Participation.ACTIVE)
# As `_ANY_SESSION`, but without impersonation. For the means by which the person signs in, and for applications that act for the person.
_ANY_SESSION_IN_PERSON: Final = AdmittedCaller(contexts=_EVERYWHERE, impersonated=False, participation=Participation.ACTIVE)
_ANY_SESSION_OF_INACTIVE: Final = AdmittedCaller(contexts=_EVERYWHERE, impersonated=True, participation=Participation.MEMBER)
# Not for applications: with the person's token, an application could change the account's e-mail address to an address of its own, or run
# the person's organization.
_WITHOUT_SERVICES: Final = AdmittedCaller(contexts=_OWN_ACCOUNT, impersonated=True, participation=Participation.ACTIVE)
_WITHOUT_SERVICES_OF_INACTIVE: Final = AdmittedCaller(contexts=_OWN_ACCOUNT, impersonated=True, participation=Participation.MEMBER)
# Neither for applications nor for a platform owner in the person's name: for private matters, and for changes that would outlast the hour
# of an impersonation.
_IN_PERSON: Final = AdmittedCaller(contexts=_OWN_ACCOUNT, impersonated=False, participation=Participation.ACTIVE)
_IN_PERSON_OF_INACTIVE: Final = AdmittedCaller(contexts=_OWN_ACCOUNT, impersonated=False, participation=Participation.MEMBER)
# For any session, also an application's, without impersonation.
_IN_PERSON_ANYWHERE: Final = AdmittedCaller(contexts=_EVERYWHERE, impersonated=False, participation=Participation.ACTIVE)
# Only for applications, without impersonation.
_IN_PERSON_OF_APPLICATION: Final = AdmittedCaller(
    contexts=frozenset({CallerContext.SERVICE}), impersonated=False, participation=Participation.ACTIVE
)

ANYONE: Final[CallerRule] = _Anyone()
CLIENT: Final[CallerRule] = _Client()
OPENID_SESSION: Final = _OpenId()
SIGNAL_RECEIVER: Final[CallerRule] = _SignalReceiver()
LEAVING: Final[CallerRule] = _Leaving()
DIRECTORY: Final[CallerRule] = _Directory()
PREAUTHENTICATED: Final[CallerRule] = _Preauthenticated()

# "Of inactive" in a name: the organization of the session, or of the path, may be suspended or still pending.
USER: Final[CallerRule] = SessionRule("user", _ANY_SESSION, platform_owner=False)
USER_IN_PERSON: Final[CallerRule] = SessionRule("user_in_person", _ANY_SESSION_IN_PERSON, platform_owner=False)
USER_OF_INACTIVE: Final[CallerRule] = SessionRule("user_of_inactive", _ANY_SESSION_OF_INACTIVE, platform_owner=False)
OWN_USER: Final[CallerRule] = SessionRule("own_user", _IN_PERSON, platform_owner=False)
PERSON: Final[CallerRule] = SessionRule("person", _WITHOUT_SERVICES_OF_INACTIVE, platform_owner=False)
OWN_PERSON: Final[CallerRule] = SessionRule("own_person", _IN_PERSON_OF_INACTIVE, platform_owner=False)
PLATFORM_OWNER: Final[CallerRule] = SessionRule("platform_owner", _IN_PERSON, platform_owner=True)

BUYER: Final[CallerRule] = _Buyer(_IN_PERSON_ANYWHERE)
MEMBER: Final[CallerRule] = MemberRule("member", _WITHOUT_SERVICES, capability=None, owner=False)
MEMBER_IN_PERSON: Final[CallerRule] = MemberRule("member_in_person", _IN_PERSON, capability=None, owner=False)
MEMBER_OF_INACTIVE: Final[CallerRule] = MemberRule("member_of_inactive", _WITHOUT_SERVICES_OF_INACTIVE, capability=None, owner=False)
OWNER_IN_PERSON: Final[CallerRule] = MemberRule("owner_in_person", _IN_PERSON, capability=None, owner=True)
OWNER_IN_PERSON_OF_INACTIVE: Final[CallerRule] = MemberRule(
    "owner_in_person_of_inactive", _IN_PERSON_OF_INACTIVE, capability=None, owner=True
)
_ABLE: Final[dict[tuple[Capability, bool], CallerRule]] = {
    **{(one, True): MemberRule(one.value, _WITHOUT_SERVICES, capability=one, owner=False) for one in Capability},
    **{(one, False): MemberRule(f"{one.value}_in_person", _IN_PERSON, capability=one, owner=False) for one in Capability},
}
_KEYS: Final[dict[Permission, CallerRule]] = {permission: _Key(permission) for permission in Permission}
_KEYS_BY_EITHER_HEADER: Final[dict[Permission, CallerRule]] = {permission: _KeyByEitherHeader(permission) for permission in Permission}
_KEYS_WITH_BODY: Final[dict[Permission, CallerRule]] = {permission: _KeyWithBody(permission) for permission in Permission}


def key(permission: Permission) -> CallerRule:
    """The rule for servers of a service whose API key has this permission, in an active organization."""
    return _KEYS[permission]


def key_by_either_header(permission: Permission) -> CallerRule:
    """As `key`, where the key may also come as a bearer token."""
    return _KEYS_BY_EITHER_HEADER[permission]


def key_with_body(permission: Permission) -> CallerRule:
    """As `key`, for an endpoint whose handler looks the key up itself, with something from the body, and calls `admit_key`."""
    return _KEYS_WITH_BODY[permission]


def able(capability: Capability, *, impersonated: bool) -> CallerRule:
    """The rule for members whose role has this capability, in an active organization. `impersonated` is False for endpoints that make a
    credential or give somebody more rights, since credentials and rights outlast an impersonation.
    """
    return _ABLE[capability, impersonated]


def takes_members(rule: CallerRule) -> bool:
    """Whether the rule admits members whatever their role, or by a capability. The owner is a person, so such a rule admits no key."""
    return isinstance(rule, MemberRule) and not rule.owner


def capability_of(rule: CallerRule) -> Capability | None:
    """The capability that the rule demands of members. None for another rule."""
    return rule.capability if isinstance(rule, MemberRule) else None
