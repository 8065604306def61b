"""Finds the caller behind a bearer token: the signature tells whom the token was issued for, and the database whether it is still valid."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from core.domain.errors import Forbidden, NotFound, OrganizationNotActive, TokenInvalid, Unauthorized
from core.domain.formats import Json
from core.domain.identifiers import BoundKeyId, OrganizationId, SessionId, UserId
from core.domain.identity.browser_sessions import BrowserAccount
from core.domain.identity.callers import NOT_A_MEMBER, Caller, Participation, require_admitted
from core.domain.identity.guards.hook_verdicts import NotAskedYet
from core.domain.identity.risk_policies.verdicts import KeptOut
from core.domain.identity.sessions import TokenUse
from core.domain.identity.terms import require_accepted
from core.domain.key_proofs import KeyThumbprint, require_shown
from core.domain.secrets import Token
from core.domain.tenancy.members import IN_A_SERVICE, NOT_YOUR_ORGANIZATION, Member, OrganizationStanding
from core.domain.tenancy.roles import capabilities_of
from core.domain.tenancy.sign_in_rules import outlasted, require_second_factor
from core.frozen import Frozen, replace
from core.usecases.tenancy.hook_asking import door_of_member
from ports.crypto import AccessTokenVerifier
from ports.identity.sign_in import SignInHooks
from ports.system import Clock, Presence
from ports.tenancy.members import CallerLookup

# Gets every request in another person's name, with the organization that the request is about, before anything is refused.
Witness = Callable[[Caller, OrganizationId | None], Awaitable[None]]


class _Claims(Frozen):
    """What a token claims. None of it counts before the database has confirmed it."""

    session: SessionId
    user: UserId
    organization: str
    service: str
    impersonator: UserId | None
    methods: tuple[str, ...]
    scopes: tuple[str, ...] | None
    is_of_resource: bool
    """The token is for an API of an organization."""


class Callers(Frozen):
    verifier: AccessTokenVerifier
    lookup: CallerLookup
    presence: Presence[SessionId]
    hook_asking: SignInHooks
    clock: Clock

    async def resolve(
        self,
        token: str,
        participation: Participation = Participation.ACTIVE,
        witness: Witness | None = None,
        *,
        for_userinfo: bool = False,
        key: KeyThumbprint | None = None,
    ) -> Caller:
        """Returns the caller. Raises `TokenExpired`; `TokenInvalid` when the value is not an access token of this installation;
        `Unauthorized` when the token's session or user has ended; `Forbidden` when the user is not a member of the token's organization;
        `OrganizationNotActive`; `SecondFactorRequired` in a service of an organization that requires a second factor which the user lacks.
        In the organization itself, the person may still set one up. `TermsRequired` in a service, as long as the person has not accepted
        terms in time. `key` is the one that the request has shown: a token that is bound to a
        key is good with this key alone, and every other without one. Else raises `BoundTokenRefused`.
        """
        claims = await self._claims(token, key, of_resources=for_userinfo)
        in_service = self.lookup.find_for_userinfo if for_userinfo else self.lookup.find_in_service
        find = in_service if claims.service else self.lookup.find
        caller = await find(claims.session, claims.user)
        if caller is None:
            raise Unauthorized("The session has ended", words="session_ended")
        self._confirm(claims, caller)
        if witness is not None and caller.impersonator is not None:
            await witness(caller, None)
        if caller.organization:
            _require_participation(caller, participation)
        self.presence.seen(caller.session, self.clock.now())
        # A token for an API names the scopes of that API. Userinfo goes by what the session's application was granted.
        scopes = caller.scopes if claims.is_of_resource else claims.scopes
        return replace(caller, authentication_methods=claims.methods, scopes=scopes)

    async def resolve_member(
        self,
        token: str,
        slug: str,
        participation: Participation = Participation.ACTIVE,
        witness: Witness | None = None,
    ) -> Member:
        """Returns the caller as a member of this organization. Raises the errors of `resolve`, and `NotFound` when there is no such
        organization. A token for the platform is good for every organization of its user, a token for an organization only for this
        organization, and a token for a service for none. Raises `ReauthenticationRequired` and `SecondFactorRequired` as the organization's
        sign-in rules ask, and `TermsRequired`.
        """
        # Only applications have tokens that are bound to keys, and none of theirs opens an organization.
        claims = await self._claims(token, None)
        found = await self.lookup.find_member(claims.session, claims.user, slug)
        if found is None:
            raise Unauthorized("The session has ended", words="session_ended")
        caller, standing = found
        self._confirm(claims, caller)
        return await self._member(replace(caller, authentication_methods=claims.methods), standing, slug, participation, witness)

    async def resolve_browser_member(
        self,
        token: Token,
        slug: str,
        participation: Participation = Participation.ACTIVE,
        witness: Witness | None = None,
        *,
        bound: BoundKeyId | None = None,
    ) -> Member | None:
        """Returns the person behind the cookie of a browser session as a member of this organization. None when the session has ended or
        never existed. Raises the errors of `resolve_member` about the organization.
        """
        found = await self.lookup.find_browser_member(token.digest(), slug, bound)
        if found is None:
            return None
        caller, standing = found
        try:
            return await self._member(caller, standing, slug, participation, witness)
        except NotAskedYet:
            # A page is a way in, as `select` is for programs: a browser has no other to the organization's pages.
            assert standing is not None  # noqa: S101 - for the type checker: nobody is kept out of nothing
            (await self.hook_asking.ask(door_of_member(caller, standing.organization))).require_let_in()
        return await self._member(caller, replace(standing, is_unheard=False), slug, participation, witness)

    async def _member(
        self, caller: Caller, standing: OrganizationStanding | None, slug: str, participation: Participation, witness: Witness | None
    ) -> Member:
        if witness is not None and caller.impersonator is not None:
            # Strangers must not be able to fill an organization's log.
            await witness(caller, standing.organization if standing is not None and standing.role else None)
        if caller.service:
            raise Forbidden(IN_A_SERVICE, words="not_a_member")
        if standing is None:
            raise NotFound("There is no such organization", words="organization_unknown")
        if caller.organization and caller.organization != slug:
            raise Forbidden(NOT_YOUR_ORGANIZATION, words="not_a_member")
        if not standing.role or not standing.relations:
            raise Forbidden(NOT_A_MEMBER, words="not_a_member")
        if participation is Participation.ACTIVE and not standing.organization_is_active:
            raise OrganizationNotActive
        if standing.outlasted is not None:
            raise outlasted(standing.outlasted)
        now = self.clock.now()
        require_second_factor(standing.second_factor_due, now)
        require_accepted(standing.terms_due, now)
        if standing.is_kept_out:
            raise KeptOut(standing.organization_slug)
        if standing.is_unheard:
            raise NotAskedYet(standing.organization_slug)
        self.presence.seen(caller.session, now)
        return Member(
            caller,
            standing.organization,
            standing.organization_slug,
            standing.organization_is_active,
            standing.role,
            capabilities_of(standing.relations),
            organization_name=standing.organization_name,
        )

    async def is_in_service(self, token: str, key: KeyThumbprint | None = None) -> bool:
        """Returns whether the token is for a service. Such a token goes to `resolve`, not to `resolve_member`. Raises `TokenExpired` or
        `TokenInvalid`.
        """
        return bool((await self._claims(token, key)).service)

    async def resolve_browser(self, token: Token, bound: BoundKeyId | None = None) -> Caller | None:
        """Returns the person behind the cookie of a browser session, on the platform. None when the session has ended or never existed, or
        is bound to another key than the one that the browser has proved.
        """
        caller = await self.lookup.find_browser(token.digest(), bound)
        if caller is not None:
            self.presence.seen(caller.session, self.clock.now())
        return caller

    async def resolve_browser_accounts(
        self, current: Token | None, others: Sequence[Token], bound: BoundKeyId | None = None
    ) -> tuple[Caller | None, Sequence[BrowserAccount]]:
        """The person behind the cookie of a browser session, as `resolve_browser` finds them, and the other accounts of the browser that
        are still signed in, each once, in one round trip. A look at the others is no use of their sessions.
        """
        tokens = [*others] if current is None else [current, *others]
        found = await self.lookup.find_browsers([token.digest() for token in tokens], bound)
        callers = [found.get(token.digest()) for token in tokens]
        caller = None if current is None else callers[0]
        if caller is not None:
            self.presence.seen(caller.session, self.clock.now())
        known, accounts = set() if caller is None else {caller.user}, []
        for token, other in zip(others, callers[len(tokens) - len(others) :], strict=True):
            if other is not None and other.user not in known:
                known.add(other.user)
                accounts.append(BrowserAccount(token, other))
        return caller, accounts

    async def resolve_acting(self, token: Token, opener: Token, witness: Witness, *, bound: BoundKeyId | None = None) -> Caller | None:
        """Returns the person in whose name a platform owner acts in this browser. `opener` is the cookie of the platform owner's own
        session. None when nobody acts any more.
        """
        caller = await self.lookup.find_acting(token.digest(), opener.digest(), bound)
        if caller is not None:
            await witness(caller, None)
            self.presence.seen(caller.session, self.clock.now())
        return caller

    async def resolve_acting_member(
        self,
        token: Token,
        opener: Token,
        slug: str,
        participation: Participation,
        witness: Witness,
        *,
        bound: BoundKeyId | None = None,
    ) -> Member | None:
        """Returns this person as a member of the organization. None when nobody acts any more. Raises the errors of `resolve_member` about
        the organization.
        """
        found = await self.lookup.find_acting_member(token.digest(), opener.digest(), slug, bound)
        if found is None:
            return None
        caller, standing = found
        return await self._member(caller, standing, slug, participation, witness)

    async def signed(self, token: str, key: KeyThumbprint | None = None) -> tuple[SessionId, UserId, UserId | None]:
        """Returns the session, user and impersonator in an access token of this installation, even if the session has ended: signing out
        twice is not an error. Raises `TokenExpired` or `TokenInvalid`.
        """
        claims = await self._claims(token, key)
        return claims.session, claims.user, claims.impersonator

    def _confirm(self, claims: _Claims, caller: Caller) -> None:
        stated = (claims.organization, claims.service, claims.impersonator)
        if stated != (caller.organization, caller.service, caller.impersonator):
            raise TokenInvalid(detail="the token and its session have different contexts")

    async def _claims(self, token: str, key: KeyThumbprint | None, *, of_resources: bool = False) -> _Claims:
        claims = await self.verifier.verify_access(token)
        if key is not None or "cnf" in claims:
            require_shown(claims, key)
        is_of_resource = of_resources and claims.get("token_use") == TokenUse.RESOURCE.value
        impersonator = None if is_of_resource else _impersonator(claims)
        organization, service = _places(claims) if is_of_resource else _context(claims)
        return _Claims(
            SessionId(_id(claims, "sid")),
            UserId(_id(claims, "sub")),
            organization,
            service,
            impersonator,
            _methods(claims),
            _scopes(claims),
            is_of_resource,
        )


def _require_participation(caller: Caller, participation: Participation) -> None:
    # End users of a service need not be members of its organization.
    if not caller.role and not caller.service:
        raise Forbidden(NOT_A_MEMBER, words="not_a_member")
    if caller.service:
        require_admitted(is_admitted=caller.is_admitted, owes_second_factor=caller.owes_second_factor, owes_terms=caller.owes_terms)
    if participation is Participation.ACTIVE and not caller.organization_is_active:
        raise OrganizationNotActive


def _impersonator(claims: Mapping[str, Json]) -> UserId | None:
    """Returns the impersonator, if any. Tokens for another use are refused here: `mfa_preauth`, `resource`, which is for an API of an
    organization, or an ID token, which names no use.
    """
    match claims.get("token_use"):
        case "access" if "impersonator" not in claims:
            return None
        case "impersonation":
            return UserId(_id(claims, "impersonator"))
        case _:
            raise TokenInvalid(detail="token_use is not accepted here")


def _context(claims: Mapping[str, Json]) -> tuple[str, str]:
    """Returns the token's organization and service. The audience must agree with both, because other parties rely on the audience."""
    organization, service = _places(claims)
    audience = "platform"
    if service:
        audience = f"service:{organization}/{service}"
    elif organization:
        audience = f"org:{organization}"
    if claims.get("aud") != audience:
        raise TokenInvalid(detail="aud does not match org and service")
    return organization, service


def _places(claims: Mapping[str, Json]) -> tuple[str, str]:
    organization, service = claims.get("org", ""), claims.get("service", "")
    if not isinstance(organization, str) or not isinstance(service, str) or (service and not organization):
        raise TokenInvalid(detail="org and service are malformed")
    return organization, service


def _methods(claims: Mapping[str, Json]) -> tuple[str, ...]:
    methods = claims.get("amr", ())
    if not isinstance(methods, list | tuple):
        raise TokenInvalid(detail="amr is malformed")
    return tuple(str(method) for method in methods)


def _scopes(claims: Mapping[str, Json]) -> tuple[str, ...] | None:
    scope = claims.get("scope")
    if scope is None:
        return None
    if not isinstance(scope, str):
        raise TokenInvalid(detail="scope is malformed")
    return tuple(scope.split())


def _id(claims: Mapping[str, Json], name: str) -> UUID:
    """Accepts only the canonical form of an id. `UUID` itself also accepts braces, prefixes and stray hyphens."""
    text = claims.get(name)
    try:
        parsed = UUID(str(text))
    except ValueError:
        raise TokenInvalid(detail=f"{name} is not an id") from None
    if str(parsed) != text:
        raise TokenInvalid(detail=f"{name} is not an id")
    return parsed
