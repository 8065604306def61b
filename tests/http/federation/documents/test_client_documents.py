"""Clients that describe themselves in a document: authorization, code, tokens and refresh, on the organization's own service."""

from tests.http.federation.documents.publishing import BACK, CLIENT, HOST, Publishing
from tests.http.federation.relying import claims_of
from tests.http.federation.resources.asking import ORDERS


async def test_a_client_that_nobody_has_registered_gets_tokens(clients: Publishing) -> None:
    clients.both_let_in()
    clients.publish()
    tab = await clients.consents()
    for words in ("Notebook", HOST, "Orders", "See your orders", ORDERS):
        assert words in tab.page.text
    tokens = await clients.has_tokens()
    claims = claims_of(tokens["access_token"])
    assert (claims["client_id"], claims["aud"], claims["org_id"]) == (CLIENT, ORDERS, str(clients.acme.id))
    assert claims_of(tokens["id_token"])["aud"] == CLIENT
    refreshed = clients.kept((await clients.refresh(clients.client_of(), tokens["refresh_token"])).ok())
    assert claims_of(refreshed["access_token"])["client_id"] == CLIENT
    told = await clients.introspect(clients.desk, refreshed["access_token"])
    assert (told["active"], told["client_id"]) == (True, CLIENT)
    (service,) = clients.services()
    assert (service["name"], service["redirect_uris"], service["service_type"]) == ("Notebook", [BACK], "metadata")
    assert len(clients.receiver.calls) == 1
