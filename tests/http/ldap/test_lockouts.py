"""Nobody locks people out of their directory by us."""

import trio

from tests.http.ldap.scene import PASSWORD, LdapScene


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
