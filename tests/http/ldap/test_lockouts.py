"""Nobody locks people out of their directory by us."""

import threading

import pytest
import trio

from tests.http.ldap.scene import PASSWORD, LdapScene
from tests.ldap.fake import entry, result


def wrong(scene: LdapScene) -> int:
    return len([dn for dn, password in scene.directory.binds if dn.startswith("uid=") and password == b"wrong"])


async def test_we_stop_two_before_the_directory_does(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=5)
    for _ in range(3):
        assert (await scene.arrive(scene.browser(), provider, password="wrong")).status == 400
    # Whoever knows the right one has to wait, too, under whatever name, and in whatever case.
    for name in ("ada", "ADA", "ada@example.org"):
        assert (await scene.arrive(scene.browser(), provider, name, "wrong")).status == 429
    assert (await scene.arrive(scene.browser(), provider)).status == 429
    assert wrong(scene) == 3
    assert (await scene.arrive(scene.browser(), provider, "bob")).status == 303


async def test_a_right_password_forgets_the_wrong_ones(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=5)
    for _ in range(2):
        await scene.arrive(scene.browser(), provider, password="wrong")
    assert (await scene.arrive(scene.browser(), provider)).status == 303
    for _ in range(3):
        assert (await scene.arrive(scene.browser(), provider, password="wrong")).status == 400
    assert (await scene.arrive(scene.browser(), provider, password="wrong")).status == 429


async def test_a_name_that_nobody_has_is_counted_in_any_form(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=3)
    assert (await scene.arrive(scene.browser(), provider, "straße", "wrong")).status == 400
    for name in ("STRASSE", "".join(chr(0xFEE0 + ord(one)) for one in "strasse"), " straße "):
        assert (await scene.arrive(scene.browser(), provider, name, "wrong")).status == 429


async def test_the_window_begins_with_the_last_password(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=3, lockout_minutes=10)
    await scene.arrive(scene.browser(), provider, password="wrong")
    assert (await scene.arrive(scene.browser(), provider)).status == 429
    (row,) = scene.people.rows("select expires_at - now() as rest from directory_failures")
    assert 590 < row["rest"].total_seconds() <= 600
    scene.people.change("update directory_failures set expires_at = now() - interval '1 second'")
    assert (await scene.arrive(scene.browser(), provider)).status == 303


async def test_many_at_once_get_no_further(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=5)
    tabs = [scene.browser() for _ in range(8)]
    pages = [await scene.page(one, provider) for one in tabs]
    statuses: list[int] = []

    async def guess(at: int) -> None:
        statuses.append((await scene.type(tabs[at], pages[at], "ada", "wrong")).status)

    async with trio.open_nursery() as nursery:
        for at in range(8):
            nursery.start_soon(guess, at)
    assert sorted(statuses) == [400] * 3 + [429] * 5
    assert wrong(scene) == 3


async def test_a_right_password_that_does_not_count_is_no_wrong_one(scene: LdapScene) -> None:
    scene.directory.add("carol", refused_with="80090308: LdapErr: comment: AcceptSecurityContext error, data 532, v4563")
    provider = await scene.active(lockout_threshold=3)
    for _ in range(3):
        assert (await scene.arrive(scene.browser(), provider, "carol")).status == 400
    scene.directory.people[-1].refused_with = ""
    assert (await scene.arrive(scene.browser(), provider, "carol", PASSWORD)).status == 303


@pytest.mark.parametrize("said", [b"garbage", result(0x61, 1, 51, "busy"), result(0x61, 1, 3, "time limit")])
async def test_a_hiccup_of_the_directory_is_no_wrong_password(scene: LdapScene, said: bytes) -> None:
    provider = await scene.active(lockout_threshold=3)
    scene.directory.answers = lambda _, operation, body: said if operation == 0x60 and b"uid=ada" in body else None
    for _ in range(3):
        assert (await scene.arrive(scene.browser(), provider)).status == 503
    scene.directory.answers = None
    assert (await scene.arrive(scene.browser(), provider)).status == 303


