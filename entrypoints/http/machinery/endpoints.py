"""Endpoint declarations. A declaration states method, path, caller rule, limits, types and refusals. Everything else about a route follows
from its declaration: validation, authorization, the OpenAPI document, and the tests that call every route as every kind of caller.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType, UnionType
from typing import Any, Final, Required, TypedDict, Union, get_args, get_origin

import msgspec
from typing_extensions import Unpack

from core.domain.errors import BadRequest, NotFound, PayloadTooLarge, RateLimited, ReauthenticationRequired, Refusal, UnsupportedMediaType
from core.domain.identity.proofs import StepUp
from core.domain.languages import Language
from core.domain.rate_limits import RateLimit
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from entrypoints.http.machinery.accepts import Accepts, Json
from entrypoints.http.machinery.answers import LOCATION, NO_STORE, Answer, AnswerHeader, Origins, PagePolicy, RequestHeader, Streamed
from entrypoints.http.machinery.browsers import BindsForms, BoundForm
from entrypoints.http.machinery.callers import (
    PLATFORM_OWNER,
    CallerRule,
    ManagementKeyRule,
    SecurityScheme,
    capability_of,
    is_caller_rule,
    takes_members,
)
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import OURS, STATUS, ErrorShape

Handler = Callable[[Any, Any], Any]

_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~-]+|\{[a-z_]+\}")
_PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")
_VERB: Final = re.compile(r"[a-z][a-z-]* [a-z][a-z-]*")
_WITHOUT_BODY = {"GET"}
# What these open is for people with a fresh proof, and for keys that somebody with a fresh proof has given the capability.
_IN_PLACE_OF_A_PROOF: Final = (Capability.CONNECTIONS_MANAGE, PlatformCapability.PEOPLE_MANAGE)
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class InvalidDeclaration(Exception):
    """The declaration of a route is wrong. Postern does not start."""


class Statement(TypedDict, total=False):
    """The parts of a declaration besides method and path."""

    caller: Required[CallerRule]
    keys: bool | Capability | PlatformCapability
    """Opens the endpoint to management keys. True takes a key with the capability of the caller rule, or any key of the organization if the
    rule names no capability. A `Capability` is needed besides that of the rule. A `PlatformCapability` opens an endpoint of platform owners
    to keys of the platform. Where people need a fresh proof, only `CONNECTIONS_MANAGE` and `PEOPLE_MANAGE` open to keys. The handler of
    such an endpoint takes the caller for a person nowhere: `Member.person` is None for a key, and `Member.responsible` answers for the key.
    """
    step_up: StepUp
    """The reason why the endpoint needs a fresh proof: the person of the calling session must have proved their identity lately."""
    limit: RateLimit | tuple[RateLimit, ...]
    """All rate limits of the endpoint. If the caller rule demands a limit, the declaration must have `limit`, if only as `UNLIMITED`."""
    counts: tuple[RateLimit, ...]
    """The limits that the handler itself applies, because the limit depends on the caller or on the outcome."""
    attempt: RateLimit
    """A limit of failures: a successful request gives its token back. Simultaneous requests of one client wait for their turn."""
    refuses: tuple[type[Refusal], ...]
    """The refusals of the use case. `Endpoint.refusals` adds the refusals of the caller rule, the limits and the decoding."""
    status: int
    summary: str
    """Defaults to the first line of the handler's docstring; the rest of the docstring is the description."""
    tags: tuple[str, ...]
    """The chapter of the endpoint in the API's description. An endpoint without a tag is not part of the API, and not described."""
    cache: str
    """The Cache-Control of a successful answer; `no-store` by default."""
    produces: str
    """The media type when the handler answers with bytes."""
    also: Mapping[int, Any]
    """Other statuses of answers that are not errors, with their types."""
    reads: tuple[RequestHeader, ...]
    """The headers that the handler reads."""
    sends: Mapping[int, tuple[AnswerHeader, ...]]
    """The headers that an answer has besides the common headers, by the answer's status. Redirects have `Location` without a declaration.
    """
    may_present: SecurityScheme
    """A credential that the operator can require at an endpoint whose rule requires none."""
    accepts: Accepts
    """The kind of body, and the limit of its size; JSON by default, with known fields alone where our own PATCH endpoints change something.
    """
    errors: ErrorShape
    """The shape of error answers; `OURS` by default."""
    origins: Origins
    """The origins whose pages may read the answer in a browser, besides the origins that the operator lists."""
    quiet: bool
    """For probes and scrapes, which Postern logs at debug level, and answers even while the process is overloaded."""
    translated: bool
    """For a page in the language of its reader. The answer has the headers `Content-Language` and `Vary`."""
    speaks: tuple[Language, ...]
    """The languages of a page, the first one first; none: all of ours."""
    foreign: bool
    """For a page whose form other sites send, because a protocol requires this. The page must change nothing."""
    verb: str
    """The noun and the verb of the command line, such as `member remove`, where method and path do not say them well. Empty for an endpoint
    that is no command. By default, `entrypoints/cli/verbs/deriving.py` derives them.
    """


