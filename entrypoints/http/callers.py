"""Who may call. A rule lets a request in as somebody or refuses it; every endpoint declares one.

A further kind of caller (a SCIM token) is one more object of this shape.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from core.domain.api_keys import KeyHolder, Permission
from core.domain.errors import Forbidden, NotFound, OrganizationNotActive, Refusal, TokenExpired, TokenInvalid, Unauthorized
from core.domain.events import Actor
from core.domain.identifiers import OrganizationId, SessionId
from core.domain.members import IN_A_SERVICE, Member
from core.domain.roles import Capability
from core.domain.secrets import Token
from core.domain.sessions import Caller, Participation
from core.usecases.callers import Witness
from entrypoints.http.calls import Request, RequestServices


@dataclass(frozen=True, slots=True)
class SecurityScheme:
    """How OpenAPI says it."""

    name: str
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Leaving:
    """A session that its holder wants to end, and who that is."""

    session: SessionId
    actor: Actor


@runtime_checkable
class CallerRule(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def scheme(self) -> SecurityScheme | None:
        """None: nothing has to be presented."""

    @property
    def refuses(self) -> tuple[type[Refusal], ...]: ...
    @property
    def reads(self) -> tuple[str, ...]:
        """The path parameters that decide."""

    async def admit(self, request: Request, services: RequestServices) -> Any:
        """Whoever calls, as the type that the handler's `Call` names; None when the rule asks for nobody. Raises one of `refuses`."""


BEARER: Final = SecurityScheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})
# An access token of ours is well below; beyond it nothing is worth hashing or parsing.
_LONGEST_TOKEN = 8192
# Likewise.
_LONGEST_KEY = 200
WHILE_IMPERSONATING: Final = "This cannot be done while impersonating"


class _Anyone:
    name = "anyone"
    scheme = None
    refuses: tuple[type[Refusal], ...] = ()
    reads: tuple[str, ...] = ()

    async def admit(self, request: Request, services: RequestServices) -> None:
        """Nobody is asked."""


class _User:
    name = "user"
    scheme = BEARER
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid, Forbidden, OrganizationNotActive)
    reads: tuple[str, ...] = ()
    participation = Participation.ACTIVE

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        request.caller = caller = await services.callers.resolve(bearer_token(request), self.participation, _witness(request, services))
        return caller


class _UserOfInactive(_User):
    """For what members may still see of an organization that is suspended or pending."""

    name = "user_of_inactive"
    refuses = tuple(refusal for refusal in _User.refuses if refusal is not OrganizationNotActive)
    participation = Participation.MEMBER


class _OwnUser(_User):
    """For what only the person may do: whoever acts in their name is refused, and so is an application that they are signed in to. With the
    token that it holds it could move the account to an address of its own.
    """

    name = "own_user"

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if caller.impersonator is not None:
            raise Forbidden(WHILE_IMPERSONATING)
        if caller.service:
            raise Forbidden(IN_A_SERVICE)
        return caller


class _PlatformOwner(_User):
    name = "platform_owner"

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if not caller.is_platform_owner:
            raise Forbidden
        if caller.service:
            # An application of some tenant's holds this token.
            raise Forbidden("A token for a service does not govern the platform")
        return caller


class _Person(_User):
    """For what people do for themselves and not through a service that they are signed in to: an application that holds a person's token
    for itself must not get further with it. Their own organization may be suspended or still pending.
    """

    name = "person"
    refuses = tuple(refusal for refusal in _User.refuses if refusal is not OrganizationNotActive)
    participation = Participation.MEMBER

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if caller.service:
            raise Forbidden(IN_A_SERVICE)
        return caller


class _OwnPerson(_Person):
    """The same, and nobody acts in their name: for what opens a further session."""

    name = "own_person"

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if caller.impersonator is not None:
            raise Forbidden(WHILE_IMPERSONATING)
        return caller


class _Member:
    """For members of the organization that the path names, as `org_slug`: all of them, those whose role has a capability, or its owner. A
    token for another organization, or for a service, is no token for this one.
    """

    scheme = BEARER
    reads: tuple[str, ...] = ("org_slug",)

    def __init__(
        self,
        name: str,
        *,
        capability: Capability | None = None,
        owner: bool = False,
        participation: Participation = Participation.ACTIVE,
    ) -> None:
        self.name = name
        self.capability = capability
        self.owner = owner
        self.participation = participation
        inactive: tuple[type[Refusal], ...] = (OrganizationNotActive,) if participation is Participation.ACTIVE else ()
        self.refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid, Forbidden, *inactive, NotFound)

    async def admit(self, request: Request, services: RequestServices) -> Member:
        slug = request.path_values["org_slug"]
        member = await services.callers.resolve_member(bearer_token(request), slug, self.participation, _witness(request, services))
        request.caller = member.caller
        if self.owner and not member.is_owner:
            raise Forbidden
        if self.capability is not None:
            member.require(self.capability)
        return member


