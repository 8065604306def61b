"""Logout notices: every end of a session queues a notice, which is sent to services on loopback."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import UUID, uuid4

import jwt
import pytest
import trio

from actors.dispatcher import DeliveryDispatcher
from actors.foundation import Mailbox
from adapters.postgres.upkeep.housekeeping import sweeps
from core.domain.federation.logouts import LOGOUT_NOTICE_RULES
from core.domain.identifiers import DeviceId, OrganizationId, PrivacyRequestId, ServiceId, SessionId, UserId
from core.domain.identity.sessions import LOGOUT_TOPIC
from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import refused
from tests.http.federation.relying import REVOKE, Application, Relying, claims_of
from tests.http.people import BASE_URL, People, Person
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.receiver import CRUMBS, answering, hanging_up, receiving

DEAD: Final = "http://127.0.0.1:1/"
EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


@dataclass
class LogoutNoticeScene(Relying):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.stranger = self.resident(self.globex, "owner")

    async def tell(self, application: Application, uri: str | None, **fields: Any) -> dict[str, Any]:
        body = {"backchannel_logout_uri": uri, **fields}
        path = f"/api/organizations/acme/services/{application.service.slug}"
        changed: dict[str, Any] = (await self.request("PATCH", path, body, by=self.owner)).ok()
        return changed

    def queued(self) -> list[dict[str, Any]]:
        return self.people.rows("select * from logout_notices order by id")

    async def notices(self, query: str = "", by: Person | None = None) -> dict[str, Any]:
        path = f"/api/organizations/acme/services/{self.shop.service.slug}/logout-notices{query}"
        listed: dict[str, Any] = (await self.request("GET", path, by=by or self.owner)).ok()
        return listed

    async def ended(self) -> dict[str, Any]:
        """A session of the shop that Ada has opened from her own, and ended: what its ID token said."""
        tokens = await self.signed_in(self.shop)
        (await self.ask(REVOKE, {"token": tokens["refresh_token"]}, self.shop.basic)).ok()
        return claims_of(tokens["id_token"])

    async def settled(self, attempts: int = 1) -> dict[str, Any]:
        """The newest notice, once it has seen this many attempts."""
        with trio.fail_after(PATIENCE):
            while True:
                newest: dict[str, Any] = (await self.notices())["logout_notices"][0]
                if newest["attempt_count"] >= attempts:
                    return newest
                await trio.sleep(0.01)

    @asynccontextmanager
    async def dispatching(self) -> AsyncIterator[None]:
        postern = self.postern
        dispatcher = DeliveryDispatcher(
            "logouts",
            postern.federation.deliveries,
            Mailbox.rung_by(postern.foundation.doorbell, LOGOUT_TOPIC),
            metrics=postern.foundation.metrics,
            spread=lambda: 0.0,
            poll=0.2,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(postern.foundation.doorbell.run)
            await nursery.start(dispatcher.run)
            yield
            nursery.cancel_scope.cancel()

    async def swept(self, name: str) -> int:
        retention = timedelta(days=30)
        every = sweeps(
            self.postern.foundation.pool, login_event_retention=retention, delivery_retention=retention, event_retention=timedelta(days=90)
        )
        (sweep,) = [one for one in every if one.name == name]
        return await sweep.delete_expired(100)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> LogoutNoticeScene:
    return LogoutNoticeScene(postern, people, unlimited(postern), log)


async def test_a_service_says_where_it_is_told(scene: LogoutNoticeScene) -> None:
    changed = await scene.tell(scene.shop, "https://shop.example/out?key=fig", backchannel_logout_session_required=True)
    assert (changed["backchannel_logout_uri"], changed["backchannel_logout_session_required"]) == ("https://shop.example/out?key=fig", True)
    (entry,) = scene.audited("service.updated")
    # The address may contain a secret of the receiver.
    assert "fig" not in str(entry["details"])
    assert entry["details"]["backchannel_logout_host"] == "shop.example"
    scene.people.change("update all_organizations set max_services = 100")
    created = await scene.request(
        "POST",
        "/api/organizations/acme/services",
        {"slug": "new", "name": "New", "service_type": "web", "backchannel_logout_uri": "https://new.example/out"},
        by=scene.owner,
    )
    assert created.ok()["service"]["backchannel_logout_uri"] == "https://new.example/out"
    assert len(scene.people.rows("select from logout_receivers")) == 2
    assert (await scene.tell(scene.shop, None))["backchannel_logout_uri"] is None


@pytest.mark.parametrize(
    "uri", ["", "shop.example", "ftp://shop.example/", "https://a:b@shop.example/", "https://shop.example/#x", "http://127.1/"]
)
async def test_an_address_that_is_none_is_refused(scene: LogoutNoticeScene, uri: str) -> None:
    path = "/api/organizations/acme/services"
    answer = await scene.request("PATCH", f"{path}/shop", {"backchannel_logout_uri": uri}, by=scene.owner)
    assert refused(answer)[0] == 400
    assert "backchannel_logout_uri: " in str(answer.json())
    made = await scene.request(
        "POST", path, {"slug": "n", "name": "N", "service_type": "web", "backchannel_logout_uri": uri}, by=scene.owner
    )
    assert refused(made)[0] == 400


async def test_an_address_that_we_do_not_call_is_refused(scene: LogoutNoticeScene) -> None:
    answer = await scene.request(
        "PATCH", "/api/organizations/acme/services/shop", {"backchannel_logout_uri": "http://10.0.0.1/"}, by=scene.owner
    )
    assert refused(answer)[0] == 400
    assert "not public" in str(answer.json())


async def test_an_installed_application_needs_tls(scene: LogoutNoticeScene) -> None:
    body = {"backchannel_logout_uri": "http://phone.example/"}
    answer = await scene.request("PATCH", "/api/organizations/acme/services/phone", body, by=scene.owner)
    assert refused(answer)[0] == 400
    assert "https" in str(answer.json())


async def test_the_service_gets_a_logout_token(scene: LogoutNoticeScene) -> None:
    for algorithm in ("RS256", "ES256"):
        async with receiving(answering(200)) as receiver, scene.dispatching():
            await scene.tell(scene.shop, f"http://127.0.0.1:{receiver.port}/out?x=1", id_token_alg=algorithm)
            session = await scene.ended()
            (call,) = await receiver.until(1)
            settled = await scene.settled()
        assert (call.target, call.headers["content-type"]) == ("/out?x=1", "application/x-www-form-urlencoded")
        ((name, token),) = parse_qsl(call.body.decode(), strict_parsing=True)
        assert name == "logout_token"
        header = jwt.get_unverified_header(token)
        assert (header["typ"], header["alg"]) == ("logout+jwt", algorithm)
        keys = (await scene.client.get("/.well-known/jwks.json")).ok()["keys"]
        (key,) = [jwt.PyJWK(key) for key in keys if key["kid"] == header["kid"]]
        claims = jwt.decode(token, key.key, algorithms=[algorithm], audience=scene.shop.client_id, issuer=BASE_URL)
        assert claims == {
            "iss": session["iss"],
            "aud": session["aud"],
            "iat": claims["iat"],
            "exp": claims["iat"] + 120,
            "jti": claims["jti"],
            "sub": session["sub"],
            "sid": session["sid"],
            "events": {EVENT: {}},
        }
        assert settled == {
            "id": settled["id"],
            "session_id": session["sid"],
            "user_id": session["sub"],
            "response_status_code": 200,
            "attempt_count": 1,
            "max_attempts": LOGOUT_NOTICE_RULES.most_attempts,
            "next_retry_at": None,
            "delivered": True,
            "delivery_error": None,
            "created_at": settled["created_at"],
            "updated_at": settled["updated_at"],
        }
        # A logout token is no ID token: sending it back to us signs nobody out, and reveals nothing.
        assert await scene.introspect(scene.shop, token) == {"active": False}


Ending = Callable[[LogoutNoticeScene, dict[str, Any]], Awaitable[None]]


async def _signs_out(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    (await scene.client.post("/api/auth/logout", token=await scene.people.token(scene.ada))).ok()


async def _revokes(scene: LogoutNoticeScene, tokens: dict[str, Any]) -> None:
    (await scene.ask(REVOKE, {"token": tokens["refresh_token"]}, scene.shop.basic)).ok()


async def _everywhere(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.sessions.end_all(UserId(scene.ada.user), but=None)
        await uow.commit()


async def _loses_device(scene: LogoutNoticeScene, tokens: dict[str, Any]) -> None:
    device = scene.postern.foundation.ids.new()
    scene.people.change(
        "insert into devices (id, user_id, name, device_type, created_at, updated_at, last_used_at)"
        " values (%s, %s, 'x', 'desktop', now(), now(), now())",
        device,
        scene.ada.user,
    )
    scene.people.change("update sessions set device_id = %s where id = %s", device, claims_of(tokens["id_token"])["sid"])
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.sessions.revoke_of_device(DeviceId(device))
        await uow.commit()


async def _takes_consent_back(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        assert await uow.consents.revoke(UserId(scene.ada.user), ServiceId(scene.shop.service.id))
        await uow.commit()


async def _is_signed_out_by_the_organization(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        assert await uow.end_users.end_sessions(OrganizationId(scene.acme.id), UserId(scene.ada.user))
        await uow.commit()


async def _leaves(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.service_users.leave(ServiceId(scene.shop.service.id), OrganizationId(scene.acme.id), UserId(scene.ada.user))
        await uow.commit()


async def _is_deleted(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.service_users.delete_account(UserId(scene.ada.user), PrivacyRequestId(uuid4()), datetime.now(UTC))
        await uow.commit()
    assert not scene.people.rows("select from users where id = %s", scene.ada.user)


async def _is_removed(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    """Removes the person from the organization. Only its members may use the shop."""
    scene.people.change("update all_services set sign_in_policy = 'members' where id = %s", scene.shop.service.id)
    scene.tenants.join(scene.ada, scene.acme, "member")
    (await scene.request("POST", f"/api/organizations/acme/members/{scene.ada.user}", by=scene.owner)).ok()
    # The other application is open to anybody.
    assert scene.living() == 1


async def _is_deactivated(scene: LogoutNoticeScene, _tokens: dict[str, Any]) -> None:
    await scene.postern.platform.account_administration.deactivate(Email(scene.ada.email), "root")


async def _expires(scene: LogoutNoticeScene, tokens: dict[str, Any]) -> None:
    session = claims_of(tokens["id_token"])["sid"]
    scene.people.change("update sessions set expires_at = now() - interval '2 minutes' where id = %s", session)
    assert await scene.swept("ExpiredLogins") == 1
    # Each expired session is looked at only once.
    assert await scene.swept("ExpiredLogins") == 0


@pytest.mark.parametrize(
    "ends",
    [
        *(_signs_out, _revokes, _everywhere, _loses_device, _takes_consent_back),
        *(_is_signed_out_by_the_organization, _is_removed, _leaves, _is_deactivated, _is_deleted, _expires),
    ],
)
async def test_whatever_ends_a_session_tells_its_service(scene: LogoutNoticeScene, ends: Ending) -> None:
    await scene.tell(scene.shop, DEAD)
    scene.people.change("update users set created_at = now() where id = %s", scene.ada.user)
    kept, tokens = await scene.signed_in(scene.page), await scene.signed_in(scene.shop)
    session = claims_of(tokens["id_token"])
    assert kept
    await ends(scene, tokens)
    # The other application gets no notice, since it has not asked for notices.
    (notice,) = scene.queued()
    assert (str(notice["session_id"]), str(notice["user_id"])) == (session["sid"], session["sub"])
    assert notice["service_id"] == scene.shop.service.id
    # A second end of the same session queues nothing.
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.sessions.revoke(SessionId(UUID(session["sid"])), UserId(scene.ada.user))
        await uow.commit()
    assert len(scene.queued()) == 1


async def test_a_session_that_did_not_end_after_all_is_not_told_of(scene: LogoutNoticeScene) -> None:
    await scene.tell(scene.shop, DEAD)
    await scene.signed_in(scene.shop)
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.sessions.end_all(UserId(scene.ada.user), but=None)
    assert scene.queued() == []


async def test_without_the_field_nothing_is_queued(scene: LogoutNoticeScene) -> None:
    await scene.ended()
    await scene.tell(scene.shop, DEAD)
    await scene.tell(scene.shop, None)
    await scene.ended()
    assert scene.queued() == []


async def test_a_sign_out_takes_as_many_round_trips_as_before(scene: LogoutNoticeScene) -> None:
    trips: list[int] = []
    for uri in (None, DEAD):
        await scene.tell(scene.shop, uri)
        await scene.signed_in(scene.shop)
        person = scene.people.add(f"{len(trips)}@example.org")
        await scene.signed_in(scene.shop, person)
        (await scene.client.post("/api/auth/logout", token=await scene.people.token(person))).ok()
        trips.append(scene.log.events("request")[-1]["db_round_trips"])
    assert trips[0] == trips[1] <= 5
    assert len(scene.queued()) == 1


@pytest.mark.parametrize("status", [500, 404, 302, 201])
async def test_a_failure_is_tried_again_with_a_new_token(scene: LogoutNoticeScene, status: int) -> None:
    async with receiving(answering(status)) as receiver, scene.dispatching():
        await scene.tell(scene.shop, f"http://127.0.0.1:{receiver.port}/")
        await scene.ended()
        failed = await scene.settled()
        assert (failed["delivered"], failed["response_status_code"], failed["delivery_error"]) == (False, status, f"answered {status}")
        assert failed["next_retry_at"] is not None
        receiver.answer = answering(204)
        scene.people.change("update logout_notices set next_at = now()")
        scene.postern.foundation.doorbell.ring(LOGOUT_TOPIC)
        settled = await scene.settled(2)
    assert settled["delivered"]
    ids = [claims_of(dict(parse_qsl(call.body.decode()))["logout_token"])["jti"] for call in receiver.calls]
    assert len(set(ids)) == 2


async def test_a_refusal_is_final(scene: LogoutNoticeScene) -> None:
    async with receiving(answering(400)) as receiver, scene.dispatching():
        await scene.tell(scene.shop, f"http://127.0.0.1:{receiver.port}/")
        await scene.ended()
        refusal = await scene.settled()
    assert (refusal["delivered"], refusal["next_retry_at"], refusal["delivery_error"]) == (False, None, "answered 400")


@pytest.mark.parametrize("crumbs", CRUMBS)
async def test_who_answers_in_crumbs_has_not_received(scene: LogoutNoticeScene, crumbs: str) -> None:
    async with receiving(CRUMBS[crumbs]) as receiver, scene.dispatching():
        await scene.tell(scene.shop, f"http://127.0.0.1:{receiver.port}/")
        await scene.ended()
        settled = await scene.settled()
    assert (settled["delivered"], settled["delivery_error"]) == (False, "malformed_answer")


async def test_who_never_receives_is_given_up(scene: LogoutNoticeScene) -> None:
    async with receiving(hanging_up) as receiver, scene.dispatching():
        await scene.tell(scene.shop, f"http://127.0.0.1:{receiver.port}/")
        await scene.ended()
        settled: dict[str, Any] = {}
        for attempt in range(1, LOGOUT_NOTICE_RULES.most_attempts + 1):
            settled = await scene.settled(attempt)
            scene.people.change("update logout_notices set next_at = now() where next_at is not null")
            scene.postern.foundation.doorbell.ring(LOGOUT_TOPIC)
    assert (settled["next_retry_at"], settled["delivered"]) == (None, False)


async def test_after_a_day_nobody_tries_again(scene: LogoutNoticeScene) -> None:
    await scene.tell(scene.shop, DEAD)
    await scene.ended()
    assert await scene.swept("ForsakenNotices") == 0
    scene.people.change("update logout_notices set created_at = now() - interval '25 hours'")
    assert await scene.swept("ForsakenNotices") == 1
    (notice,) = (await scene.notices())["logout_notices"]
    assert (notice["next_retry_at"], notice["delivery_error"]) == (None, "not called")


@pytest.mark.parametrize("how", ["update all_organizations set status = 'suspended'", "update services set backchannel_logout_uri = null"])
async def test_who_is_closed_is_not_called(scene: LogoutNoticeScene, how: str) -> None:
    await scene.tell(scene.shop, DEAD)
    await scene.ended()
    scene.people.change(how)
    assert await scene.postern.federation.deliveries.claim(10, failing=False) == []


async def test_a_claim_is_one_dispatchers_until_its_lease_ends(scene: LogoutNoticeScene) -> None:
    await scene.tell(scene.shop, DEAD)
    await scene.ended()
    notices = scene.postern.federation.deliveries
    (receiver,) = await notices.claim(10, failing=False)
    assert await notices.claim(10, failing=False) == []
    scene.people.change("update logout_receivers set leased_until = now() - interval '1 second'")
    scene.postern.foundation.doorbell.ring(LOGOUT_TOPIC)
    (again,) = await notices.claim(10, failing=False)
    # A worker that has lost the lease finds nothing to do.
    assert await notices.due(receiver) == []
    (due,) = await notices.due(again)
    outcome = await notices.attempt(again, due, lambda: 0.0)
    await notices.settle(receiver, [outcome])
    assert scene.queued()[0]["attempts"] == 0
    for _ in range(2):
        await notices.settle(again, [outcome])
    assert scene.queued()[0]["attempts"] == 1


async def test_the_organization_sees_what_became_of_them_and_no_other_does(scene: LogoutNoticeScene) -> None:
    await scene.tell(scene.shop, DEAD)
    first, second = await scene.ended(), await scene.ended()
    listed = await scene.notices("?limit=1")
    assert [one["session_id"] for one in listed["logout_notices"]] == [second["sid"]]
    assert listed["pagination"]["total"] == 2
    listed = await scene.notices("?limit=1&page=2")
    assert [one["session_id"] for one in listed["logout_notices"]] == [first["sid"]]
    assert (await scene.notices("?delivered=true"))["logout_notices"] == []
    assert scene.log.events("request")[-1]["db_round_trips"] <= 2
    for path in ("acme/services/nobody", "globex/services/shop"):
        answer = await scene.request("GET", f"/api/organizations/{path}/logout-notices", by=scene.owner)
        assert refused(answer)[0] in {403, 404}
    assert refused(await scene.request("GET", "/api/organizations/acme/services/shop/logout-notices", by=scene.stranger))[0] in {403, 404}
    listed = (await scene.request("GET", "/api/organizations/globex/services/shop/logout-notices", by=scene.stranger)).ok()
    assert listed["logout_notices"] == []


async def test_discovery_says_so(scene: LogoutNoticeScene) -> None:
    for document in ("openid-configuration", "oauth-authorization-server"):
        said = (await scene.client.get(f"/.well-known/{document}")).ok()
        assert said["backchannel_logout_supported"] is said["backchannel_logout_session_supported"] is True


async def test_what_is_old_is_swept(scene: LogoutNoticeScene) -> None:
    await scene.tell(scene.shop, DEAD)
    await scene.ended()
    scene.people.change("update logout_notices set created_at = now() - interval '31 days'")
    assert await scene.swept("PastNotices") == 1
