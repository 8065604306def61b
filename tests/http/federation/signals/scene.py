"""An application that hears of what happens, and its receiver on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import jwt
import trio

from actors.dispatcher import DeliveryDispatcher
from actors.foundation import Mailbox
from actors.watchers import SignalPollWaker
from adapters.postgres.upkeep.housekeeping import sweeps
from core.domain.record.signals import OFFERED, SIGNAL_TOPIC
from tests.http.client import Received
from tests.http.federation.relying import REVOKE, Application, Relying, claims_of
from tests.http.people import BASE_URL, Person
from tests.patience import PATIENCE
from tests.receiver import Call, Receiver

SETTINGS: Final = "/api/organizations/acme/services/{}/signals"
STREAMS, STATUS, VERIFY = "/ssf/streams", "/ssf/status", "/ssf/verification"
PUSH, POLL = "urn:ietf:rfc:8935", "urn:ietf:rfc:8936"
CAEP: Final = "https://schemas.openid.net/secevent/caep/event-type/"
RISC: Final = "https://schemas.openid.net/secevent/risc/event-type/"
SSF: Final = "https://schemas.openid.net/secevent/ssf/event-type/"


@dataclass
class Signalling(Relying):
    """Ada uses the shop by her own act, and is a member of acme by her own act, too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.tenants.join(self.ada, self.acme)

    async def turned_on(self, application: Application | None = None, **changed: Any) -> dict[str, Any]:
        body = {"events": [one.value for one in OFFERED], "hosts": ["127.0.0.1"], **changed}
        return (await self.set(body, application)).ok()

    async def set(self, body: dict[str, Any], application: Application | None = None, by: Person | None = None) -> Received:
        path = SETTINGS.format((application or self.shop).service.slug)
        return await self.request("PUT", path, body, by=by or self.owner)

    async def turned_off(self) -> None:
        assert (await self.request("DELETE", SETTINGS.format("shop"), by=self.owner)).status == 204

    async def own_token(self, application: Application | None = None) -> str:
        answer = await self.ask(fields={"grant_type": "client_credentials", **(application or self.shop).posted})
        return str(self.kept(answer.ok())["access_token"])

    async def call(self, method: str, path: str, body: Any = None, *, by: Application | None = None) -> Received:
        return await self.client.request(method, path, body=body, token=await self.own_token(by))

    async def stream(self, receiver: Receiver, *, by: Application | None = None, **changed: Any) -> dict[str, Any]:
        body = {"delivery": delivery(receiver.port), **changed}
        return (await self.call("POST", STREAMS, body, by=by)).ok(201)

    async def listening(self, receiver: Receiver, **changed: Any) -> dict[str, Any]:
        """Signals are on, and the shop has a stream."""
        await self.turned_on()
        return await self.stream(receiver, **changed)

    async def polled(self, *, by: Application | None = None, **changed: Any) -> str:
        """Signals are on, and the shop has a stream that it polls. Returns its id."""
        if by is None:
            await self.turned_on()
        made = (await self.call("POST", STREAMS, {"delivery": {"method": POLL}, **changed}, by=by)).ok(201)
        return str(made["stream_id"])

    async def poll(self, stream: str, *, by: Application | None = None, **body: Any) -> Received:
        return await self.call("POST", f"/ssf/poll/{stream}", body, by=by)

    async def fetched(self, stream: str, **body: Any) -> dict[str, dict[str, Any]]:
        """The claims of what waits for the stream, by their `jti`."""
        answer = (await self.poll(stream, **{"returnImmediately": True, **body})).ok()
        return {jti: await self.claims(token) for jti, token in answer["sets"].items()}

    @asynccontextmanager
    async def waking(self, longest: float = PATIENCE) -> AsyncIterator[None]:
        """Polls wait, as long as this."""
        postern = self.postern
        postern.federation.signal_polls.longest = longest  # type: ignore[attr-defined]
        waker = SignalPollWaker(
            postern.federation.signal_polls, Mailbox.rung_by(postern.foundation.doorbell, SIGNAL_TOPIC), spread=lambda: 0.0
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(postern.foundation.doorbell.run)
            await nursery.start(waker.run)
            yield
            nursery.cancel_scope.cancel()

    async def leaves(self, application: Application | None = None, person: Person | None = None) -> str:
        """A sign-in and a sign-out. Returns the person's id."""
        application = application or self.shop
        tokens = await self.signed_in(application, person)
        (await self.ask(REVOKE, {"token": tokens["refresh_token"]}, application.basic)).ok()
        return str(claims_of(tokens["id_token"])["sub"])

    @asynccontextmanager
    async def dispatching(self) -> AsyncIterator[None]:
        postern = self.postern
        async with trio.open_nursery() as nursery:
            await nursery.start(postern.foundation.doorbell.run)
            for deliveries in postern.federation.signal_deliveries:
                dispatcher = DeliveryDispatcher(
                    "signals",
                    deliveries,
                    Mailbox.rung_by(postern.foundation.doorbell, SIGNAL_TOPIC),
                    metrics=postern.foundation.metrics,
                    spread=lambda: 0.0,
                    poll=0.2,
                )
                await nursery.start(dispatcher.run)
            yield
            nursery.cancel_scope.cancel()

    async def verified(self, call: Call) -> dict[str, Any]:
        """The claims of a pushed SET, which a library checks as a receiver would."""
        assert call.headers["content-type"] == "application/secevent+jwt"
        return await self.claims(call.body.decode())

    async def claims(self, token: str) -> dict[str, Any]:
        self.log.remember(token)
        header = jwt.get_unverified_header(token)
        assert (header["typ"], header["alg"]) == ("secevent+jwt", "RS256")
        keys = (await self.client.get("/.well-known/jwks.json")).ok()["keys"]
        (key,) = [jwt.PyJWK(key) for key in keys if key["kid"] == header["kid"]]
        claims: dict[str, Any] = jwt.decode(
            token, key.key, algorithms=["RS256"], audience=self.shop.client_id, issuer=BASE_URL, options={"verify_iat": False}
        )
        assert not {"sub", "exp"} & set(claims)
        return claims

    async def heard(self, receiver: Receiver, count: int = 1) -> list[dict[str, Any]]:
        """The claims of as many pushed SETs."""
        with trio.fail_after(PATIENCE):
            calls = await receiver.until(count)
        return [await self.verified(call) for call in calls]

    async def silent(self, receiver: Receiver) -> None:
        """Nothing waits, and nothing was pushed."""
        await self.settled()
        assert receiver.calls == []

    async def settled(self) -> None:
        await self.until_waiting(0)

    async def until_waiting(self, number: int) -> None:
        with trio.fail_after(PATIENCE):
            while self.waiting() != number:
                await trio.sleep(0.01)

    def waiting(self) -> int:
        """What waits for streams."""
        (row,) = self.people.rows(
            "select (select count(*) from logout_notices where tell_at is not null)"
            "     + (select count(*) from webhook_deliveries where kind = 'signal' and next_at is not null) as n"
        )
        return int(row["n"])

    def errors(self) -> list[str | None]:
        rows = self.people.rows("select error from logout_notices where stream_id is not null order by created_at, id")
        more = self.people.rows("select error from webhook_deliveries where kind = 'signal' order by created_at, id")
        return [row["error"] for row in (*rows, *more)]

    async def swept(self, name: str) -> int:
        month = timedelta(days=30)
        every = sweeps(
            self.postern.foundation.pool, login_event_retention=month, delivery_retention=month, event_retention=timedelta(days=90)
        )
        (sweep,) = [one for one in every if one.name == name]
        return await sweep.delete_expired(100)


def delivery(port: int, path: str = "/set", **changed: Any) -> dict[str, Any]:
    return {"method": PUSH, "endpoint_url": f"http://127.0.0.1:{port}{path}", **changed}
