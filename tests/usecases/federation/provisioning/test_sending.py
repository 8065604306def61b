"""One person is sent to a system that is slow, busy, or makes people of its own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.federation.provisioning.connections import USUAL_MAPPING, ProvisioningDialect
from core.domain.federation.provisioning.people import ACTIVE, EXTERNAL_ID, USER_NAME, PlaceThere, RemoteIdentity, SentPerson, WhyNotThere
from core.domain.federation.provisioning.runs import DoneThere, ProvisioningWork
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ServiceId, UserId
from core.domain.secrets import Secret
from core.frozen import replace
from core.usecases.federation.provisioning.sending import PeopleSender
from ports.federation.provisioning_runs import KnownThere, RemoteFailed, RemoteFault, RemoteOtherId, RemoteRefused, RemoteSite, RemoteUser
from tests.domain.federation.provisioning.outward import outward

ADA: Final = UserId(UUID(int=1))
GRACE: Final = UserId(UUID(int=2))
WORK: Final = ProvisioningWork(
    connection=ProvisioningConnectionId(UUID(int=3)),
    organization=OrganizationId(UUID(int=4)),
    organization_slug="acme",
    service=ServiceId(UUID(int=5)),
    service_slug="wiki",
    service_name="Wiki",
    base_url="https://scim.example.org",
    sealed_token=None,
    mapping=USUAL_MAPPING,
    left_out=(),
    teams=None,
    dialect=ProvisioningDialect(),
    is_ending=False,
    digest=b"",
    holder=UUID(int=6),
    whole_due_at=None,
    whole_at=None,
    failing_since=None,
    agreed_digest=None,
    agreed_run=None,
    held_run=None,
    held_digest=None,
    held_since=None,
)
SENT: Final = SentPerson(user=ADA, far_id="a", digest=b"", is_active=True, place=PlaceThere.SENT)


class RemoteMemory:
    """People of another system, which fails at these calls."""

    def __init__(self) -> None:
        self.people: dict[str, dict[str, Any]] = {}
        self.fails: dict[str, list[Exception]] = {}
        self.calls: list[str] = []
        self.deletes = True
        self.hides: set[str] = set()

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if failing := self.fails.get(name):
            raise failing.pop(0)

    def _person(self, far_id: str) -> RemoteUser:
        resource = self.people[far_id]
        identity = RemoteIdentity(
            far_id=far_id,
            external_id=resource.get(EXTERNAL_ID),
            user_name=resource.get(USER_NAME),
            is_active=resource.get(ACTIVE, True),
        )
        return RemoteUser(identity, resource)

    async def find(self, _site: RemoteSite, attribute: str, value: str) -> Sequence[RemoteUser]:
        self._called("find")
        return [self._person(one) for one, found in self.people.items() if found.get(attribute) == value and one not in self.hides]

    async def read(self, _site: RemoteSite, far_id: str) -> RemoteUser | None:
        self._called("read")
        return self._person(far_id) if far_id in self.people else None

    async def make(self, _site: RemoteSite, resource: Mapping[str, Any]) -> RemoteUser:
        self._called("make")
        if any(one[USER_NAME] == resource[USER_NAME] for one in self.people.values()):
            self.hides.clear()
            raise RemoteRefused(409, "uniqueness")
        far_id = f"made-{len(self.people)}"
        self.people[far_id] = dict(resource)
        return self._person(far_id)

    async def change(self, _site: RemoteSite, theirs: RemoteUser, wanted: Mapping[str, Any], names: Sequence[str]) -> None:
        self._called("change")
        self.people[theirs.identity.far_id].update({name: wanted[name] for name in names})

    async def delete(self, _site: RemoteSite, far_id: str) -> bool:
        self._called("delete")
        if self.deletes:
            self.people.pop(far_id, None)
        return self.deletes


class Rested:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def rest(self, seconds: float) -> None:
        self.seconds.append(seconds)

    async def turn(self) -> None: ...

    async def breathe(self) -> None: ...

    async def together(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        for work in works:
            await work()


class KnownPeople:
    def __init__(self) -> None:
        self.owners: dict[str, UserId] = {}

    async def known(self, _connection: object, far_ids: Sequence[str]) -> Mapping[str, KnownThere]:
        return {one: KnownThere(far_id=one, user=self.owners[one], digest=None, is_active=True) for one in far_ids if one in self.owners}


class SendingScene:
    def __init__(self, dialect: ProvisioningDialect = WORK.dialect) -> None:
        self.far, self.known, self.pace = RemoteMemory(), KnownPeople(), Rested()
        far: Any = self.far
        people: Any = self.known
        secrets: Any = None
        site = RemoteSite(WORK.base_url, Secret("token"), dialect, lambda _: None)
        self.sender = PeopleSender(WORK, far, site, people=people, secrets=secrets, pace=self.pace, issuer="https://id.example.org")


@pytest.fixture
def scene() -> SendingScene:
    return SendingScene()


async def test_whoever_was_made_there_meanwhile_is_matched(scene: SendingScene) -> None:
    person = outward()
    scene.far.people["a"] = {USER_NAME: "ada@example.org"}
    scene.far.hides = {"a"}
    result = await scene.sender.send(person, scene.sender.wanted(person), ())
    assert result.named is not None
    assert (result.named.what, result.sent.far_id, result.sent.place) == (DoneThere.MATCHED, "a", PlaceThere.SENT)
    assert scene.far.people["a"][EXTERNAL_ID] == str(ADA)
    assert list(scene.far.people) == ["a"]


async def test_whoever_was_made_there_meanwhile_as_somebody_elses_is_left_out(scene: SendingScene) -> None:
    person = outward()
    scene.far.people["a"] = {USER_NAME: "ada@example.org"}
    scene.far.hides, scene.known.owners = {"a"}, {"a": GRACE}
    result = await scene.sender.send(person, scene.sender.wanted(person), ())
    assert (result.sent.place, result.sent.why, result.sent.far_id) == (PlaceThere.LEFT_OUT, WhyNotThere.OF_ANOTHER, None)
    assert scene.far.people["a"] == {USER_NAME: "ada@example.org"}


async def test_a_busy_system_is_asked_five_times_and_then_rests(scene: SendingScene) -> None:
    busy: list[Exception] = [RemoteFailed(RemoteFault.THROTTLED, timedelta(seconds=seconds)) for seconds in (0, 1, 2, 3, 4)]
    scene.far.fails["find"] = list(busy)
    person = outward()
    with pytest.raises(RemoteFailed) as failed:
        await scene.sender.send(person, scene.sender.wanted(person), ())
    assert (failed.value.fault, failed.value.retry_after) == (RemoteFault.THROTTLED, timedelta(seconds=60))
    assert scene.pace.seconds == [0.1, 1, 2, 3, 4]
    assert scene.far.calls == ["find"] * 5
    # Once it answers, it is asked on.
    scene.far.fails["find"] = busy[:2]
    assert (await scene.sender.send(person, scene.sender.wanted(person), ())).sent.place is PlaceThere.SENT


@pytest.mark.parametrize(
    ("call", "failure", "why"),
    [
        ("read", RemoteOtherId(), WhyNotThere.OTHER_ID),
        ("read", RemoteRefused(403, None), "status_403"),
        ("change", RemoteRefused(400, "mutability"), "mutability"),
        ("read", RemoteFailed(RemoteFault.SERVER_ERROR), WhyNotThere.NO_ANSWER),
    ],
)
async def test_an_end_that_fails_is_tried_again(scene: SendingScene, call: str, failure: Exception, why: str) -> None:
    scene.far.people["a"] = {USER_NAME: "ada@example.org", EXTERNAL_ID: str(ADA), ACTIVE: True}
    scene.far.fails[call] = [failure]
    person = outward(is_member=False, sent=SENT)
    result = await scene.sender.end(person)
    assert (result.sent.place, result.sent.why, result.sent.tries, result.sent.is_active) == (PlaceThere.TO_END, why, 1, True)
    assert scene.far.people["a"][ACTIVE] is True
    again = await scene.sender.end(replace(person, sent=result.sent))
    assert (again.sent.place, again.sent.tries, again.sent.is_active) == (PlaceThere.SENT, 0, False)
    assert scene.far.people["a"][ACTIVE] is False


@pytest.mark.parametrize("fault", [RemoteFault.CREDENTIALS, RemoteFault.SERVER_ERROR])
async def test_no_more_people_end_at_a_system_that_is_away(scene: SendingScene, fault: RemoteFault) -> None:
    """At once for what concerns everybody, and otherwise after five people without an answer."""
    scene.far.people["a"] = {USER_NAME: "ada@example.org", EXTERNAL_ID: str(ADA), ACTIVE: True}
    scene.far.fails["read"] = [RemoteFailed(fault) for _ in range(5)]
    person = outward(is_member=False, sent=SENT)
    for _ in range(0 if fault is RemoteFault.CREDENTIALS else 4):
        assert (await scene.sender.end(person)).sent.why == WhyNotThere.NO_ANSWER
    with pytest.raises(RemoteFailed, match=str(fault)):
        await scene.sender.end(person)


async def test_whoever_is_gone_there_is_deleted(scene: SendingScene) -> None:
    scene.far.deletes = False
    await scene.sender.delete("a", [USER_NAME, "displayName"])
    assert scene.far.calls == ["delete", "read"]


async def test_whoever_cannot_be_deleted_is_emptied_once(scene: SendingScene) -> None:
    scene.far.deletes = False
    scene.far.people["a"] = {USER_NAME: "ada@example.org", "displayName": "Ada", EXTERNAL_ID: str(ADA), ACTIVE: True}
    for _ in range(2):
        await scene.sender.delete("a", [USER_NAME, "displayName"])
    assert scene.far.people["a"] == {USER_NAME: "ada@example.org", "displayName": None, EXTERNAL_ID: None, ACTIVE: False}
    assert scene.far.calls == ["delete", "read", "change", "delete", "read"]
