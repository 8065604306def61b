"""The JWT bearer grant for workloads: the signed token of a trusted issuer, in place of a secret (RFC 7523)."""

import structlog

from core.domain.errors import BadRequest, Unauthorized
from core.domain.federation.oauth.clients import require_open
from core.domain.federation.oauth.grants import IssuedTokens, TokenRequest
from core.domain.federation.oauth.workloads import WorkloadRefused
from core.domain.federation.profiles import assertions_alone
from core.domain.identifiers import ClientId, TrustedIssuerId
from core.domain.identity.upstream.jwt_assertions import AssertionFault, AssertionRefused, SignedToken, TrustedKeys, require_readable
from core.domain.tenancy.keys.trusted_issuers import TrustedIssuer, admitted, farthest, of_issuer
from core.frozen import Frozen
from core.usecases.federation.grants import Grants
from core.usecases.tenancy.keys.key_tokens import KeyTokens
from ports.federation.clients import ClientLookup
from ports.identity.upstream.jwt_assertions import AssertionSignatures
from ports.metrics import Metrics
from ports.presence import Presence
from ports.system import System
from ports.tenancy.keys.trusted_issuers import TrustedIssuerStore

log = structlog.get_logger()


class Workloads(Frozen):
    rules: TrustedIssuerStore
    clients: ClientLookup
    signatures: AssertionSignatures
    grants: Grants
    key_tokens: KeyTokens
    presence: Presence[TrustedIssuerId]
    metrics: Metrics
    system: System

    async def exchange(self, request: TokenRequest, client: ClientId) -> IssuedTokens:
        """A token as the client credentials grant gives it, or one with the rights of a management key. `client` is the client id of a
        service, or the id of the key: the trusted issuers are found by it alone. Raises `BadRequest`, `WorkloadRefused`,
        `OrganizationNotActive`, and for a service the errors of the client credentials grant.
        """
        if request.assertion is None:
            raise BadRequest("assertion: send the signed token of the workload")
        try:
            rule = await self._rule(client, request.assertion.reveal())
        except AssertionRefused as refused:
            log.info("workload_refused", client=client, fault=refused.fault.value, reason=str(refused))
            raise WorkloadRefused(refused.fault, claim=refused.claim, detail=str(refused)) from None
        issued = await self._of_service(request, client) if rule.key is None else await self._of_key(request, rule)
        self.presence.seen(rule.id, self.system.clock.now())
        log.info("workload_admitted", client=client, trusted_issuer=str(rule.id))
        return issued

    async def _rule(self, client: ClientId, assertion: str) -> TrustedIssuer:
        """The first rule that the assertion keeps. Raises `AssertionRefused`."""
        require_readable(assertion)
        now = self.system.clock.now()
        checked: dict[str, SignedToken | AssertionRefused] = {}
        refusals: list[AssertionRefused] = []
        for rule in of_issuer(await self.rules.asked_by(client), assertion):
            # Rules for one issuer mostly have the same keys: one check of the signature is enough for them.
            keys = repr((rule.jwks_uri, rule.jwks))
            if keys not in checked:
                checked[keys] = await self._signed(assertion, rule.keys)
            signed = checked[keys]
            if isinstance(signed, AssertionRefused):
                refusals.append(signed)
                continue
            try:
                admitted(rule, signed, now)
            except AssertionRefused as refused:
                refusals.append(refused)
            else:
                return rule
        raise farthest(refusals)

    async def _signed(self, assertion: str, keys: TrustedKeys) -> SignedToken | AssertionRefused:
        try:
            return await self.signatures.signed(assertion, keys)
        except AssertionRefused as refused:
            return refused

    async def _of_service(self, request: TokenRequest, client: ClientId) -> IssuedTokens:
        registered = await self.clients.find(client, None)
        if registered is None or not registered.service_type.is_confidential:
            # The service was deleted meanwhile, or is installed on people's devices since.
            raise WorkloadRefused(AssertionFault.ISSUER)
        require_open(registered)
        if registered.holds_fapi2:
            raise assertions_alone("a workload came in place of the client's own key")
        return await self.grants.of_client(request, registered)

    async def _of_key(self, request: TokenRequest, rule: TrustedIssuer) -> IssuedTokens:
        if request.scope is not None or request.resources:
            raise BadRequest("scope: a management key's token has the key's rights, and is for no API")
        try:
            token, seconds = await self.key_tokens.issue(rule)
        except Unauthorized as refusal:
            raise WorkloadRefused(AssertionFault.ISSUER, detail=refusal.message) from None
        self.metrics.token_issued()
        return IssuedTokens(token, seconds)