class Endpoint(Frozen, kw_only=True):
    method: str
    path: str
    caller: CallerRule
    keys: ManagementKeyRule | None
    """The rule for management keys. None for an endpoint that is closed to them."""
    step_up: StepUp | None
    handler: Handler
    limits: tuple[RateLimit, ...]
    counts: tuple[RateLimit, ...]
    attempt: RateLimit | None
    stated_refusals: tuple[type[Refusal], ...]
    status: int
    summary: str
    description: str
    tags: tuple[str, ...]
    cache: str
    produces: str
    also: Mapping[int, Any]
    reads: tuple[RequestHeader, ...]
    sends: Mapping[int, tuple[AnswerHeader, ...]]
    may_present: SecurityScheme | None
    accepts: Accepts
    errors: ErrorShape
    policy: PagePolicy | None
    """The policy of a page. None when the answers are for programs."""
    origins: Origins
    quiet: bool
    translated: bool
    speaks: tuple[Language, ...]
    foreign: bool
    verb: str | None
    body_type: Any
    query_type: type[msgspec.Struct] | None
    path_type: type[msgspec.Struct] | None
    answer_type: Any

    @property
    def waits(self) -> bool:
        """Whether the handler is asynchronous. A handler that waits for nothing is a plain function, and needs no deadline."""
        return inspect.iscoroutinefunction(self.handler)

    @property
    def refusals(self) -> tuple[type[Refusal], ...]:
        """All refusals that a caller may get, sorted by status, code and name."""
        refusals = {*self.caller.refuses, *self.stated_refusals}
        if self.keys is not None:
            refusals |= {*self.keys.refuses, RateLimited}
        if self.step_up is not None:
            refusals.add(ReauthenticationRequired)
        if self.limits or self.counts or self.attempt is not None:
            refusals.add(RateLimited)
        if self.query_type is not None or self.body_type is not None:
            refusals.add(BadRequest)
        if self.body_type is not None:
            refusals |= {PayloadTooLarge, UnsupportedMediaType}
        if self.path_type is not None:
            refusals.add(NotFound)
        return tuple(sorted(refusals, key=lambda refusal: (STATUS[refusal.code], refusal.code, refusal.__name__)))

    @property
    def is_page(self) -> bool:
        return self.policy is not None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Declare:
    """`@endpoint.get("/api/user", caller=USER)` turns the handler below into an `Endpoint`."""

    def get(self, path: str, **stated: Unpack[Statement]) -> Callable[[Handler], Endpoint]:
        return declare("GET", path, stated)

    def post(self, path: str, **stated: Unpack[Statement]) -> Callable[[Handler], Endpoint]:
        return declare("POST", path, stated)

    def put(self, path: str, **stated: Unpack[Statement]) -> Callable[[Handler], Endpoint]:
        return declare("PUT", path, stated)

    def patch(self, path: str, **stated: Unpack[Statement]) -> Callable[[Handler], Endpoint]:
        return declare("PATCH", path, stated)

    def delete(self, path: str, **stated: Unpack[Statement]) -> Callable[[Handler], Endpoint]:
        return declare("DELETE", path, stated)


