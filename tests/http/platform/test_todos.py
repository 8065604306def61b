"""What waits for a decision in an organization."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client
from tests.http.people import People
from tests.http.signing_in import unlimited

TODOS = "/api/organizations/acme/todos"


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def street(postern: Postern, people: People, client: Client, log: CapturedLog) -> Shops:
    return Shops(postern, people, client, log)


async def test_each_todo_is_counted_where_it_is_and_nowhere_else(street: Shops) -> None:
    owner, change = street.resident(street.acme, "owner"), street.people.change
    nothing = await street.request("GET", TODOS, by=owner)
    assert (nothing.status, nothing.json()) == (200, [])
    acme, new = street.acme.id, street.postern.foundation.ids.new
    for _ in range(2):
        change(
            "insert into join_requests (id, org_id, user_id, email, status, created_at)"
            " values (%s, %s, %s, 'a@b.example', 'pending', now())",
            new(),
            acme,
            street.people.add().user,
        )
    change(
        "insert into saml_certificates (id, service_id, state, certificate, sealed_private_key, valid_from, valid_until, created_at)"
        " values (%s, %s, 'active', '', '', now(), now() + interval '10 days', now())",
        new(),
        street.shop.id,
    )
    change(
        "insert into webhooks (id, org_id, name, url, events, sealed_secret, failing_since, created_at, updated_at)"
        " values (%s, %s, 'CRM', 'https://crm.example', '{user.joined}', '', now(), now(), now())",
        new(),
        acme,
    )
    change(
        "insert into domain_routes (id, org_id, domain, token, checked_at, login_policy, join_policy, created_at, updated_at)"
        " values (%s, %s, 'acme.example', 't', now(), 'password_allowed', 'off', now(), now())",
        new(),
        acme,
    )
    change(
        "insert into mail_servers (id, org_id, host, port, username, sealed_password, from_email, failing_since, created_at, updated_at)"
        " values (%s, %s, 'h', 25, 'u', '', 'a@acme.example', now(), now(), now())",
        new(),
        acme,
    )
    deadline = new()
    change(
        "insert into offboarding_deadlines (id, org_id, removal_minutes, seen_to, created_at, updated_at)"
        " values (%s, %s, 5, now(), now(), now())",
        deadline,
        acme,
    )
    for missing in (2, 0):
        change(
            "insert into offboarding_watches (entry_id, deadline_id, act, act_at, look_at, missing)"
            " values (%s, %s, 'removal', now(), now(), %s)",
            new(),
            deadline,
            missing,
        )
    change(
        "insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, last_error, created_at, updated_at)"
        " values (%s, %s, 'S', 'generic', 'https://siem.example', 10, 'no answer', now(), now())",
        new(),
        acme,
    )
    change(
        "insert into scim_tokens (id, org_id, name, prefix, digest, expires_at, created_by, created_at)"
        " values (%s, %s, 'D', 'p', 'd', now() + interval '3 days', %s, now())",
        new(),
        acme,
        owner.user,
    )
    for identifier in ("https://api.acme.example/", "http://localhost/"):
        change(
            "insert into resource_servers (id, org_id, identifier, domain, name, admits, token, created_at, updated_at)"
            " values (%s, %s, %s, 'api.acme.example', 'API', 'all', 't', now(), now())",
            new(),
            acme,
            identifier,
        )
    change("update organizations set mfa_required_since = now(), mfa_grace_days = 30 where id = %s", acme)
    assert {one["todo"]: one["count"] for one in (await street.request("GET", TODOS, by=owner)).json()} == {
        "join_requests": 2,
        "certificates": 1,
        "webhooks": 1,
        "domains": 1,
        "resource_servers": 1,
        "second_factors": 1,
        "mail_server": 1,
        "siem": 1,
        "offboarding": 1,
        "keys": 1,
    }
    theirs = street.resident(street.globex, "owner")
    assert (await street.request("GET", TODOS.replace("acme", "globex"), by=theirs)).json() == []
    assert (await street.request("GET", TODOS, by=theirs)).status == 403
    assert (await street.request("GET", TODOS, by=street.resident(street.acme, "member"))).status == 403
