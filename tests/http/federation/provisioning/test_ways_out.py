"""Every way out of a run settles it: it has failed, for a reason that has words, and somebody can see what was asked."""

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final

import pytest
import trio

from core.frozen import replace
from core.usecases.federation.provisioning.keeping import ProvisioningKeeping
from ops.stand_ins.fake_remote_system import FakeRemoteSystem, RemoteAnswer
from ops.stand_ins.remote_dialects import RemoteDialect
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.federation.provisioning.test_rarer_runs import crowd
from tests.http.postbox import Postbox
from tests.patience import PATIENCE

_CONNECTION: Final = """
    select state, failing_since is not null as fails, again_at > now() + interval '14 minutes' as rests, leased_until
      from provisioning_connections
"""
_FAILING: Final = {"state": "active", "fails": True, "rests": True, "leased_until": None}


def settled(scene: ProvisioningScene, run: dict[str, Any], why: str) -> None:
    assert (run["state"], run["why"], run["ended_at"] is not None) == ("failed", why, True)
    assert scene.people.rows(_CONNECTION) == [_FAILING]
    assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.failing"]


@pytest.mark.parametrize("kind", ["plan", "whole"])
@pytest.mark.parametrize("status", [400, 404, 405, 410, 422, 501])
async def test_a_list_that_is_refused_fails_with_the_status(
    scene: ProvisioningScene, far: FakeRemoteSystem, status: int, kind: str
) -> None:
    """404 is what a mistyped address answers."""
    scene.active(agreed=kind == "whole")
    far.answers = lambda _: RemoteAnswer(status, {"detail": "not here"})
    settled(scene, await scene.step(), f"status_{status}")
    rows = scene.people.rows("select method, path, status, said from provisioning_exchanges where has_failed")
    assert rows == [{"method": "GET", "path": "/Users?startIndex", "status": status, "said": "not here"}]
    scene.people.change("update provisioning_connections set failing_since = now() - interval '25 hours'")
    await scene.step()
    assert scene.people.rows("select state, stopped_why from provisioning_connections") == [{"state": "stopped", "stopped_why": "failing"}]
    assert [one.to for one in await Postbox(scene.postern).empty() if "/services/shop/" in one.text] == [scene.boss.email]


async def test_an_error_in_other_letters_is_an_error_of_one_person(scene: ProvisioningScene) -> None:
    with raw(
        {"GET": (200, b'{"totalResults": 0, "Resources": []}'), "POST": (400, '{"detail": "Benutzer ungültig"}'.encode("latin-1"))}
    ) as url:
        scene.member("ada@acme.example")
        scene.active(base_url=url)
        run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"left_out": 2})
    assert {why for _, why, _ in scene.named(run)} == {"status_400"}


@pytest.mark.parametrize(
    "body", [b'{"Resources": [{"id": "1", "userName": "\xfc"}]}', b"\xff\xfe[", b"", b"[" * 100_000, b"[1" + b",1" * 400_000]
)
async def test_a_list_that_cannot_be_read_fails(scene: ProvisioningScene, body: bytes) -> None:
    with raw({"GET": (200, body)}) as url:
        scene.active(base_url=url)
        settled(scene, await scene.step(), "malformed_answer")


