"""Each way in which an application's tokens end, by the act itself: the next introspection, the next userinfo and the next refresh say so,
of both tokens. Another application of the same person goes on unless the act was about the person.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from core.domain.identifiers import ServiceId, UserId
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Password
from core.domain.services.api_keys import Permission
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import all_at_once
from tests.http.federation.relying import REVOKE, Relying, claims_of
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people
_SERVICE: Final = "/api/organizations/acme/services/shop"


@dataclass
class Revoking(Relying):
    """Ada is a member of acme, has a password, and signed in to its shop and to its page. The shop's sibling asks about her tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asks = self.application(self.acme, "asks", secret=True)
        self.boss, self.governor = self.resident(self.acme, "owner", "boss"), self.people.add(platform_owner=True)
        self.tenants.join(self.ada, self.acme)

    async def prepare(self) -> None:
        digest = await self.postern.identity.passwords.hash(Password(PASSWORD))
        self.people.change("update users set password_hash = %s where id = %s", digest, self.ada.user)

    async def sign_in(self, *, page: bool = False) -> dict[str, Any]:
        return self.kept(await self.signed_in(self.page if page else self.shop, scopes="openid email"))

    async def lives(self, tokens: dict[str, Any]) -> list[bool]:
        """By the introspection of the access token, by that of the refresh token, and by userinfo."""
        told = [(await self.introspect(self.asks, tokens[one]))["active"] for one in ("access_token", "refresh_token")]
        return [*told, (await self.userinfo(tokens["access_token"])).status == 200]

    async def refreshes(self, tokens: dict[str, Any], *, page: bool = False) -> bool:
        return (await self.refresh(self.page if page else self.shop, tokens["refresh_token"])).status == 200

    @property
    def actor(self) -> Actor:
        return Actor(user=UserId(self.ada.user))

    async def act(self, method: str, target: str, body: Any = None, *, by: Person | None = None) -> None:
        answer = await self.request(method, target, body, by=by)
        assert answer.status in {200, 204}, answer.body

    async def key(self, *permissions: Permission) -> str:
        body = {"name": "Key", "permissions": [str(one) for one in permissions]}
        return str((await self.request("POST", f"{_SERVICE}/api-keys", body, by=self.boss)).ok(201)["key"])


Act = Callable[[Revoking, dict[str, Any]], Awaitable[None]]


