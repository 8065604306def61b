"""Tokens with the rights of a management key: given to workloads, and shown by them on every request."""

from core.domain.errors import OrganizationNotActive, Unauthorized
from core.domain.identifiers import ManagementKeyId
from core.domain.secrets import Token
from core.domain.tenancy.keys.key_tokens import LIFETIME, OF_WORKLOAD, key_claims, key_token
from core.domain.tenancy.keys.management_keys import ManagementKeyHolder
from core.domain.tenancy.keys.trusted_issuers import TrustedIssuer
from core.frozen import Frozen
from ports.presence import Presence
from ports.system import System
from ports.tenancy.keys.management_keys import ManagementKeyLookup
from ports.tokens import TokenSigner, TokenVerifier

_REFUSED = "The management key is not valid"


class KeyTokens(Frozen):
    lookup: ManagementKeyLookup
    signer: TokenSigner
    verifier: TokenVerifier
    presence: Presence[ManagementKeyId]
    system: System
    issuer: str

    async def issue(self, rule: TrustedIssuer) -> tuple[Token, int]:
        """A token, and the seconds that it lives. Raises `Unauthorized` when the key has ended or expired, and `OrganizationNotActive`."""
        assert rule.key is not None  # noqa: S101 - for the type checker: the caller has found the rule by its key
        now = self.system.clock.now()
        known = await self.lookup.find_trusting(rule.key, rule.id, rule.updated_at)
        if known is None or known.expires_at is None or known.is_expired(now):
            raise Unauthorized(_REFUSED)
        if not known.organization_is_active:
            raise OrganizationNotActive
        expires_at = min(now + LIFETIME, known.expires_at)
        token_id = str(self.system.ids.new())
        claims = key_claims(known.holder, rule, issuer=self.issuer, token_id=token_id, now=now, expires_at=expires_at)
        return Token(f"{OF_WORKLOAD}_{await self.signer.sign_access(claims)}"), int((expires_at - now).total_seconds())

    async def resolve(self, token: str) -> ManagementKeyHolder:
        """The holder of the key behind the token. Raises `TokenExpired`, `TokenInvalid`, `OrganizationNotActive`, and `Unauthorized` when
        the key has ended or expired, or the trusted issuer is gone or has changed.
        """
        claimed = key_token(await self.verifier.verify_issued(token.removeprefix(f"{OF_WORKLOAD}_")))
        known = await self.lookup.find_trusting(claimed.key, claimed.rule, claimed.rule_of)
        now = self.system.clock.now()
        if known is None or known.is_expired(now):
            raise Unauthorized(_REFUSED)
        if not known.organization_is_active:
            raise OrganizationNotActive
        self.presence.seen(claimed.key, now)
        return known.holder
