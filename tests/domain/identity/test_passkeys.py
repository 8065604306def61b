"""Passkeys: our name for authenticators, the binding of a challenge, counters, and the last way to sign in."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.identifiers import PasskeyId, UserId
from core.domain.identity.mfa import MfaMethod
from core.domain.identity.passkeys import (
    Ceremony,
    Obstacle,
    Passkey,
    PasskeysUnavailable,
    RelyingParty,
    challenge_digest,
    has_gone_back,
    relying_party,
)
from core.domain.identity.proofs import LastWayIn, WaysIn, require_another
from core.domain.identity.sign_in import methods
from core.frozen import replace

PASSKEY = Passkey(
    id=PasskeyId(UUID(int=1)),
    user=UserId(UUID(int=2)),
    credential_id=b"id",
    public_key=b"key",
    sign_count=0,
    name="Laptop",
    aaguid=UUID(int=0),
    transports=(),
    backup_eligible=False,
    backed_up=False,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://id.example.org", RelyingParty("id.example.org", "https://id.example.org")),
        ("https://id.example.org:443", RelyingParty("id.example.org", "https://id.example.org")),
        ("https://ID.example.org:8443", RelyingParty("id.example.org", "https://id.example.org:8443")),
        ("http://localhost:8000", RelyingParty("localhost", "http://localhost:8000")),
        ("http://localhost:80", RelyingParty("localhost", "http://localhost")),
        ("http://id.localhost:8000", RelyingParty("id.localhost", "http://id.localhost:8000")),
        ("http://id.example.org", Obstacle.INSECURE),
        ("http://notlocalhost", Obstacle.INSECURE),
        ("http://127.0.0.1:8000", Obstacle.ADDRESS),
        ("https://192.0.2.1", Obstacle.ADDRESS),
        ("https://[2001:db8::1]:8443", Obstacle.ADDRESS),
    ],
)
def test_who_we_are_follows_from_the_base_url(base_url: str, expected: RelyingParty | Obstacle) -> None:
    assert relying_party(base_url) == expected


def test_the_operator_may_name_another_host_and_further_origins() -> None:
    old, shop = "https://id.old.example", "https://shop.example"
    moved = relying_party("https://id.example.org:443", "id.old.example", (old, "https://id.example.org", shop))
    assert isinstance(moved, RelyingParty)
    assert (moved.id, moved.origins) == ("id.old.example", ("https://id.example.org", old, shop))
    assert (moved.is_related, moved.is_of_several, moved.apart) == (True, True, ["https://id.example.org", shop])
    # A host above ours needs no relation, and one that merely ends alike does.
    above = relying_party("https://id.example.org", "example.org")
    assert isinstance(above, RelyingParty)
    assert (above.is_related, above.is_of_several, above.apart) == (False, True, [])
    alike = relying_party("https://my-example.org", "example.org")
    assert isinstance(alike, RelyingParty)
    assert alike.apart == ["https://my-example.org"]
    usual = relying_party("https://ID.example.org:8443")
    assert isinstance(usual, RelyingParty)
    assert (usual.origins, usual.is_related, usual.is_of_several) == (("https://id.example.org:8443",), False, False)
    # Pages without a host that is a name, or without https, have no passkeys, whatever they would belong to.
    assert relying_party("https://192.0.2.1", "id.old.example") is Obstacle.ADDRESS
    assert relying_party("http://id.example.org", "id.old.example") is Obstacle.INSECURE


@pytest.mark.parametrize("obstacle", list(Obstacle))
def test_each_obstacle_has_its_words(obstacle: Obstacle) -> None:
    refusal = PasskeysUnavailable(obstacle)
    assert refusal.message.startswith("Passkeys require")
    assert refusal.words == f"passkeys_{obstacle.value}"


def test_a_challenge_is_found_by_nobody_else_and_for_nothing_else() -> None:
    asked = [
        (challenge, ceremony, bound) for challenge in ("one", "two", "\ud800") for ceremony in Ceremony for bound in (b"", b"a", b"ab")
    ]
    assert len({challenge_digest(*one) for one in asked}) == len(asked)
    assert challenge_digest("one", Ceremony.SIGN_IN, b"a") == challenge_digest("one", Ceremony.SIGN_IN, b"a")


@pytest.mark.parametrize(
    ("kept", "told", "expected"), [(0, 0, False), (0, 1, False), (5, 6, False), (5, 900, False), (5, 5, True), (5, 4, True), (5, 0, True)]
)
def test_a_counter_goes_up_or_stays_nought(kept: int, told: int, expected: bool) -> None:
    assert has_gone_back(kept, told) is expected


def test_how_it_is_called_in_tokens() -> None:
    synced = replace(PASSKEY, backup_eligible=True)
    assert (PASSKEY.method, PASSKEY.amr) == (MfaMethod.PASSKEY, ("hwk", "user", "mfa"))
    assert (synced.method, synced.amr) == (MfaMethod.SYNCED_PASSKEY, ("swk", "user", "mfa"))
    assert methods(("pwd",), PASSKEY.method) == ("pwd", "hwk", "user", "mfa")
    assert methods(("link",), synced.method) == ("link", "swk", "user", "mfa")


@pytest.mark.parametrize("left", [WaysIn(True, 0, 0), WaysIn(False, 1, 0), WaysIn(False, 0, 1), WaysIn(True, 2, 3)])
def test_a_way_in_may_go_where_another_is_left(left: WaysIn) -> None:
    require_another(left)


def test_the_last_one_stays() -> None:
    with pytest.raises(LastWayIn, match="last sign-in method of the account"):
        require_another(WaysIn(password=False, passkeys=0, identities=0))
