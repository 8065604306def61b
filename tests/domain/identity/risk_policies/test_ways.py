"""By which way somebody came, as far as the methods of a session say."""

import pytest

from core.domain.identity.risk_policies.policies import SignInWay
from core.domain.identity.risk_policies.shadow import way_by


@pytest.mark.parametrize(
    ("methods", "way"),
    [
        (("hwk", "user", "mfa"), SignInWay.PASSKEY),
        (("pwd",), SignInWay.PASSWORD),
        (("pwd", "otp", "mfa"), SignInWay.PASSWORD),
        (("link",), SignInWay.LINK),
        (("fed",), SignInWay.PROVIDER),
        ((), SignInWay.PROVIDER),
    ],
)
def test_the_way_follows_from_what_was_shown(methods: tuple[str, ...], way: SignInWay) -> None:
    assert way_by(methods) is way
