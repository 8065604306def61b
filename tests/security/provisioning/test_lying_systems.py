"""Another system lies: it leads inside, answers without end or with nonsense, names somebody else, repeats our token, and writes texts that
would do something on a page.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

import pytest

from ops.stand_ins.fake_remote_system import Arrived, FakeRemoteSystem, RemoteAnswer
from tests.http.federation.provisioning.scene import ProvisioningScene

ADA = "ada@acme.example"


@contextmanager
def inside() -> Iterator[tuple[int, list[Any]]]:
    """A port at another loopback address, which outbound calls may not reach; and who has called there."""
    called: list[Any] = []
    listener = socket.create_server(("127.0.0.2", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                stream, address = listener.accept()
                called.append(address)
                stream.close()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield listener.getsockname()[1], called


async def test_an_address_inside_is_not_called(scene: ProvisioningScene) -> None:
    with inside() as (port, called):
        for base_url in (
            f"http://127.0.0.2:{port}/scim/v2",
            f"http://[::ffff:127.0.0.2]:{port}/scim/v2",
            "http://169.254.169.254/latest",
            "http://10.0.0.1/scim/v2",
        ):
            scene.people.change("delete from provisioning_connections")
            scene.active(base_url=base_url)
            run = await scene.step()
            assert run["state"] == "failed", base_url
        assert called == []
    assert scene.people.rows("select from provisioned_people") == []


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_redirect_is_not_followed_and_the_token_goes_nowhere(scene: ProvisioningScene, far: FakeRemoteSystem, method: str) -> None:
    ada = scene.member(ADA)
    scene.active()
    if method in {"PATCH", "DELETE"}:
        await scene.step()
        scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    if method == "DELETE":
        scene.people.change("update provisioned_people set user_id = null where user_id = %s", ada.user)
    with FakeRemoteSystem(token=far.token) as elsewhere:
        there = {"location": f"{elsewhere.url}/Users"}
        far.answers = lambda asked: RemoteAnswer(307, None, there) if asked.method == method else None
        before = len(far.everybody())
        run = await scene.step()
        assert (run["state"], run["why"]) == ("failed", "redirect") or method == "DELETE"
        assert elsewhere.arrived == []
        assert len(far.everybody()) == before


async def test_an_answer_of_a_gigabyte_is_read_for_a_moment(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member(ADA)
    scene.active()
    far.is_huge = True
    assert (await scene.step())["why"] == "answer_too_long"
    assert far.sent < 64 << 20
    far.is_huge = False
    await scene.step()
    assert far.active() == {ADA, scene.boss.email}


NONSENSE: dict[str, Any] = {
    "a list in place of an object": ["x"],
    "no resources": {"totalResults": 3},
    "null among the resources": {"totalResults": 1, "Resources": [None]},
    "a number that is none": {"totalResults": "many", "Resources": []},
    "a number without end": {"totalResults": 10**40, "Resources": []},
    "less than nobody": {"totalResults": -1, "Resources": [{"id": "1"}]},
    "an id that is true": {"totalResults": 1, "Resources": [{"id": True, "userName": ADA}]},
    "an id that is an object": {"totalResults": 1, "Resources": [{"id": {"a": 1}, "userName": ADA}]},
    "an id that leads elsewhere": {"totalResults": 1, "Resources": [{"id": "..", "userName": ADA}]},
    "an id with a zero byte": {"totalResults": 1, "Resources": [{"id": "a\x00b", "userName": ADA}]},
    "an id with a line": {"totalResults": 1, "Resources": [{"id": "a\r\nhost: b", "userName": ADA}]},
    "an id of a megabyte": {"totalResults": 1, "Resources": [{"id": "a" * 900_000, "userName": ADA}]},
    "half a character": {"totalResults": 1, "Resources": [{"id": "\ud800", "userName": "\ud800"}]},
    "a name that is a list": {"totalResults": 1, "Resources": [{"id": "1", "userName": [ADA], "externalId": {"a": []}, "active": []}]},
    "emails that are none": {"totalResults": 1, "Resources": [{"id": "1", "userName": ADA, "emails": "x", "name": 3}]},
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_in_a_list_ends_the_run_at_most(scene: ProvisioningScene, far: FakeRemoteSystem, answer: Any) -> None:
    """Afterwards, everything is as if the run had not been."""
    scene.member(ADA)
    scene.active()
    far.answers = lambda asked: RemoteAnswer(200, answer) if "startIndex" in asked.target else None
    assert (await scene.step())["state"] in {"failed", "done"}
    far.answers = None
    assert (await scene.step())["state"] == "done"
    assert far.active() == {ADA, scene.boss.email}
    assert far.doubles() == []
    assert scene.there()[ADA]["active"]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("answer", [[], {}, {"id": ""}, {"id": "\x00"}, {"id": 1.5}, {"id": None}, "x", {"id": {"id": "1"}}], ids=repr)
async def test_nonsense_about_a_person_changes_nothing_of_theirs(
    scene: ProvisioningScene, far: FakeRemoteSystem, method: str, answer: Any
) -> None:
    ada = scene.member(ADA)
    scene.active()
    if method != "POST":
        await scene.step()
        scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    before = scene.there()
    far.answers = lambda asked: RemoteAnswer(200, answer) if asked.method == method and "startIndex" not in asked.target else None
    await scene.step()
    after = scene.there()
    assert {name: row["far_id"] for name, row in before.items()}.items() <= {name: row["far_id"] for name, row in after.items()}.items()
    far.answers = None
    assert (await scene.step())["state"] == "done"
    assert far.active() == {ADA, scene.boss.email}
    assert far.doubles() == []


async def test_ids_are_one_part_of_a_path(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    """Whoever chooses the id of a person must not choose the address that our token asks."""
    ada = scene.member(ADA)
    strange = "../../admin?x=1#y/%2e%2e/ö"
    far.people.keep({"id": strange, "userName": ADA, "active": True})
    scene.active()
    asked: list[str] = []

    def watch(arrived: Arrived) -> RemoteAnswer | None:
        if arrived.path.endswith("/ServiceProviderConfig"):
            return None
        asked.append(arrived.target)
        if arrived.method == "GET" and "startIndex" not in arrived.target and "filter" not in arrived.target:
            return RemoteAnswer(200, far.people.resources[strange])
        return RemoteAnswer(200, {**far.people.resources[strange], **arrived.body}) if arrived.method in {"PATCH", "PUT"} else None

    far.answers = watch
    await scene.step()
    scene.people.change("update users set given_name = 'Ada' where id = %s", ada.user)
    await scene.step()
    at_people = [one for one in asked if one.startswith("/scim/v2/Users/")]
    assert at_people != []
    assert {unquote(one.removeprefix("/scim/v2/Users/")) for one in at_people} == {strange}
    assert all("/" not in one.removeprefix("/scim/v2/Users/") and "?" not in one for one in at_people)
    assert all(one.startswith("/scim/v2/Users") for one in asked)


async def test_an_answer_that_names_another_of_our_people_takes_nobody_over(scene: ProvisioningScene, far: FakeRemoteSystem) -> None:
    scene.member(ADA)
    bob = scene.member("bob@acme.example")
    scene.active()
    await scene.step()
    of_bob = scene.there()["bob@acme.example"]
    eve = scene.member("eve@acme.example")
    far.answers_id = of_bob["far_id"]
    for _ in range(2):
        await scene.step()
        assert scene.there()["bob@acme.example"]["far_id"] == of_bob["far_id"]
        assert scene.there()["eve@acme.example"]["far_id"] != of_bob["far_id"]
    far.answers_id = ""
    # Eve's end would otherwise be Bob's.
    scene.leaves(eve)
    await scene.step()
    assert "bob@acme.example" in far.active()
    del bob


async def test_a_system_that_ignores_filters_names_somebody_else_in_vain(
    scene: ProvisioningScene, far: FakeRemoteSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.add("somebody.else@acme.example", externalId="payroll-1")
    far.dialect = type(far.dialect)(ignores_filters=True)
    monkeypatch.setattr("adapters.postgres.federation.provisioning_runs.dialect_of", without_lists)
    scene.member(ADA)
    scene.active()
    await scene.step()
    there = far.named("somebody.else@acme.example")
    assert there is not None
    assert (there["externalId"], there.get("name")) == ("payroll-1", None)
    assert far.doubles() == []


def without_lists(preset: str) -> Any:
    from core.domain.federation.provisioning.connections import dialect_of  # noqa: PLC0415 - the one that is replaced
    from core.frozen import replace  # noqa: PLC0415

    return replace(dialect_of(preset), lists=False)  # type: ignore[arg-type, unused-ignore]


HOSTILE = "<script>alert(1)</script>\u202e\u2066\x1b[31m\r\nset-cookie: a=b\x00\u200f" + "x" * 5000


@pytest.mark.parametrize("status", [400, 404, 409, 500])
async def test_texts_of_the_other_system_are_short_and_plain(scene: ProvisioningScene, far: FakeRemoteSystem, status: int) -> None:
    scene.member(ADA)
    far.refuses = {ADA: (status, "<b>x</b>", HOSTILE)}
    scene.active()
    await scene.step()
    rows = scene.people.rows("select said, scim_type from provisioning_exchanges")
    assert all(len(row["said"]) <= 300 and row["said"].isprintable() for row in rows)
    assert {row["scim_type"] for row in rows} == {None}
    assert all(why is None or why.replace("_", "").isalnum() for _, why, _ in scene.named(scene.newest()))


@pytest.mark.parametrize("part", [slice(None), slice(0, 12), slice(6, None)], ids=["whole", "beginning", "end"])
async def test_a_system_that_repeats_our_token_shows_it_to_nobody(scene: ProvisioningScene, far: FakeRemoteSystem, part: slice) -> None:
    """Members who read the list of requests are no owners, and the token is shown to nobody."""
    scene.member(ADA, family_name="Lovelace")
    far.refuses = {ADA: (400, "invalidValue", f"Bearer {far.token[part]} is not {ADA} or Lovelace")}
    scene.active()
    await scene.step()
    said = " ".join(row["said"] for row in scene.people.rows("select said from provisioning_exchanges"))
    assert far.token[part] not in said
    assert ADA not in said
    assert "Lovelace" not in said