async def _signs_out(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("POST", "/api/auth/logout", by=scene.ada)


async def _changes_the_password(scene: Revoking, _: dict[str, Any]) -> None:
    """In another session, since the session of the change goes on with all that was opened from it."""
    body = {"current_password": PASSWORD, "new_password": "three wet matches"}
    await scene.act("POST", "/api/user/change-password", body, by=scene.people.session_of(scene.ada))


async def _resets_the_password(scene: Revoking, _: dict[str, Any]) -> None:
    postbox = Postbox(scene.postern)
    await postbox.empty()
    (await scene.client.post("/api/auth/forgot-password", {"email": scene.ada.email})).ok()
    link = await postbox.token()
    scene.log.remember(link)
    (await scene.client.post("/api/auth/reset-password", {"token": link, "new_password": "three wet matches"})).ok()


async def _takes_consent_back(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.postern.federation.consents.revoke(UserId(scene.ada.user), ServiceId(scene.shop.service.id), scene.actor)


async def _gives_a_token_back(which: str, scene: Revoking, tokens: dict[str, Any]) -> None:
    assert (await scene.ask(REVOKE, {"token": tokens[which]}, scene.shop.basic)).status == 200


async def _uses_a_refresh_token_twice(scene: Revoking, tokens: dict[str, Any]) -> None:
    successor = (await scene.refresh(scene.shop, tokens["refresh_token"])).ok()
    (await scene.refresh(scene.shop, scene.kept(successor)["refresh_token"])).ok()
    scene.people.change("update refresh_tokens set rotated_at = rotated_at - interval '11 seconds' where rotated_at is not null")
    assert (await scene.refresh(scene.shop, tokens["refresh_token"])).status == 400


async def _ends_sessions_of_the_user(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("DELETE", f"/api/organizations/acme/users/{scene.ada.user}/sessions", by=scene.boss)


async def _removes_the_member(scene: Revoking, _: dict[str, Any]) -> None:
    scene.people.change("update services set sign_in_policy = 'members'")
    await scene.act("POST", f"/api/organizations/acme/members/{scene.ada.user}", by=scene.boss)


async def _admits_only_who_is_assigned(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("PATCH", _SERVICE, {"sign_in_policy": "assigned"}, by=scene.boss)


async def _removes_the_user_by_key(scene: Revoking, _: dict[str, Any]) -> None:
    key = await scene.key(Permission.DELETE_USERS)
    answer = await scene.client.request("DELETE", f"/api/service/users/{scene.ada.user}", headers=[("x-api-key", key)])
    assert answer.status == 204, answer.body


async def _deletes_the_service(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("DELETE", _SERVICE, by=scene.boss)


async def _suspends_the_organization(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("POST", f"/api/platform/organizations/{scene.acme.id}/suspend", {"reason": "Late"}, by=scene.governor)


async def _deletes_the_organization(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("DELETE", "/api/organizations/acme", by=scene.boss)


async def _deactivates_the_account(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.postern.platform.account_administration.deactivate(Email(scene.ada.email), "test")


async def _forgets_the_person(scene: Revoking, _: dict[str, Any]) -> None:
    await scene.act("DELETE", f"/api/privacy/forget/{scene.ada.user}", by=scene.governor)


# The act, and whether the person's other application goes on.
ACTS: Final[dict[str, tuple[Act, bool]]] = {
    "the person signs out": (_signs_out, False),
    "the person changes the password": (_changes_the_password, False),
    "the person resets the password": (_resets_the_password, False),
    "the person takes consent back": (_takes_consent_back, True),
    "the application gives the access token back": (partial(_gives_a_token_back, "access_token"), True),
    "the application gives the refresh token back": (partial(_gives_a_token_back, "refresh_token"), True),
    "somebody uses a refresh token again": (_uses_a_refresh_token_twice, True),
    "the organization ends the user's sessions": (_ends_sessions_of_the_user, False),
    "the organization removes the member": (_removes_the_member, False),
    "the organization admits only who is assigned": (_admits_only_who_is_assigned, True),
    "the service removes its user": (_removes_the_user_by_key, True),
    "the organization deletes the service": (_deletes_the_service, True),
    "the platform suspends the organization": (_suspends_the_organization, False),
    "the owner deletes the organization": (_deletes_the_organization, False),
    "the platform deactivates the account": (_deactivates_the_account, False),
    "the person is forgotten": (_forgets_the_person, False),
}
# After these, nobody of the organization is left who could ask.
_NOBODY_ASKS: Final = ("the platform suspends the organization", "the owner deletes the organization")


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> Revoking:
    made = Revoking(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


@pytest.mark.parametrize("name", ACTS)
async def test_what_has_ended_is_over_at_the_next_question(scene: Revoking, name: str) -> None:
    act, other_lives = ACTS[name]
    tokens, other = await scene.sign_in(), await scene.sign_in(page=True)
    assert await scene.lives(tokens) == await scene.lives(other) == [True, True, True]
    await act(scene, tokens)
    if name not in _NOBODY_ASKS:
        assert await scene.lives(tokens) == [False, False, False]
        assert await scene.lives(other) == [other_lives] * 3
    assert (await scene.userinfo(tokens["access_token"])).status in {401, 403}
    assert not await scene.refreshes(tokens)
    assert await scene.refreshes(other, page=True) == other_lives


async def test_one_code_of_many_clients_at_once(scene: Revoking) -> None:
    """Only its own client gets tokens. A try of another client that comes after it ends what the code opened, as a stolen code should."""
    others = [partial(scene.redeem, one, await scene.code(scene.shop)) for one in (scene.page, scene.theirs, scene.phone)]
    assert {(await one()).status for one in others} == {400}
    code = await scene.code(scene.shop)
    tries = [partial(scene.redeem, one, code) for one in (scene.page, scene.theirs, scene.phone) for _ in range(8)]
    own = partial(scene.redeem, scene.shop, code)
    answers = await all_at_once(*tries, own, *tries)
    (given,) = [scene.kept(one.ok()) for one in answers if one.status == 200]
    assert claims_of(given["access_token"])["client_id"] == scene.shop.client_id
    assert len(scene.people.rows("select from sessions where scopes is not null")) == 1


async def test_one_refresh_token_of_many_clients_at_once(scene: Revoking) -> None:
    """Only its own client gets a successor, and all its tries get the same one. Tries of others end nothing."""
    tokens = await scene.sign_in()
    tries = [partial(scene.refresh, one, tokens["refresh_token"]) for one in (scene.page, scene.theirs, scene.phone) for _ in range(8)]
    own = [partial(scene.refresh, scene.shop, tokens["refresh_token"]) for _ in range(4)]
    answers = await all_at_once(*tries, *own, *tries)
    given = [scene.kept(one.ok()) for one in answers if one.status == 200]
    assert len(given) == len(own)
    assert {claims_of(one["access_token"])["client_id"] for one in given} == {scene.shop.client_id}
    (successor,) = {one["refresh_token"] for one in given}
    assert scene.living() == 1
    assert (await scene.refresh(scene.shop, successor)).status == 200
