"""Clients that describe themselves in a document, at scopes that ask for a fresh sign-in."""

import pytest

from tests.http.federation.arriving import left
from tests.http.federation.documents.publishing import BACK, PublishingClients
from tests.http.federation.relying import claims_of
from tests.http.federation.resources.asking import ORDERS
from tests.http.signing_in import PASSWORD

PAY = {"name": "orders:pay", "description": "Pay orders", "max_age": 300}


@pytest.mark.parametrize("changes", [False, True])
async def test_a_document_that_changes_during_the_sign_in_is_asked_about_anew(clients: PublishingClients, changes: bool) -> None:
    clients.api(ORDERS, scopes=[PAY])
    clients.let_in()
    clients.publish()
    bob = await clients.people.with_password(PASSWORD, "bob@example.org")
    tabs = clients.browser(clients.people.session_of(bob), age=3600)
    tab = await tabs.tab().open(clients.asks(scope="openid orders:pay", prompt="consent"))
    await tab.send(answer="allow")
    assert tab.place.startswith("/ui/sign-in")
    if changes:
        clients.publish(redirect_uris=[BACK, f"{BACK}/2"])
        clients.stale()
    await tab.send(password=PASSWORD)
    if changes:
        assert tab.place.startswith("/ui/consent")
        assert clients.people.rows("select from authorization_codes") == []
        await tab.send(answer="allow")
    code = left(tab, BACK)["code"]
    clients.log.remember(code)
    tokens = clients.kept((await clients.exchanged(code)).ok())
    assert claims_of(tokens["access_token"])["scope"] == "orders:pay"