async def test_whoever_hangs_up_meanwhile_has_sent_a_wrong_password(scene: LdapScene) -> None:
    """Otherwise a stranger who hangs up each time could go on for ever."""
    provider, tabs = await scene.active(), scene.browser()
    page = await scene.page(tabs, provider)
    release = threading.Event()

    def waits(_number: int, operation: int, body: bytes) -> bytes | None:
        if operation == 0x60 and b"uid=ada" in body:
            scene.directory.binds.append(("uid=ada", b"late"))
            release.wait(10)
        return None

    scene.directory.answers = waits
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.type, tabs, page, "ada", "wrong")
        while ("uid=ada", b"late") not in scene.directory.binds:
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    release.set()
    assert scene.people.rows("select failures, under_way from directory_failures") == [{"failures": 1, "under_way": 0}]


def reads(scene: LdapScene, **policies: dict[str, list[bytes]]) -> None:
    """The directory lets the bind account read these policies."""

    def said(number: int, operation: int, body: bytes) -> bytes | None:
        if operation != 0x63 or b"pwdPolicy" not in body:
            return None
        return b"".join(entry(number, f"cn={name}", policy) for name, policy in policies.items()) + result(0x65, number)

    scene.directory.answers = said


@pytest.mark.parametrize("finer", [b"10", b"0"])
async def test_the_strictest_of_several_policies_counts(scene: LdapScene, finer: bytes) -> None:
    """Active Directory locks after three; a finer policy for some is readable, too."""
    scene.directory.threshold = 3
    reads(scene, finer={"msDS-LockoutThreshold": [finer], "msDS-LockoutObservationWindow": [b"-36000000000"]}, empty={})
    provider = await scene.active()
    for _ in range(4):
        await scene.arrive(scene.browser(), provider, password="wrong")
    assert wrong(scene) == 1
    (row,) = scene.people.rows("select expires_at - now() as rest from directory_failures")
    assert row["rest"].total_seconds() > (3590 if finer == b"10" else 1790)


async def test_a_finer_policy_counts_beside_a_looser_root(scene: LdapScene) -> None:
    scene.directory.threshold = 10
    reads(scene, finer={"msDS-LockoutThreshold": [b"4"]})
    provider = await scene.active()
    for _ in range(4):
        await scene.arrive(scene.browser(), provider, password="wrong")
    assert wrong(scene) == 2


@pytest.mark.parametrize("interval", [{}, {"pwdFailureCountInterval": [b"0"]}, {"pwdFailureCountInterval": [b"9" * 19]}])
async def test_a_directory_that_never_forgets_is_given_a_day(scene: LdapScene, interval: dict[str, list[bytes]]) -> None:
    """Only a right password resets its counter."""
    reads(scene, default={"pwdLockout": [b"TRUE"], "pwdMaxFailure": [b"5"], **interval})
    provider = await scene.active()
    for _ in range(4):
        await scene.arrive(scene.browser(), provider, password="wrong")
    scene.people.change("update directory_failures set expires_at = expires_at - interval '23 hours'")
    for _ in range(4):
        await scene.arrive(scene.browser(), provider, password="wrong")
    assert wrong(scene) == 3


async def test_the_recorder_names_the_last_person(scene: LdapScene) -> None:
    """Each counted entry, so that an administrator finds out whose password somebody types."""
    scene.directory.add("carol", dn="uid=carol\0,ou=people,dc=example,dc=org")
    provider = await scene.active(lockout_threshold=3)
    for name in ("bob", "ada", "ada", "nobody", "carol"):
        await scene.arrive(scene.browser(), provider, name, "wrong")
    reasons = {one["fault"]: (one["reason"], one["times"]) for one in await scene.recorded(provider) if not one["succeeded"]}
    assert "Last: uid=ada,ou=people" in reasons["throttled"][0]
    assert "Last: nobody." in reasons["unknown"][0]
    assert ("Last: uid=carol·,ou=people" in reasons["wrong"][0], reasons["wrong"][1]) == (True, 3)
