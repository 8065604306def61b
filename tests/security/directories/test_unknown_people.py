"""Whether a directory knows a name is its secret: a wrong password takes as long, and as many round trips, as a name that nobody has."""

import time

from tests.http.ldap.scene import PASSWORD, LdapScene

PAIRS = 40


async def test_somebody_unknown_takes_as_long_as_somebody_known(scene: LdapScene) -> None:
    provider = await scene.active(lockout_threshold=1000)
    # The person is connected, so that the log of sign-ins names the account.
    await scene.arrive(scene.browser(), provider)
    tabs = scene.browser()
    page = await scene.page(tabs, provider)
    await scene.type(tabs, page, "ada", "wrong")
    known, unknown, trips = list[float](), list[float](), set[int]()
    for number in range(PAIRS):
        pair = ("ada", f"nobody{number}")
        for name in pair if number % 2 else pair[::-1]:
            # The directory has threads of its own, which this clock does not count.
            began = time.thread_time()
            answer = await scene.type(tabs, page, name, f"{PASSWORD} mistyped")
            (known if name == "ada" else unknown).append(time.thread_time() - began)
            assert answer.status == 400
            trips.add(int(scene.log.events("request")[-1]["db_round_trips"]))
    assert len(trips) == 1
    # The quickest of each: other load on the machine makes a try slower, and none quicker.
    assert abs(min(known) - min(unknown)) <= 0.001
    binds = [dn for dn, password in scene.directory.binds if password.endswith(b"mistyped")]
    assert len(binds) == 2 * PAIRS