class _Key:
    """For a service's own servers, with an API key that permits it."""

    scheme = SecurityScheme("api_key", {"type": "apiKey", "in": "header", "name": "X-Api-Key"})
    refuses: tuple[type[Refusal], ...] = (Unauthorized, Forbidden, OrganizationNotActive)
    reads: tuple[str, ...] = ()

    def __init__(self, permission: Permission) -> None:
        self.name = permission.value
        self.permission = permission

    async def admit(self, request: Request, services: RequestServices) -> KeyHolder:
        header = request.header(b"x-api-key")
        if header is None or not header.isascii() or not 0 < len(header) <= _LONGEST_KEY:
            raise Unauthorized
        holder = await services.api_keys.resolve(Token(header.decode("ascii")))
        holder.require(self.permission)
        return holder


class _Leaving:
    """For who wants to end a session: the token must be one of ours and name it, but the session may have ended already, so that saying it
    twice is no error, and its organization does not matter.
    """

    name = "leaving"
    scheme = BEARER
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)
    reads: tuple[str, ...] = ()

    async def admit(self, request: Request, services: RequestServices) -> Leaving:
        session, user, impersonator = await services.callers.signed(bearer_token(request))
        return Leaving(session, request.client.actor(user, impersonator))


class _Preauthenticated:
    """For who has shown a password and owes a second factor. The token may also come in the body, which is read later: then the handler
    passes that one on. None: there is none in the header.
    """

    name = "preauthenticated"
    scheme = SecurityScheme(
        "preauth", {"type": "http", "scheme": "bearer", "description": "The pre-auth token that signing in answers with."}
    )
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)
    reads: tuple[str, ...] = ()

    async def admit(self, request: Request, services: RequestServices) -> Token | None:
        if request.header(b"authorization") is None:
            return None
        token = Token(bearer_token(request))
        await services.sign_in.require_preauthentication(token)
        return token


def _witness(request: Request, services: RequestServices) -> Witness:
    """Puts the request on record, in the log of the organization that it is about."""

    async def witness(caller: Caller, organization: OrganizationId | None) -> None:
        request.caller = caller
        await services.impersonations.witness(caller, request.method, request.path, request.actor, organization)

    return witness


def bearer_token(request: Request) -> str:
    header = request.header(b"authorization")
    if header is None:
        raise Unauthorized
    scheme, _, token = header.partition(b" ")
    if scheme.lower() != b"bearer":
        raise Unauthorized
    token = token.strip()
    if not token.isascii() or not 0 < len(token) <= _LONGEST_TOKEN:
        raise TokenInvalid
    return token.decode("ascii")


ANYONE: Final[CallerRule] = _Anyone()
USER: Final[CallerRule] = _User()
USER_OF_INACTIVE: Final[CallerRule] = _UserOfInactive()
LEAVING: Final[CallerRule] = _Leaving()
PREAUTHENTICATED: Final[CallerRule] = _Preauthenticated()
OWN_USER: Final[CallerRule] = _OwnUser()
PLATFORM_OWNER: Final[CallerRule] = _PlatformOwner()
PERSON: Final[CallerRule] = _Person()
OWN_PERSON: Final[CallerRule] = _OwnPerson()
MEMBER: Final[CallerRule] = _Member("member")
MEMBER_OF_INACTIVE: Final[CallerRule] = _Member("member_of_inactive", participation=Participation.MEMBER)
OWNER: Final[CallerRule] = _Member("owner", owner=True)
OWNER_OF_INACTIVE: Final[CallerRule] = _Member("owner_of_inactive", owner=True, participation=Participation.MEMBER)
_ABLE: Final[dict[Capability, CallerRule]] = {capability: _Member(capability.value, capability=capability) for capability in Capability}
_KEYS: Final[dict[Permission, CallerRule]] = {permission: _Key(permission) for permission in Permission}


def key(permission: Permission) -> CallerRule:
    """Servers of a service whose API key has this permission, in an active organization."""
    return _KEYS[permission]


def able(capability: Capability) -> CallerRule:
    """Members whose role has this capability, in an active organization."""
    return _ABLE[capability]
