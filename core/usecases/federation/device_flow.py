"""The device flow: a code is asked for, entered, approved or denied by a person, and exchanged once by the device that asked."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, TypeGuard

from core.domain.errors import (
    Forbidden,
    NotFound,
    OrganizationNotActive,
    RateLimited,
    ReauthenticationRequired,
    Unauthorized,
    Unavailable,
)
from core.domain.federation.oauth.authorization_steps import NO_APPLICATIONS
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, no_devices
from core.domain.federation.oauth.clients import (
    AuthenticatedClient,
    AuthenticationMethod,
    ClientCredentials,
    RegisteredClient,
    require_open,
)
from core.domain.federation.oauth.consents import NOT_BY_CODE
from core.domain.federation.oauth.device_flow import (
    ENTRIES_OF_PERSON,
    PROVIDER,
    USER_CODE_ALPHABET,
    USER_CODE_LENGTH,
    AskedFor,
    AskingClient,
    AskingDevice,
    DeviceApproval,
    DeviceAuthorization,
    DeviceCodeState,
    DeviceDecision,
    DeviceDenied,
    DeviceStep,
    EnteredCode,
    NewDeviceCode,
    UserCodeUnknown,
    approved,
    as_shown,
    complete_uri,
    device_approved,
    device_denied,
    may_show_nothing,
    read_user_code,
    user_code_hmac,
)
from core.domain.federation.oauth.grants import Granted
from core.domain.federation.oauth.oidc import told_by
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidScope, InvalidTarget, UnauthorizedClient, client_refused
from core.domain.federation.oauth.resources import named_resources
from core.domain.identifiers import ClientId, DeviceCodeId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.guards.hook_verdicts import service_door
from core.domain.identity.risk import Approach
from core.domain.identity.risk_policies.shadow import shows_key, way_by
from core.domain.identity.risk_policies.verdicts import Came, judge_sign_in
from core.domain.identity.sessions import Context
from core.domain.identity.sign_in import LastLook, open_context
from core.domain.key_proofs import KeyThumbprint
from core.domain.secrets import Secret, Token
from core.domain.services.services import ServiceType
from core.domain.tokens import NoAudience, TokenAudience
from core.frozen import Frozen, replace
from core.usecases.federation.clients import Clients
from core.usecases.identity.devices import Devices
from core.usecases.identity.sessions import Sessions
from core.usecases.identity.sign_in.admission import Admission, Arrived, HooksToAsk
from core.usecases.identity.sign_in.sign_in_results import WithTokens
from ports.crypto import ServerSecrets
from ports.federation.oauth import ClientLookup, DeviceCodeStore, ResourceLookup
from ports.identity.sign_in import SignInHooks
from ports.metrics import Metrics
from ports.system import SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# The name of the key that makes the HMACs of user codes.
USER_CODES: Final = "device_user_codes"
# A new code has the letters of a pending code less often than once in ten million tries, while fewer than a thousand codes are pending.
_TRIES: Final = 3


class DeviceFlow(Frozen):
    unit_of_work: UnitOfWorkFactory
    codes: DeviceCodeStore
    clients: Clients
    client_lookup: ClientLookup
    resources: ResourceLookup
    devices: Devices
    admission: Admission
    hooks: SignInHooks
    sessions: Sessions
    buckets: SharedBuckets
    server_secrets: ServerSecrets
    metrics: Metrics
    system: System
    activation_page: str

    async def ask(
        self,
        asking: AskingClient,
        scopes: tuple[str, ...],
        client: Client,
        resources: Sequence[str] = (),
        foreign_scopes: tuple[str, ...] = (),
    ) -> DeviceAuthorization:
        """Issues a device code, and a user code for the person. Raises `Unauthorized` when there is no such client,
        `OrganizationNotActive`, `UnauthorizedClient` for an agent and for an application that holds the profile fapi2, and `InvalidTarget`
        and `InvalidScope` for APIs that the client may not ask for.
        """
        audiences = await self._audiences(asking.id, resources, foreign_scopes)
        actor = client.actor()
        asker = AskingDevice(address=actor.address, user_agent=actor.user_agent)
        key = await self.server_secrets.get(USER_CODES)
        for _ in range(_TRIES):
            device_code, user_code = self.system.secrets.token(), self.system.secrets.letters(USER_CODE_ALPHABET, USER_CODE_LENGTH)
            code = NewDeviceCode(
                id=DeviceCodeId(self.system.ids.new()),
                digest=device_code.digest(),
                user_code_hmac=user_code_hmac(user_code, key),
                scopes=scopes,
                audiences=audiences,
                asker=asker,
                created_at=self.system.clock.now(),
            )
            asked = _known(await self.codes.ask(code, asking))
            if asked.is_added:
                self.metrics.device_flow(DeviceStep.STARTED)
                page = asked.activation_uri or self.activation_page
                return DeviceAuthorization(
                    device_code=device_code,
                    user_code=Secret(as_shown(user_code)),
                    verification_uri=page,
                    verification_uri_complete=complete_uri(page, user_code),
                )
        raise Unavailable(retry_after=1, detail="every new user code was shown by another device")

    async def find_entered(self, text: str, by: UserId | None = None) -> tuple[EnteredCode, Secret]:
        """The device that shows this user code, and the code without separators. A rate limit counts the codes that a signed-in person
        enters. Raises `UserCodeUnknown`, `DeviceCodeExpired`, `OrganizationNotActive`, `RateLimited`.
        """
        if by is not None:
            wait = await self.buckets.take(ENTRIES_OF_PERSON, str(by))
            if wait > 0:
                raise RateLimited(retry_after=wait, detail=ENTRIES_OF_PERSON.name)
        user_code = read_user_code(text)
        if user_code is None:
            raise UserCodeUnknown
        found = await self.codes.find_entered(user_code_hmac(user_code, await self.server_secrets.get(USER_CODES)))
        return self._pending(found), user_code

    async def find(self, code: DeviceCodeId) -> EnteredCode:
        """The device about which a person is about to decide. Raises the errors of `find_entered` except `RateLimited`."""
        return self._pending(await self.codes.find(code))

    async def approve(self, code: DeviceCodeId, caller: Caller, client: Client) -> EnteredCode:
        """Lets the device sign in as this person. The same person may repeat the approval. Raises the errors of `find`, `Forbidden` when
        the service admits only members, `ReauthenticationRequired` after a sign-in that is too old for the organization, and `Unauthorized`
        when the caller's session has ended.
        """
        found = await self.codes.find(code)
        if _has_decided(found, caller, DeviceCodeState.APPROVED, DeviceCodeState.CONSUMED):
            return found
        found = self._pending(found)
        now = self.system.clock.now()
        if caller.proved.refuses_applications:
            raise Forbidden(NO_APPLICATIONS, words="no_applications")
        if not found.outlasts(caller.proved, now):
            raise ReauthenticationRequired(max_age=found.session_lifetime or timedelta(0))
        try:
            approved_now = await self._approve(found, code, caller, client, now)
        except HooksToAsk as to_ask:
            (await self.hooks.ask(to_ask.door)).require_let_in()
            approved_now = await self._approve(found, code, caller, client, now, asked=True)
        if approved_now:
            return found
        return await self._decided(code, caller, DeviceCodeState.APPROVED, DeviceCodeState.CONSUMED)

    async def _approve(
        self, found: EnteredCode, code: DeviceCodeId, caller: Caller, client: Client, now: datetime, *, asked: bool = False
    ) -> bool:
        """Raises `HooksToAsk` before anything is written, so that no connection is held while hooks are asked."""
        async with self.unit_of_work() as uow:
            # A request that ends the person's sessions at this moment either waits for this unit of work, or has ended the approving
            # session already.
            confirmed = await uow.sign_ins.confirm(LastLook(user=caller.user, since=now, service=found.context.service))
            if confirmed is None:
                raise Unauthorized
            context = open_context(confirmed.destination, gives_tokens=False)
            if confirmed.has_hooks and not asked and caller.impersonator is None:
                # The page has named the device and the service, so that the person knows who is told.
                door = service_door(
                    caller.user,
                    context.organization,
                    context.service,
                    told_by(found.scopes),
                    way=PROVIDER,
                    authenticated_by=caller.authentication_methods,
                    scopes=found.scopes,
                    session=caller.session,
                )
                raise HooksToAsk(replace(door, consents=True))
            if await uow.device_codes.approve(code, caller.user, caller.session, now):
                await uow.record(device_approved(found, client.actor(caller.user)))
                await uow.commit()
                self.metrics.device_flow(DeviceStep.APPROVED)
                return True
        return False

    async def deny(self, code: DeviceCodeId, caller: Caller, client: Client) -> EnteredCode:
        """Refuses the device. The same person may repeat the refusal. Raises the errors of `find`."""
        found = await self.codes.find(code)
        if _has_decided(found, caller, DeviceCodeState.DENIED):
            return found
        found = self._pending(found)
        async with self.unit_of_work() as uow:
            if await uow.device_codes.deny(code, caller.user, self.system.clock.now()):
                await uow.record(device_denied(found, client.actor(caller.user)))
                await uow.commit()
                self.metrics.device_flow(DeviceStep.DENIED)
                return found
        return await self._decided(code, caller, DeviceCodeState.DENIED)

    async def redeem(
        self,
        device_code: Token,
        shown: ClientCredentials | None,
        sender: Client,
        resource: str | None = None,
        key: KeyThumbprint | None = None,
    ) -> tuple[Granted, AuthenticatedClient]:
        """Exchanges a device code for a session after a person has approved. A poll before the approval takes one round trip. `shown` are
        the client's credentials, or None when the client sends the device code alone. Raises `DeviceCodePending` or `SlowDown` while nobody
        has decided, `DeviceDenied`, `DeviceCodeExpired`, `InvalidGrant`, `Unauthorized` when the client has a credential and does not show
        it, `OrganizationNotActive`, `KeyProofMissing`, and `InvalidTarget`, which leaves the code as it is. The session is bound to the
        `key`.
        """
        found = await self.codes.poll(device_code.digest(), shown, self.system.clock.now())
        if found is None:
            raise InvalidGrant(detail="there is no such device code") if shown is None else client_refused("there is no such client")
        client = await self._authenticated(found.client, shown)
        if client.registered.service_type is ServiceType.PROXY:
            raise UnauthorizedClient
        if client.registered.holds_fapi2:
            raise no_devices()
        client.registered.require_bound(key)
        decision = approved(found.code, self.system.clock.now())
        # An application that keeps a secret sends this request from its own servers, and their address says nothing about the person.
        known = sender if client.is_public else replace(sender, address=None)
        return await self._let_in(decision, client, await self.devices.observe(known), resource, key), client

    async def _authenticated(self, found: RegisteredClient, shown: ClientCredentials | None) -> AuthenticatedClient:
        if shown is not None and shown.method is not AuthenticationMethod.NONE:
            return await self.clients.confirm(found, shown)
        if not may_show_nothing(found):
            raise client_refused("the client has a credential, and shows nothing")
        require_open(found)
        return AuthenticatedClient(found, AuthenticationMethod.NONE)

    async def _audiences(self, client: ClientId, resources: Sequence[str], foreign_scopes: tuple[str, ...]) -> Sequence[TokenAudience]:
        """The APIs that a device names, with the scopes that it asks for there. Only such a device costs more look-ups."""
        if not resources:
            return ()
        registered = await self.client_lookup.find(client, None)
        if registered is None:
            raise client_refused("there is no such client")
        try:
            named = named_resources(resources, foreign_scopes, await self.resources.find(registered.service, resources, None))
        except AuthorizationRefused as refusal:
            raise (InvalidScope if refusal.word is AuthorizationErrorCode.INVALID_SCOPE else InvalidTarget)(refusal.message) from None
        return [
            TokenAudience(one.id, one.identifier, tuple(scope.name for scope in one.scopes if scope.name in foreign_scopes))
            for one in named
        ]

    async def _let_in(
        self,
        decision: DeviceDecision,
        client: AuthenticatedClient,
        approach: Approach,
        resource: str | None,
        key: KeyThumbprint | None,
    ) -> Granted:
        user, service = decision.user, client.registered.service
        async with self.unit_of_work() as uow:
            # `confirm` locks the account. The account is locked before the code, in the same order as in transactions that end both.
            confirmed = await uow.sign_ins.confirm(
                LastLook(user=user, since=decision.at, service=service, organization=client.registered.organization)
            )
            if confirmed is None:
                raise DeviceDenied(detail="the account changed after the approval")
            try:
                context = open_context(confirmed.destination, key=key)
            except (Forbidden, NotFound) as refusal:
                raise DeviceDenied(detail=refusal.message) from None
            now = self.system.clock.now()
            approval = await uow.device_codes.consume(decision.code, now)
            if approval is None:
                raise InvalidGrant(detail="another poll was quicker, or the approval was withdrawn or has become too old")
            try:
                audience = approval.audiences.chosen(resource)
            except NoAudience as refusal:
                raise InvalidTarget(str(refusal)) from None
            # What hooks said when the person approved counts, and a no that one has said since.
            if confirmed.has_hooks and await self._is_refused(uow, approval, user, context):
                raise DeviceDenied(detail="a hook refuses this, or has not let it in")
            knowledge = await uow.devices.knowledge(user, approach)
            sighting = self.devices.judge(approach, knowledge)
            came = Came(
                user=user,
                sighting=sighting,
                way=way_by(approval.authenticated_by),
                service=service,
                shows_two_factors=approval.proved.second_factor_at is not None,
                shows_passkey=shows_key(approval.authenticated_by),
            )
            verdict = judge_sign_in(confirmed.rules_asked, context.organization, came, now)
            if verdict.owes is not None:
                raise DeviceDenied(detail="a rule for risk refuses this")
            arrived = Arrived(
                confirmed=confirmed,
                context=context,
                log_place=context,
                knowledge=knowledge,
                sighting=sighting,
                authenticated_by=approval.authenticated_by,
                proved=approval.proved,
                has_second_factor=approval.proved.second_factor_at is not None,
                provider=PROVIDER,
                decided=verdict.decided,
                by_installation=verdict.by_installation,
            )
            # The session has no parent: signing out in the browser leaves the device signed in.
            sign_in_result = WithTokens(self.sessions, client.registered.application(approval.scopes), key=key)
            admitted = await self.admission.let_in(uow, arrived, sign_in_result)
            if confirmed.has_hooks and approval.session is not None and context.organization is not None:
                opened = admitted.kept.session.id
                await uow.hooks.end_with_silence(opened, approval.session, user, context.organization, context.service)
            if approval.granted:
                await uow.sessions.grant(admitted.kept.session.id, approval.granted)
            await uow.commit()
        self.metrics.device_flow(DeviceStep.LET_IN)
        is_verified = confirmed.account.address_is_verified_for(context.organization)
        return Granted(replace(admitted.kept, audience=audience), is_verified, approval.role, profile=approval.profile)

    @staticmethod
    async def _is_refused(uow: UnitOfWork, approval: DeviceApproval, user: UserId, context: Context) -> bool:
        if approval.session is None or context.organization is None:
            return False
        return await uow.hooks.against(approval.session, user, context.organization, context.service)

    def _pending(self, found: EnteredCode | None) -> EnteredCode:
        if found is None:
            raise UserCodeUnknown
        found.require_pending(self.system.clock.now())
        return found

    async def _decided(self, code: DeviceCodeId, caller: Caller, *states: DeviceCodeState) -> EnteredCode:
        """Answers when the code is decided already, by another person, or by the same person with a form that was sent twice."""
        found = await self.codes.find(code)
        if _has_decided(found, caller, *states):
            return found
        self._pending(found)
        # The code is still pending, so the caller's session has ended.
        raise Unauthorized


def _known(asked: AskedFor | None) -> AskedFor:
    if asked is None:
        raise client_refused("there is no such client in that service")
    if not asked.is_open:
        raise OrganizationNotActive
    if asked.is_agent:
        raise UnauthorizedClient(NOT_BY_CODE)
    if asked.holds_fapi2:
        raise no_devices()
    return asked


def _has_decided(found: EnteredCode | None, caller: Caller, *states: DeviceCodeState) -> TypeGuard[EnteredCode]:
    return found is not None and found.state in states and found.user == caller.user