endpoint: Final = Declare()


class Endpoints:
    """All endpoints of the application, in the order of their modules."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = tuple(endpoints)
        seen: set[tuple[str, str]] = set()
        for declared in endpoints:
            # Two templates that differ only in the names of their parameters match the same requests.
            place = (declared.method, _PARAMETER.sub("{}", declared.path))
            if place in seen:
                raise InvalidDeclaration(f"{declared} is declared twice")
            seen.add(place)

    @classmethod
    def of(cls, *modules: ModuleType) -> "Endpoints":
        return cls([value for module in modules for value in vars(module).values() if isinstance(value, Endpoint)])

    def without(self, others: "Endpoints") -> "Endpoints":
        left_out = set(map(str, others))
        return Endpoints([one for one in self if str(one) not in left_out])

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def __len__(self) -> int:
        return len(self._endpoints)


def parameters(path: str) -> tuple[str, ...]:
    """The names of a template's parameters, in order."""
    return tuple(_PARAMETER.findall(path))


def declare(method: str, path: str, stated: Statement, policy: PagePolicy | None = None) -> Callable[[Handler], Endpoint]:
    name = f"{method} {path}"
    _require_complete(name, method, path, stated)
    accepts, keys = _accepted(method, stated), _keys(name, stated)

    def declared(handler: Handler) -> Endpoint:
        body, query, path_type, answer = _types(name, handler)
        if body is not None and method in _WITHOUT_BODY:
            raise InvalidDeclaration(f"{name} cannot take a body")
        if body is not None and not accepts.suits(body):
            raise InvalidDeclaration(f"{name}: a body of {accepts.media_type} is not read as {body}")
        if policy is not None and method != "GET" and issubclass(type(stated["caller"]), BindsForms) and not _is_bound(body):
            raise InvalidDeclaration(f"{name}: its form is no BoundForm")
        named = set(path_type.__struct_encode_fields__) if path_type is not None else set()
        if named != set(parameters(path)):
            raise InvalidDeclaration(f"{name}: the path's parameters are not the fields of its type")
        summary, _, description = (inspect.getdoc(handler) or "").partition("\n")
        limit = stated.get("limit", ())
        return Endpoint(
            method=method,
            path=path,
            caller=stated["caller"],
            keys=keys,
            step_up=stated.get("step_up"),
            handler=handler,
            attempt=stated.get("attempt"),
            limits=limit if isinstance(limit, tuple) else (limit,),
            counts=stated.get("counts", ()),
            stated_refusals=stated.get("refuses", ()),
            status=stated.get("status", 200),
            summary=stated.get("summary", summary.strip()),
            description=description.strip(),
            tags=stated.get("tags", ()),
            cache=stated.get("cache", NO_STORE),
            produces=stated.get("produces", "application/json"),
            also=stated.get("also", {}),
            reads=stated.get("reads", ()),
            sends=_sent(name, stated),
            may_present=stated.get("may_present"),
            accepts=accepts,
            errors=stated.get("errors", OURS),
            policy=policy,
            origins=stated.get("origins", Origins.LISTED),
            quiet=stated.get("quiet", False),
            translated=stated.get("translated", False),
            speaks=stated.get("speaks", ()),
            foreign=stated.get("foreign", False),
            verb=_verb(name, stated),
            body_type=body,
            query_type=query,
            path_type=path_type,
            answer_type=answer,
        )

    return declared


