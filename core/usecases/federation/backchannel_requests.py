"""Requests from afar: an application asks for a person who is elsewhere, the person answers, and the application fetches its tokens."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from core.domain.branding import mailed_logo
from core.domain.errors import BadRequest, Forbidden, RateLimited, ReauthenticationRequired, SecondFactorRequired, TermsRequired
from core.domain.federation.backchannel_requests import (
    ASKS_OF_CLIENT,
    ASKS_OF_HINT,
    ASKS_OF_ORGANIZATION,
    MAILS_OF_CLIENT,
    MAILS_OF_PERSON,
    NOWHERE,
    PROVIDER,
    AskedBackchannel,
    BackchannelAnswer,
    BackchannelDecision,
    BackchannelNotice,
    BackchannelRefused,
    BackchannelStep,
    NewBackchannelRequest,
    OwnRequests,
    WaitingRequest,
    allowed,
    backchannel_allowed,
    backchannel_refused,
    client_blocked,
    client_unblocked,
    gone,
    not_turned_on,
    require_asker,
    require_scopes,
)
from core.domain.federation.oauth.authorization_codes import ApprovedAuthorization, code_challenge
from core.domain.federation.oauth.authorization_steps import (
    NO_APPLICATIONS,
    AuthorizationStep,
    Progress,
    RequestingApplication,
    SignedInPerson,
    approved_authorization,
    door_of,
    next_step,
    require_open,
)
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest
from core.domain.federation.oauth.clients import AuthenticatedClient, RegisteredClient
from core.domain.federation.oauth.consents import ONE_API, Consent, ConsentChoice, agent_answer, answer, bounded, grant_end
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, Granted, TokenRequest, one_resource
from core.domain.federation.oauth.oidc import told_by
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidScope, InvalidTarget
from core.domain.federation.oauth.resources import NO_DEMAND, OPENID, OfferedResource, SignInDemand, demanding, named_resources, strongest
from core.domain.identifiers import AgentGrantId, BackchannelRequestId, ConsentId, ServiceId, UserId
from core.domain.identity.callers import Caller, members_only
from core.domain.identity.devices import Client
from core.domain.record.events import Actor
from core.domain.tokens import TokenAudience
from core.frozen import Frozen, replace
from core.usecases.federation.authorization_codes import AuthorizationCodes, CodeNotIssued
from core.usecases.federation.consents import give_consent
from ports.federation.oauth import AuthorizationContexts, BackchannelRequestStore, ResourceLookup
from ports.identity.sign_in import SignInHooks
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import SharedBuckets, System
from ports.unit_of_work import UnitOfWorkFactory


class AnsweredRequest(NamedTuple):
    """A request that waits for its person, with what the person may allow there."""

    waiting: WaitingRequest
    application: RequestingApplication
    request: AuthorizationRequest
    """As far as the application may ask."""
    resources: Sequence[OfferedResource]
    signed_in: SignedInPerson

    def shown(self, resource: OfferedResource) -> Sequence[str]:
        """The scopes that the page asks about, by their names."""
        asked = self.request.foreign_scopes
        held = resource.shown_for_agent(asked) if self.application.is_agent else resource.held(asked)
        return [scope.name for scope in held]


class BackchannelRequests(Frozen):
    unit_of_work: UnitOfWorkFactory
    requests: BackchannelRequestStore
    authorization_contexts: AuthorizationContexts
    resources: ResourceLookup
    codes: AuthorizationCodes
    buckets: SharedBuckets
    hooks: SignInHooks
    templates: MailTemplates
    metrics: Metrics
    system: System
    page: str
    """The address of the page on which people answer."""

    async def ask(self, client: AuthenticatedClient, asked: AskedBackchannel) -> BackchannelAnswer:
        """Takes a request. Everything that the application learns, also by the time, is the same whomever the hint names. Raises
        `UnauthorizedClient`, `InvalidScope`, `InvalidTarget`, `RateLimited`.
        """
        registered = require_asker(client)
        asked = require_scopes(asked, registered)
        registered.require_bound(asked.key)
        audience = await self._audience(asked, registered)
        await self._count(asked, registered)
        secret = self.system.secrets.token()
        new = NewBackchannelRequest(
            id=BackchannelRequestId(self.system.ids.new()),
            digest=secret.digest(),
            service=registered.service,
            asked=asked,
            audience=audience,
            created_at=self.system.clock.now(),
        )
        async with self.unit_of_work() as uow:
            if not await uow.afar_requests.add(new):
                raise not_turned_on()
            # Only the job knows whether there is anybody to tell.
            await uow.jobs.add(BackchannelNotice(request=new.id).as_job())
            await uow.commit()
        self.metrics.afar_request(BackchannelStep.ASKED)
        return BackchannelAnswer(auth_req_id=secret.reveal(), expires_in=int(asked.lifetime.total_seconds()))

    async def tell(self, notice: BackchannelNotice) -> bool:
        """Mails the person, at most once in a quarter of an hour for each application. Returns whether a mail was queued."""
        waiting = await self.requests.find_to_tell(notice.request)
        if waiting is None or await self.buckets.take(MAILS_OF_CLIENT, f"{waiting.user}:{waiting.service}") > 0:
            return False
        if await self.buckets.take(MAILS_OF_PERSON, f"{waiting.user}:{waiting.organization}") > 0:
            return False
        async with self.unit_of_work() as uow:
            person = (await uow.accounts.find_all([waiting.user])).get(waiting.user)
            if person is None:
                return False
            mail = self.templates.mail(
                "afar_request",
                person.email.address,
                account=waiting.user,
                language=person.language,
                application=waiting.service_name,
                application_logo=mailed_logo(waiting.service_logo),
                organization=waiting.organization_name,
                api=waiting.api or waiting.identifier or "",
                says=tuple(waiting.says),
                message=waiting.binding_message or "",
                until=waiting.expires_at,
                link=self.page,
                when=waiting.created_at,
            )
            await uow.jobs.add(mail.as_job())
            await uow.commit()
        self.metrics.afar_request(BackchannelStep.MAILED)
        return True

    async def list_own(self, user: UserId) -> OwnRequests:
        """Those that wait for the person, and the applications of which the person wants to hear no more."""
        return await self.requests.list_own(user)

    async def get(self, request: BackchannelRequestId, caller: Caller) -> AnsweredRequest:
        """A request that waits for this person. Raises `NotFound`, and `Forbidden` and `OrganizationNotActive` where the application may
        not have what it asks for.
        """
        waiting = await self.requests.find_waiting(caller.user, request)
        met = None if waiting is None else await self.authorization_contexts.find(waiting.client, caller)
        if waiting is None or met is None or met.signed_in is None:
            raise gone()
        try:
            return await self._answered(waiting, met.application, met.signed_in)
        except AuthorizationRefused as refusal:
            raise Forbidden(refusal.message, words=_WORDS.get(refusal.word, "")) from None

    async def allow(self, request: BackchannelRequestId, caller: Caller, actor: Actor, choice: ConsentChoice) -> WaitingRequest:
        """The person says yes to what is ticked. It is decided by the rules of a request that a browser brings. Raises the errors of `get`,
        `BadRequest` where nothing is ticked and for an end that the page does not offer, `ReauthenticationRequired` and
        `SecondFactorRequired`. `NotFound` also means that the caller's session has ended.
        """
        found = await self.get(request, caller)
        now = self.system.clock.now()
        granted = [one.granted(found.request.foreign_scopes, choice.ticked) for one in found.resources]
        demand = strongest(map(OfferedResource.demand, found.resources, granted))
        self._require_done(found, demand, now)
        consent = self._consent(found, granted, choice, now)
        if found.signed_in.has_hooks:
            scopes = found.request.scopes
            door = door_of(found.application, found.signed_in, told_by(scopes), scopes, way=PROVIDER, consents=True)
            (await self.hooks.ask(door)).require_let_in()
        by = replace(actor, agent=found.waiting.client) if found.application.is_agent else actor
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(caller.user)
            if not await uow.afar_requests.allow(request, caller.user, caller.session, granted, now):
                raise gone()
            if not await give_consent(uow, ConsentId(self.system.ids.new()), consent, by):
                raise gone()
            await uow.record(backchannel_allowed(found.waiting, found.application.organization, granted, actor))
            await uow.commit()
        self.metrics.afar_request(BackchannelStep.ALLOWED)
        return found.waiting

    async def refuse(self, request: BackchannelRequestId, user: UserId, actor: Actor) -> WaitingRequest:
        """The person says no. Raises `NotFound`."""
        waiting = await self.requests.find_waiting(user, request)
        if waiting is None:
            raise gone()
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(user)
            if not await uow.afar_requests.refuse(request, user, self.system.clock.now()):
                raise gone()
            await uow.record(backchannel_refused(waiting, actor))
            await uow.commit()
        self.metrics.afar_request(BackchannelStep.REFUSED)
        return waiting

    async def block(self, request: BackchannelRequestId, user: UserId, actor: Actor) -> WaitingRequest:
        """The person says no, and wants to hear no more of the application. Raises `NotFound`."""
        waiting = await self.requests.find_waiting(user, request)
        if waiting is None:
            raise gone()
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(user)
            if await uow.afar_requests.block(user, waiting.service, self.system.clock.now()):
                await uow.record(client_blocked(user, waiting.service, actor))
            await uow.commit()
        self.metrics.afar_request(BackchannelStep.BLOCKED)
        return waiting

    async def unblock(self, service: ServiceId, user: UserId, actor: Actor) -> None:
        """The application may ask the person again. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(user)
            if not await uow.afar_requests.unblock(user, service):
                raise gone()
            await uow.record(client_unblocked(user, service, actor))
            await uow.commit()

    async def redeem(self, request: TokenRequest, client: AuthenticatedClient, sender: Client) -> Granted:
        """Exchanges a request for a session once the person has said yes. Until the tokens are there, the yes hangs on the session in which
        it was said; the new session hangs on none. Raises `BackchannelPending` and `BackchannelSlowDown` while nobody has answered,
        `BackchannelRefused`, `BackchannelExpired`, `InvalidGrant`, and `InvalidTarget`, which leaves the request as it is.
        """
        registered = require_asker(client)
        if request.auth_req_id is None:
            raise InvalidGrant
        found = await self.requests.poll(request.auth_req_id.digest(), registered.service, self.system.clock.now())
        if found is None:
            raise InvalidGrant
        decision = allowed(found, request.key, self.system.clock.now())
        named = one_resource(request.resources)
        if named is not None and named not in {one.identifier for one in decision.granted}:
            raise InvalidTarget
        approved = await self._approved(decision, registered, request)
        verifier = self.system.secrets.token()
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_share(decision.user)
            if not await uow.afar_requests.consume(found.id, self.system.clock.now()):
                raise InvalidGrant(detail="another poll was quicker, or what the yes rests on has ended")
            try:
                code = await self.codes.issue(uow, replace(approved.of, code_challenge=code_challenge(verifier)), approved.registered)
            except CodeNotIssued:
                raise BackchannelRefused(detail="the account, the consent or the service has ended") from None
            await uow.commit()
        grant = TokenRequest(
            grant_type=AUTHORIZATION_CODE,
            code=code,
            redirect_uri=NOWHERE.redirect_uri,
            code_verifier=verifier,
            resources=request.resources,
            key=request.key,
        )
        granted = await self.codes.redeem(grant, client, sender, root=OPENID)
        self.metrics.afar_request(BackchannelStep.LET_IN)
        return granted

    async def _audience(self, asked: AskedBackchannel, client: RegisteredClient) -> TokenAudience | None:
        """The API that the request names, with the scopes that it asks for there."""
        named = set(asked.resources)
        if len(named) > 1 or (client.is_agent and not named):
            raise InvalidTarget(ONE_API)
        if not named:
            return None
        offered = await self.resources.find(client.service, asked.resources, None)
        try:
            (resource,) = named_resources(tuple(named), asked.foreign_scopes, offered)
        except AuthorizationRefused as refusal:
            raise (InvalidScope if refusal.word is AuthorizationErrorCode.INVALID_SCOPE else InvalidTarget)(refusal.message) from None
        scopes = tuple(scope.name for scope in resource.scopes if scope.name in asked.foreign_scopes)
        return TokenAudience(resource.id, resource.identifier, scopes)

    async def _count(self, asked: AskedBackchannel, client: RegisteredClient) -> None:
        for limit, key in (
            (ASKS_OF_HINT, asked.counted_as(client.service)),
            (ASKS_OF_CLIENT, str(client.service)),
            (ASKS_OF_ORGANIZATION, str(client.organization)),
        ):
            wait = await self.buckets.take(limit, key)
            if wait > 0:
                raise RateLimited(retry_after=wait, detail=limit.name)

    async def _answered(self, waiting: WaitingRequest, application: RequestingApplication, signed_in: SignedInPerson) -> AnsweredRequest:
        """Raises `AuthorizationRefused`, `OrganizationNotActive`."""
        request = waiting.as_asked()
        require_open(request, application)
        request = bounded(request, is_agent=application.is_agent, agents_allowed=application.agents_allowed)
        offered = await self.resources.find(application.service, request.resources, signed_in.user) if request.resources else ()
        resources = named_resources(request.resources, request.foreign_scopes, offered)
        if any(one.asks_again(request.foreign_scopes) for one in resources):
            signed_in = replace(signed_in, owes_answer=True)
        return AnsweredRequest(waiting, application, request, resources, signed_in)

    def _require_done(self, found: AnsweredRequest, demand: SignInDemand, now: datetime) -> None:
        """Whether nothing but the yes is missing."""
        progress = Progress(account_chosen=True, consented=True, set_up_later=True, asked_membership=True)
        try:
            step = next_step(demanding(found.request, demand), found.application, found.signed_in, progress, now)
        except AuthorizationRefused as refusal:
            if refusal.word is AuthorizationErrorCode.UNMET_REQUIREMENTS:
                raise SecondFactorRequired from None
            raise Forbidden(refusal.message, words="no_applications" if refusal.message == NO_APPLICATIONS else "") from None
        match step:
            case AuthorizationStep.DONE:
                return
            case AuthorizationStep.TURN_AWAY:
                raise members_only()
            case AuthorizationStep.SET_UP_SECOND_FACTOR:
                raise SecondFactorRequired
            case AuthorizationStep.ACCEPT_TERMS:
                raise TermsRequired
            case _:
                within = demand.max_age
                raise ReauthenticationRequired(max_age=timedelta(0) if within is None else timedelta(seconds=within))

    def _consent(self, found: AnsweredRequest, granted: Sequence[TokenAudience], choice: ConsentChoice, now: datetime) -> Consent:
        asked = found.request.foreign_scopes
        if found.application.is_agent:
            end = grant_end(choice.days, now)
            ids = self.system.ids
            try:
                answers = [agent_answer(one, asked, choice.ticked, AgentGrantId(ids.new()), end) for one in found.resources]
            except AuthorizationRefused as refusal:
                raise BadRequest(refusal.message, words="afar_nothing_ticked") from None
        else:
            answers = [answer(one, asked, given.scopes) for one, given in zip(found.resources, granted, strict=True)]
        return Consent(found.signed_in.user, found.application.service, found.request.scopes, now, resources=answers)

    async def _approved(self, decision: BackchannelDecision, client: RegisteredClient, request: TokenRequest) -> "_Approved":
        """Everything is asked once more at the moment of the tokens. Raises `BackchannelRefused`."""
        met = await self.authorization_contexts.find_in_session(client.client, decision.session, decision.user, decision.email)
        if met is None or met.signed_in is None:
            raise BackchannelRefused(detail="the session in which the person said yes has ended")
        application, signed_in = met.application, met.signed_in
        resources = tuple(one.identifier for one in decision.granted)
        asked = AuthorizationRequest(
            client_id=client.client, recipient=NOWHERE, scopes=decision.scopes, resources=resources, key=request.key
        )
        progress = Progress(account_chosen=True, consented=True, set_up_later=True, asked_membership=True)
        try:
            require_open(asked, application)
            asked = bounded(asked, is_agent=application.is_agent, agents_allowed=application.agents_allowed)
            step = next_step(demanding(asked, NO_DEMAND), application, signed_in, progress, self.system.clock.now())
        except (AuthorizationRefused, Forbidden) as refusal:
            raise BackchannelRefused(detail=refusal.message) from None
        if step is not AuthorizationStep.DONE:
            raise BackchannelRefused(detail=f"the person has to do something first: {step.name}")
        approved = approved_authorization(asked, application, signed_in, provider=PROVIDER, audiences=decision.granted)
        return _Approved(approved, application.registered.redirect_uris)


class _Approved(NamedTuple):
    of: ApprovedAuthorization
    registered: Sequence[str]


_WORDS: Final = {AuthorizationErrorCode.ACCESS_DENIED: "agents_forbidden", AuthorizationErrorCode.INVALID_TARGET: "resource_unknown"}
