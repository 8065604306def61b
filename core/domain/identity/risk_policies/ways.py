"""How rules for risk name the ways to sign in."""

from typing import Final

from core.domain.identity.passkeys import PASSKEY_PROVIDER
from core.domain.identity.risk_policies.policies import SignInWay
from core.domain.identity.sign_in import LINK_PROVIDER, PASSWORD_PROVIDER

_WAYS: Final = {PASSWORD_PROVIDER: SignInWay.PASSWORD, LINK_PROVIDER: SignInWay.LINK, PASSKEY_PROVIDER: SignInWay.PASSKEY}


def way_of(provider: str) -> SignInWay:
    """Reads the name of a way to sign in, as login events have it. All others are providers and directories."""
    return _WAYS.get(provider, SignInWay.PROVIDER)
