"""Whether a directory knows a name is its secret: a wrong password takes as long, and as many round trips, as a name that nobody has."""

import statistics
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
    differences, trips = [], set[int]()
    for number in range(PAIRS):
        took = {}
        pair = ("ada", f"nobody{number}")
        for name in pair if number % 2 else pair[::-1]:
            # The directory has threads of its own, which this clock does not count.
            began = time.thread_time()
            answer = await scene.type(tabs, page, name, f"{PASSWORD} mistyped")
            took[name] = time.thread_time() - began
            assert answer.status == 400
            trips.add(int(scene.log.events("request")[-1]["db_round_trips"]))
        differences.append(took[pair[0]] - took[pair[1]])
    assert len(trips) == 1
    # The median, so that other load on the machine falls on both alike.
    assert abs(statistics.median(differences)) <= 0.001
    binds = [dn for dn, password in scene.directory.binds if password.endswith(b"mistyped")]
    assert len(binds) == 2 * PAIRS
