"""Domain routes whose domains are proved already, written straight into the database."""

from typing import Any
from uuid import UUID, uuid4

from tests.http.people import People
from tests.http.tenants import Tenant


def route(
    people: People,
    tenant: Tenant,
    domain: str,
    *,
    provider: str | None = "websuite",
    own: UUID | None = None,
    login: str = "upstream_only",
    join: str = "off",
    proved: bool = True,
) -> None:
    """A route to a shared provider, with the organization's own client there."""
    people.change(
        """
        insert into domain_routes (id, org_id, domain, token, verified_at, checked_at, next_check_at, shared_provider, own_provider,
                                   login_policy, join_policy, created_at, updated_at)
        select gen_random_uuid(), %s, %s, 't', moments.at, moments.at, moments.at + interval '7 days', %s, %s, %s, %s, now(), now()
          from (select case when %s then now() end as at) as moments
        """,
        tenant.id,
        domain,
        provider,
        own,
        login,
        join,
        proved,
    )
    if provider is not None:
        people.change(
            """
            insert into oauth_credentials (id, org_id, provider, client_id, sealed_client_secret, created_at, updated_at)
            values (%s, %s, %s, 'c', %s, now(), now()) on conflict do nothing
            """,
            credentials := uuid4(),
            tenant.id,
            provider,
            people.sealed("secret", f"oauth_credentials.sealed_client_secret:{credentials}"),
        )


def change_route(people: People, domain: str, **columns: Any) -> None:
    for column, value in columns.items():
        people.change(f"update domain_routes set {column} = %s where domain = %s", value, domain)


def own_provider(people: People, tenant: Tenant, name: str = "Acme single sign-on") -> UUID:
    """A provider of the organization's own, enabled. Nobody can sign in there, because its client secret cannot be decrypted."""
    (row,) = people.rows(
        """
        insert into upstream_providers (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at, updated_at)
        values (gen_random_uuid(), %s, %s, 'https://login.example', 'c', '', '{}', true, now(), now())
     returning id
        """,
        tenant.id,
        name,
    )
    provider: UUID = row["id"]
    return provider
