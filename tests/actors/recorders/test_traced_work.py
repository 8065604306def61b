"""Work of actors as traces of its own: jobs, with what they do."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

import trio

from actors.dispatcher import DeliveryDispatcher
from actors.job_worker import JobPace, JobRefused, JobWorker, Task, Workplace
from adapters.crypto.passwords import Argon2Parameters, Argon2Passwords
from adapters.outbound.client import GuardedClient, PlainClient
from adapters.outbound.dialer import EVERYWHERE, Dialer, SystemNames
from adapters.postgres.jobs import PostgresJobQueue
from core.domain.causes import caused_by
from core.domain.identifiers import OrganizationId
from core.domain.jobs import Job
from core.domain.outbound import destination
from core.domain.record.deliveries import DueDelivery
from core.domain.secrets import Password
from ports.outbound import OutboundFailed, OutboundRequest
from ports.record import SpanKind, current_span, traced
from tests.actors.observed import RememberedMetrics, no_spread
from tests.actors.test_job_worker import RETRY, add
from tests.adapters.postgres.conftest import Store
from tests.adapters.traces.kept import KeptTraces, Spans
from tests.conftest import CapturedLog
from tests.patience import PATIENCE
from tests.receiver import answering, hanging_up, receiving

PACE: Final = JobPace(poll=timedelta(milliseconds=500))
WITHIN: Final = timedelta(seconds=PATIENCE)


async def done(store: Store, handle: Callable[[Job], Awaitable[None]], share: float = 1) -> list[Spans]:
    """The spans of each of a job's attempts, which this function makes."""
    kept = KeptTraces(share)
    queue = PostgresJobQueue(store.pool, store.keyring)
    workplace = Workplace(queue, store.doorbell, store.clock, RememberedMetrics(), no_spread, kept)
    await add(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(JobWorker("worker", [Task("work", handle, RETRY)], workplace, pace=PACE).run)
        with trio.fail_after(PATIENCE):
            while await store.count("jobs where state <> 'dead'"):
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    return kept.ended


async def test_a_job_is_a_trace_of_its_own_with_what_it_does(store: Store) -> None:
    jobs: list[Job] = []

    async def work(job: Job) -> None:
        await trio.lowlevel.checkpoint()
        jobs.append(job)

    (spans,) = await done(store, work)
    whole = spans[-1]
    assert (whole.name, whole.kind, whole.parent, whole.error) == ("process work", SpanKind.CONSUMER, "", "")
    assert whole.attributes == (("messaging.destination.name", "work"),)
    assert whole.own == (("postern.job.id", str(jobs[0].id)), ("postern.job.attempt", 1))
    # The job's end is written within its trace.
    assert [(span.name, span.parent) for span in spans[:-1]] == [("DELETE jobs", whole.id)]


async def test_a_job_that_fails_is_a_failed_trace(store: Store, log: CapturedLog) -> None:
    del log

    async def work(_job: Job) -> None:
        await trio.lowlevel.checkpoint()
        raise JobRefused("ada@example.org has no such thing")

    (spans,) = await done(store, work)
    assert spans[-1].error == "JobRefused"


async def test_a_job_that_is_not_sampled_leaves_no_span(store: Store) -> None:
    seen: list[object] = []

    async def work(_job: Job) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(current_span.get())

    assert await done(store, work, share=0) == []
    assert seen == [None]


async def calls_of(client: GuardedClient, port: int) -> Spans:
    kept = KeptTraces()
    request = OutboundRequest(destination(f"http://127.0.0.1:{port}/in?secret=a"), b"body")
    try:
        with traced(kept, SpanKind.CONSUMER, "work"):
            await client.post(request, WITHIN)
    except OutboundFailed:
        pass
    finally:
        await client.aclose()
    return kept.ended[0]


async def test_only_hosts_of_the_operator_get_the_ids_of_traces() -> None:
    async with receiving(answering(204)) as receiver:
        own = await calls_of(PlainClient(Dialer(SystemNames(), EVERYWHERE), traced_hosts=["127.0.0.1"]), receiver.port)
        await calls_of(PlainClient(Dialer(SystemNames(), EVERYWHERE), traced_hosts=["127.0.0.2"]), receiver.port)
        await calls_of(GuardedClient(Dialer(SystemNames(), EVERYWHERE)), receiver.port)
        # Without an open span there is nothing to tell.
        client = PlainClient(Dialer(SystemNames(), EVERYWHERE), traced_hosts=["127.0.0.1"])
        await client.post(OutboundRequest(destination(f"http://127.0.0.1:{receiver.port}/"), b""), WITHIN)
        await client.aclose()
    call, _whole = own
    assert [one.headers.get("traceparent") for one in receiver.calls] == [f"00-{call.trace.id}-{call.id}-01", None, None, None]


async def test_a_call_is_told_with_its_host_and_its_outcome() -> None:
    for answer, error, status in ((answering(204), "", 204), (answering(410), "410", 410), (hanging_up, "malformed_answer", None)):
        async with receiving(answer) as receiver:
            spans = await calls_of(PlainClient(Dialer(SystemNames(), EVERYWHERE)), receiver.port)
        call, whole = spans
        said = [("http.request.method", "POST"), ("server.address", "127.0.0.1"), ("server.port", receiver.port)]
        assert (call.name, call.kind, call.parent, call.error) == ("POST", SpanKind.CLIENT, whole.id, error)
        assert call.attributes == (*said, *([] if status is None else [("http.response.status_code", status)]))


async def test_a_hash_is_told_with_its_wait_and_without_a_trace_it_is_not_told() -> None:
    kept = KeptTraces()
    passwords = Argon2Passwords(Argon2Parameters(8, 1, 1), 1, RememberedMetrics())
    try:
        encoded = await passwords.hash(Password("the moon over the harbour"))
        with traced(kept, SpanKind.CONSUMER, "work"):
            assert await passwords.verify(encoded, Password("the moon over the harbour"))
    finally:
        passwords.close()
    hashing, whole = kept.ended[0]
    ((name, wait),) = hashing.own
    assert (hashing.name, hashing.kind, hashing.parent, name) == ("hash password", SpanKind.INTERNAL, whole.id, "postern.hash.wait_us")
    assert isinstance(wait, int)


def test_an_attempt_at_a_delivery_is_told_with_its_number() -> None:
    kept = KeptTraces()
    dispatcher: DeliveryDispatcher[OrganizationId, DueDelivery] = DeliveryDispatcher(  # type: ignore[type-var]  # no receiver is asked for
        "webhooks",
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        metrics=RememberedMetrics(),
        spread=no_spread,
        traces=kept,
    )
    with dispatcher._traced(DueDelivery(id=UUID(int=1), attempts=2)):
        pass
    with caused_by(UUID(int=7)), dispatcher._traced(DueDelivery(id=UUID(int=1), attempts=2)):
        pass
    assert kept.ended[1][0].own[-1] == ("postern.request_id", str(UUID(int=7)))
    (span,) = kept.ended[0]
    assert (span.name, span.attributes) == ("attempt of webhooks", (("messaging.destination.name", "webhooks"),))
    assert span.own == (("postern.delivery.id", str(UUID(int=1))), ("postern.delivery.attempt", 3))
