"""What ends while a client by document arrives."""

from typing import Any

import pytest

from core.domain.federation.oauth.client_documents import ClientRefused
from core.domain.identifiers import ClientId
from core.frozen import replace
from tests.http.federation.documents.publishing import CLIENT, PublishingClients
from tests.http.federation.resources.asking import ORDERS
from tests.http.people import People


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


async def test_an_organization_that_is_suspended_meanwhile_gets_no_client(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()

    def suspend() -> None:
        clients.people.change("update all_organizations set status = 'suspended' where id = %s", clients.acme.id)

    with pytest.raises(ClientRefused, match="not active"):
        await _with(clients, suspend).arrived(CLIENT, [ORDERS])
    assert clients.services() == []


async def test_a_client_that_is_deleted_meanwhile_stays_so(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.consents()
    clients.publish(client_name="Notes")
    clients.stale()

    def delete() -> None:
        clients.people.change("update all_services set deleted_at = now(), kept_client_id = null where service_type = 'metadata'")

    await _with(clients, delete).arrived(CLIENT, [ORDERS])
    assert clients.services() == []


class _Blind(_Stale):
    async def service(self, client: ClientId) -> Any:
        del client


async def test_of_two_first_requests_one_makes_the_client(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.consents()
    documents = clients.postern.federation.client_documents
    blind = replace(documents, lookup=_Blind(documents.lookup, None))
    assert (await blind.arrived(CLIENT, [ORDERS])).startswith(f"{CLIENT}#")
    assert (len(clients.services()), len(clients.audited("service.created"))) == (1, 1)


async def test_of_two_looks_at_a_change_one_tells_of_it(clients: PublishingClients) -> None:
    clients.both_let_in()
    clients.publish()
    await clients.consents()
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
    await clients.consents()
    clients.publish(client_name="Earlier")
    clients.stale()
    documents = clients.postern.federation.client_documents
    await replace(documents, source=_Overtaken(documents.source, clients.people)).arrived(CLIENT, [ORDERS])
    assert clients.services()[0]["name"] == "Later"
