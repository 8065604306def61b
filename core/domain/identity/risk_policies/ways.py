"""How rules for risk name the ways to sign in."""

from collections.abc import Collection
from typing import Final

from core.domain.identity.passkeys import KEY_METHODS, PASSKEY_PROVIDER
from core.domain.identity.risk_policies.policies import SignInWay
from core.domain.identity.sign_in import LINK_PROVIDER, PASSWORD_PROVIDER

_WAYS: Final = {PASSWORD_PROVIDER: SignInWay.PASSWORD, LINK_PROVIDER: SignInWay.LINK, PASSKEY_PROVIDER: SignInWay.PASSKEY}


def way_of(provider: str) -> SignInWay:
    """Reads the name of a way to sign in, as login events have it. All others are providers and directories."""
    return _WAYS.get(provider, SignInWay.PROVIDER)


_KEYS: Final = frozenset(shown[0] for shown in KEY_METHODS.values())


def shows_key(methods: Collection[str]) -> bool:
    """Whether a passkey is among what a session has shown."""
    return not _KEYS.isdisjoint(methods)


def way_by(methods: Collection[str]) -> SignInWay:
    """The way by which a session was opened, as far as its methods say."""
    if shows_key(methods):
        return SignInWay.PASSKEY
    if "pwd" in methods:
        return SignInWay.PASSWORD
    return SignInWay.LINK if "link" in methods else SignInWay.PROVIDER
