"""What ends while a client by document arrives."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
import trio
import trio.testing

from adapters.outbound.client_documents import MOST_OF_ONE, SharedWork
from core.domain.errors import Overloaded
from core.domain.federation.oauth.client_documents import ClientRefused
from core.domain.federation.oauth.consents import ArrivedClient
from core.domain.identifiers import ClientId, UserId
from core.domain.record.events import Actor
from core.frozen import replace
from tests.http.federation.documents.publishing import CLIENT, PublishingClients
from tests.http.federation.resources.asking import ORDERS
from tests.http.people import People
from tests.receiver import answering


class _Stale:
    """A look-up whose answers are from before `happened`."""

    def __init__(self, real: Any, happened: Any) -> None:
        self._real, self._happened = real, happened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def service(self, client: ClientId) -> Any:
        found = await self._real.service(client)
        self._happened()
        return found


def _with(clients: PublishingClients, happened: Any) -> Any:
    documents = clients.postern.federation.client_documents
    return replace(documents, lookup=_Stale(documents.lookup, happened))


_MEANWHILE: Final = {
    "the organization is suspended": ("update all_organizations set status = 'suspended'", "not active"),
    "the organization lets nobody in": ("update all_organizations set metadata_clients = 'off'", "does not allow"),
    "the API lets nobody in": ("update resource_servers set metadata_clients = 'off'", "does not allow"),
    "the API is closed": ("update resource_servers set approved_at = null", "no API"),
    "the API is gone": ("delete from resource_servers", "no API"),
}


@pytest.mark.parametrize("what", _MEANWHILE)
async def test_what_ends_between_the_look_and_the_consent_leaves_no_client(clients: PublishingClients, what: str) -> None:
    statement, words = _MEANWHILE[what]
    clients.both_let_in()
    clients.publish()
    arrived = await clients.postern.federation.client_documents.arrived(CLIENT, [ORDERS])
    clients.people.change(statement)
    with pytest.raises(ClientRefused, match=words):
        await _place(clients, arrived)
    assert (clients.nothing_is_kept(), clients.audited("service.created")) == (True, [])


async def _place(clients: PublishingClients, arrived: ArrivedClient) -> None:
    assert arrived.unplaced is not None
    unplaced = clients.postern.federation.authorizations.answers.unplaced
    async with clients.postern.federation.authorizations.answers.unit_of_work() as uow:
        await unplaced.hold(uow, arrived.unplaced)
        await unplaced.place(uow, arrived.unplaced, Actor(UserId(clients.ada.user)))
        await uow.commit()


async def test_a_client_that_is_deleted_meanwhile_stays_so(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    clients.publish(client_name="Notes")
    clients.stale()

    def delete() -> None:
        clients.people.change("update all_services set deleted_at = now(), kept_client_id = null where service_type = 'metadata'")

    await _with(clients, delete).arrived(CLIENT, [ORDERS])
    assert clients.services() == []


async def test_of_two_first_consents_one_makes_the_client(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    documents = clients.postern.federation.client_documents
    first, second = [await documents.arrived(CLIENT, [ORDERS]) for _ in range(2)]
    await _place(clients, first)
    await _place(clients, second)
    assert (len(clients.services()), len(clients.audited("service.created"))) == (1, 1)
    assert (await documents.arrived(CLIENT, [ORDERS])).unplaced is None


async def test_of_two_looks_at_a_change_one_tells_of_it(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    clients.publish(client_name="Notes")
    clients.stale()

    def describe() -> None:
        clients.people.change("update all_services set name = 'Notes' where service_type = 'metadata'")

    await _with(clients, describe).arrived(CLIENT, [ORDERS])
    assert clients.audited("service.updated") == []


class _Overtaken:
    """A source whose answers arrive after a later look has brought another name."""

    def __init__(self, real: Any, people: People) -> None:
        self._real, self._people = real, people

    async def fetch(self, address: str) -> Any:
        answer = await self._real.fetch(address)
        self._people.change(
            """
            update metadata_documents
               set document = jsonb_set(document, '{client_name}', '"Later"'), fetched_at = now() + interval '1 minute',
                   fresh_until = now() + interval '1 hour'
            """
        )
        return answer


async def test_of_two_fetches_the_later_one_counts(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    clients.publish(client_name="Earlier")
    clients.stale()
    documents = clients.postern.federation.client_documents
    await replace(documents, source=_Overtaken(documents.source, clients.people)).arrived(CLIENT, [ORDERS])
    assert clients.services()[0]["name"] == "Later"


class _Overtaking:
    """A look-up whose first answer about the document is from before another request `happened`."""

    def __init__(self, real: Any, happened: Callable[[], Awaitable[object]]) -> None:
        self._real, self._happened, self.asked = real, happened, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def kept(self, address: str) -> Any:
        found = await self._real.kept(address)
        self.asked += 1
        if self.asked == 1:
            await self._happened()
        return found


async def test_a_client_that_is_allowed_meanwhile_is_not_fetched_again(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    documents = clients.postern.federation.client_documents

    async def allow() -> None:
        await clients.code_of()
        # In another process, so this one remembers nothing.
        clients.forget()

    arrived = await replace(documents, lookup=_Overtaking(documents.lookup, allow)).arrived(CLIENT, [ORDERS])
    assert (arrived.unplaced, len(clients.receiver.calls)) == (None, 1)


async def test_a_document_that_another_request_fetches_meanwhile_is_not_fetched_again(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    clients.publish(client_name="Notes")
    clients.stale()
    documents = clients.postern.federation.client_documents

    async def fetch() -> None:
        await documents.arrived(CLIENT, [ORDERS])

    await replace(documents, lookup=_Overtaking(documents.lookup, fetch)).arrived(CLIENT, [ORDERS])
    assert (clients.services()[0]["name"], len(clients.receiver.calls)) == ("Notes", 2)


async def test_while_all_places_are_taken_what_is_known_lately_counts_and_no_more(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.code_of()
    work = SharedWork()
    documents = replace(clients.postern.federation.client_documents, fetches=work)
    clients.answers(answering(503))

    async def hang(number: int) -> None:
        await work.join(f"{number}", trio.sleep_forever, str(clients.acme.id), is_known=True)

    async with trio.open_nursery() as nursery:
        for number in range(MOST_OF_ONE):
            nursery.start_soon(hang, number)
        await trio.testing.wait_all_tasks_blocked()
        for hours, counts in ((23, True), (25, False)):
            clients.people.change("update metadata_documents set fresh_until = now() - make_interval(hours => %s)", hours)
            if counts:
                assert (await documents.arrived(CLIENT, [ORDERS])).unplaced is None
            else:
                with pytest.raises(Overloaded):
                    await documents.arrived(CLIENT, [ORDERS])
        nursery.cancel_scope.cancel()
    assert len(clients.receiver.calls) == 1