@contextmanager
def raw(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    """A server that answers with these bytes, by method."""
    with FakeRemoteSystem() as inner:

        def answer(stream: Any, method: str, *_: Any) -> bool:
            status, body = answers[method]
            stream.sendall(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            return True

        inner._answered = answer  # type: ignore[method-assign, assignment]
        yield inner.url


async def test_one_id_for_everybody_is_one_persons(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """A system that answers each POST with the one that it has."""
    for number in range(25):
        scene.member(f"p{number:02}@acme.example")
    scene.active()
    far.answers_id = "same-for-all"
    run = await scene.step()
    assert (run["state"], scene.counts(run)) == ("done", {"made": 1, "left_out": 25})
    assert {why for what, why, _ in scene.named(run) if what == "left_out"} == {"far_id_of_another"}
    assert len([one for one in scene.there().values() if one["far_id"] is not None]) == 1
    assert len(far.writes()) == 26, "each is sent once"
    assert scene.people.rows("select failing_since, leased_until from provisioning_connections") == [
        {"failing_since": None, "leased_until": None}
    ]


@contextmanager
def nobody_listens() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}/scim/v2"


async def test_a_system_that_takes_no_connection_fails_at_the_first_person(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    await crowd(scene, 12)
    for name in ("ada", "bob"):
        scene.member(f"{name}@acme.example")
    with nobody_listens() as url:
        scene.people.change("update provisioning_connections set base_url = %s", url)
        run = await scene.changed()
    assert run["kind"] == "changes"
    settled(scene, run, "connection_failed")
    assert scene.people.rows("select from provisioning_marks where marked_at > now()") == [], "nobody waits for hours"
    assert len(scene.people.rows("select unnest(taken) from provisioning_connections")) == 2
    # It is back, and they are there with the next look.
    scene.people.change("update provisioning_connections set base_url = %s", far.url)
    await scene.changed()
    assert {"ada@acme.example", "bob@acme.example"} <= far.active()
    assert scene.people.rows("select failing_since from provisioning_connections") == [{"failing_since": None}]


@pytest.mark.parametrize("address", ["nobody.invalid", "127.0.0.2"])
async def test_a_name_that_leads_nowhere_or_inside_fails_at_the_first_person(scene: ProvisioningScene, address: str) -> None:
    await crowd(scene, 12)
    scene.member("ada@acme.example")
    scene.people.change("update provisioning_connections set base_url = %s", f"http://{address}/scim/v2")
    settled(scene, await scene.changed(), "name_not_found" if "nobody" in address else "address_not_allowed")


async def test_nobody_ends_at_a_system_that_takes_no_connection(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    ada, *_ = await crowd(scene, 12)
    scene.leaves(ada)
    with nobody_listens() as url:
        scene.people.change("update provisioning_connections set base_url = %s", url)
        settled(scene, await scene.changed(), "connection_failed")
    assert (scene.there()[ada.email]["state"], scene.there()[ada.email]["active"]) == ("sent", True)
    scene.people.change("update provisioning_connections set base_url = %s", far.url)
    await scene.changed()
    assert ada.email not in far.active()


async def test_whoever_ignores_the_place_in_the_list_is_asked_for_each(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """As SCIMMY 1.3.5 does: each page is the first one."""
    far.dialect = RemoteDialect(longest_page=20, pages=False)
    for number in range(30):
        far.add(f"p{number:02}@acme.example")
        scene.member(f"p{number:02}@acme.example")
    ada = scene.member("ada@acme.example")
    scene.active(agreed=False)
    plan = await scene.step()
    assert (plan["state"], scene.counts(plan)) == ("waiting", {"matched": 30, "made": 2})
    assert far.writes() == []
    scene.agree(plan)
    run = await scene.step(whole=False)
    assert (run["state"], scene.counts(run)) == ("done", {"matched": 30, "made": 2})
    assert (len(far.everybody()), far.doubles()) == (32, [])
    assert scene.counts(await scene.step()) == {"unchanged": 32}
    scene.leaves(ada)
    assert scene.counts(await scene.step()) == {"ended": 1, "unchanged": 31}


@pytest.mark.parametrize(
    "dialect",
    [RemoteDialect(longest_page=20, pages=False, filters=frozenset()), RemoteDialect(longest_page=20, pages=False, ignores_filters=True)],
    ids=["refuses filters", "ignores filters"],
)
async def test_whoever_takes_no_filters_either_makes_no_doubles(
    scene: ProvisioningScene, far: FakeRemoteSystem, dialect: RemoteDialect
) -> None:
    far.dialect = dialect
    for number in range(30):
        far.add(f"p{number:02}@acme.example")
        scene.member(f"p{number:02}@acme.example")
    scene.active()
    settled(scene, await scene.step(), "repeated_page")
    assert far.writes() == []


# Whatever breaks.


class Unforeseen(RuntimeError):
    """Nobody has foreseen it."""


class Breaks:
    """Stands before the stores and the other system. The first call of this name raises, and all calls are noted."""

    def __init__(self, name: str = "") -> None:
        self.name, self.called = name, set[str]()

    def before(self, inner: Any, kind: str) -> Any:
        return _Before(self, inner, kind)

    def keeping(self, keeping: ProvisioningKeeping) -> ProvisioningKeeping:
        @asynccontextmanager
        async def opened(made: AbstractAsyncContextManager[Any]) -> Any:
            async with made as uow:
                yield _Stores(self, uow)

        new = keeping.unit_of_work
        return replace(
            keeping,
            unit_of_work=lambda *given, **named: opened(new(*given, **named)),
            runs=self.before(keeping.runs, "runs"),
            people=self.before(keeping.people, "people"),
            far=self.before(keeping.far, "far"),
            keyring=self.before(keeping.keyring, "keyring"),
            pace=self.before(keeping.pace, "pace"),
        )


class _Before:
    def __init__(self, breaks: Breaks, inner: Any, kind: str) -> None:
        self._breaks, self._inner, self._kind = breaks, inner, kind

    def __getattr__(self, name: str) -> Any:
        found, called = getattr(self._inner, name), f"{self._kind}.{name}"

        def call(*given: Any, **named: Any) -> Any:
            self._breaks.called.add(called)
            if self._breaks.name == called:
                self._breaks.name = ""
                raise Unforeseen(called)
            return found(*given, **named)

        return call


class _Stores:
    def __init__(self, breaks: Breaks, uow: Any) -> None:
        self._uow = uow
        self.provisioning_runs = breaks.before(uow.provisioning_runs, "kept runs")
        self.provisioned_people = breaks.before(uow.provisioned_people, "kept people")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._uow, name)


def prepared(scene: ProvisioningScene, far: FakeRemoteSystem, kind: str) -> None:
    """Somebody is to be made, matched, changed, ended and deleted."""
    scene.people.change("delete from provisioning_connections")
    scene.active(base_url=far.url, agreed=kind != "plan")
    if kind == "changes":
        scene.people.change("update provisioning_connections set whole_due_at = null")
    sent = (
        "insert into provisioned_people (connection_id, user_id, far_id, active, state, changed_at)"
        " select %s, (select id from users where email = %s), %s, true, %s, now()"
    )
    for email, state in (("carl@acme.example", "sent"), ("dora@acme.example", "sent"), (None, "to_delete")):
        user = scene.people.rows("select id from users where email = %s", email)
        there = far.add(email or "eve@acme.example", externalId=str(user[0]["id"]) if user else None)
        scene.people.change(sent, scene.connection, email, there["id"], state)
    far.add("bob@acme.example")
    if kind == "changes":
        scene.people.change("insert into provisioning_marks select %s, id, now() - interval '1 second' from users", scene.connection)


PLACES: Final = {
    "plan": {"far.page", "far.delete", "people.page", "people.known", "people.to_delete", "pace.turn", "pace.breathe"},
    "whole": {
        *("far.page", "far.find", "far.read", "far.make", "far.change", "far.delete"),
        *("people.page", "people.people", "people.known", "people.to_delete", "people.ended_lately", "keyring.open", "runs.find"),
        *("pace.turn", "pace.breathe", "pace.together"),
        *("kept runs.renew_lease", "kept runs.begin", "kept runs.name", "kept runs.save", "kept runs.settle", "kept runs.note_exchanges"),
        *("kept people.save", "kept people.gone", "kept people.delay"),
    },
    "changes": {
        *("far.find", "far.read", "far.make", "far.change", "far.delete", "people.people", "people.known", "people.ended_lately"),
        *("kept runs.take_marks", "kept runs.finish_marks", "kept runs.begin", "kept runs.settle", "kept people.save"),
    },
}


@pytest.mark.parametrize("kind", ["plan", "whole", "changes"])
async def test_whatever_breaks_a_run_settles_it(scene: ProvisioningScene, kind: str) -> None:
    """In each place: every call that a run makes breaks once."""
    for name in ("ada", "bob", "carl"):
        scene.member(f"{name}@acme.example", given_name=name)
    scene.people.proved("dora@acme.example")

    async def carried_out(breaks: Breaks) -> Callable[[], dict[str, Any]]:
        with FakeRemoteSystem(token=scene.far.token) as far:
            prepared(scene, far, kind)
            keeping = breaks.keeping(scene.keeping)
            (work,) = await scene.keeping.claim_due(1)
            with trio.fail_after(PATIENCE):
                await keeping.run(work)
        return scene.newest

    whole = Breaks()
    assert (await carried_out(whole))()["state"] in {"waiting", "done"}
    missing = PLACES[kind] - whole.called
    assert missing == set(), "the scene has all that a run meets"
    for place in sorted(whole.called):
        scene.people.change("delete from events")
        with pytest.raises(Unforeseen):
            await carried_out(Breaks(place))
        (row,) = scene.people.rows(_CONNECTION)
        assert row == _FAILING, place
        assert scene.people.rows("select from provisioning_runs where state = 'running'") == [], place
        runs = scene.people.rows("select state, why from provisioning_runs")
        assert all(one in ({"state": "failed", "why": "broken"}, {"state": "done", "why": None}) for one in runs), (place, runs)
        assert scene.people.rows("select said from provisioning_exchanges where said = 'broken'") != [], place
        assert [one["name"] for one in scene.told() if "provisioning" in one["name"]] == ["service.provisioning.failing"], place


async def test_a_shutdown_settles_nothing(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """The run is none that has failed: another process goes on when the lease ends."""
    scene.active()
    far.holds_behind = {1}
    (work,) = await scene.keeping.claim_due(1)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.keeping.run, work)
            await far.met(lambda one: len(one.writes()) >= 1)
            nursery.cancel_scope.cancel()
    far.go_on()
    assert scene.newest()["state"] == "running"
    assert scene.people.rows("select failing_since, leased_until > now() as held from provisioning_connections") == [
        {"failing_since": None, "held": True}
    ]