def _require_complete(name: str, method: str, path: str, stated: Statement) -> None:
    """Raises `InvalidDeclaration`."""
    if not is_caller_rule(stated.get("caller")):
        raise InvalidDeclaration(f"{name} does not say who may call it")
    if path != "/" and not (path.startswith("/") and all(map(_SEGMENT.fullmatch, path[1:].split("/")))):
        raise InvalidDeclaration(f"{name} is not a path template")
    if "limit" not in stated and stated["caller"].owes_limit(method):
        raise InvalidDeclaration(f"{name} does not say which rate limits apply")
    if missing := set(stated["caller"].reads) - set(parameters(path)):
        raise InvalidDeclaration(f"{name}: its caller rule reads {', '.join(sorted(missing))} from the path")


def _keys(name: str, stated: Statement) -> ManagementKeyRule | None:
    opened = stated.get("keys", False)
    if opened is False:
        return None
    rule = stated["caller"]
    if "step_up" in stated and opened not in _IN_PLACE_OF_A_PROOF:
        raise InvalidDeclaration(f"{name} needs a fresh proof, which only {' and '.join(_IN_PLACE_OF_A_PROOF)} stand for")
    if isinstance(opened, PlatformCapability):
        if rule is not PLATFORM_OWNER:
            raise InvalidDeclaration(f"{name}: only endpoints of platform owners take a platform capability")
        return ManagementKeyRule(of_platform=opened)
    if not takes_members(rule):
        raise InvalidDeclaration(f"{name}: management keys of an organization are no such callers as its rule admits")
    named = (of_rule,) if (of_rule := capability_of(rule)) is not None else ()
    return ManagementKeyRule(named if opened is True else (*named, opened))


def _accepted(method: str, stated: Statement) -> Accepts:
    accepts = stated.get("accepts", Json())
    is_change = method == "PATCH" and stated.get("errors", OURS) is OURS
    return replace(accepts, only_known=True) if is_change and isinstance(accepts, Json) else accepts


def _sent(name: str, stated: Statement) -> Mapping[int, tuple[AnswerHeader, ...]]:
    statuses = {stated.get("status", 200), *stated.get("also", {})}
    sends = stated.get("sends", {})
    if not sends.keys() <= statuses:
        raise InvalidDeclaration(f"{name} states headers of an answer that it does not give")
    return {**dict.fromkeys(statuses & _REDIRECTS, (LOCATION,)), **sends}


def _verb(name: str, stated: Statement) -> str | None:
    verb = stated.get("verb")
    if verb and not _VERB.fullmatch(verb):
        raise InvalidDeclaration(f"{name}: its verb is a noun and a word, such as `member remove`")
    return verb


def _is_bound(body: Any) -> bool:
    return isinstance(body, type) and issubclass(body, BoundForm)


def _types(name: str, handler: Handler) -> tuple[Any, Any, Any, Any]:
    """The types of body, query, path and answer, from the handler's annotations."""
    # In the order of the parameters. A signature would take longer than all else here, a thousand times at each start.
    hints = inspect.get_annotations(handler)
    asked = next(iter(hints.values()), None)
    if asked is not Call and get_origin(asked) is not Call:
        raise InvalidDeclaration(f"{name}: the handler's first parameter must be a Call")
    if "return" not in hints:
        raise InvalidDeclaration(f"{name}: the handler does not declare the type of its answer")
    named = get_args(asked)[:3]
    if isinstance(hints["return"], str):
        raise InvalidDeclaration(f"{name}: the type of its answer stands in quotes")
    body, query, path = (None if one is type(None) else one for one in (*named, *(None,) * (3 - len(named))))
    for one in (query, path):
        if one is not None and not (isinstance(one, type) and issubclass(one, msgspec.Struct)):
            raise InvalidDeclaration(f"{name}: query and path must be Structs")
    answer: Any = hints["return"]
    # The OpenAPI document describes the first of several answer types: usually the page, since the others are redirects.
    if get_origin(answer) in {Union, UnionType}:
        answer = get_args(answer)[0]
    return body, query, path, get_args(answer)[0] if get_origin(answer) in {Answer, Streamed} else answer
