"""Makes what the guide takes for granted: an organization with a management key, and a service with an API key and a secret."""

import json
import sys

from postern_client import Postern

BASE_URL, EMAIL, PASSWORD, SLUG = sys.argv[1:]

with Postern(BASE_URL) as nobody:
    person = nobody.sign_in(email=EMAIL, password=PASSWORD).access_token
with Postern(BASE_URL, token=person) as postern:
    made = postern.create_organization(slug=SLUG, name="Acme")
    if made.organization.status == "pending":
        postern.approve_organization(made.organization.id)
with Postern(BASE_URL, token=made.access_token) as owner:
    service = owner.create_service(SLUG, slug="shop", name="Shop", service_type="web", redirect_uris=["https://shop.example.org/callback"])
    secret = owner.create_client_secret(SLUG, "shop")
    api_key = owner.create_api_key(SLUG, "shop", name="Server", permissions=["read:users", "write:users"])
    key = owner.create_management_key(
        SLUG, name="Guide", capabilities=["org.members.view", "org.members.manage", "audit_logs.view"], expires_in_days=1
    )
    print(
        json.dumps(
            {
                "POSTERN": BASE_URL,
                "KEY": key.key,
                "SERVICE_KEY": api_key.key,
                "OIDC_CLIENT_ID": service.service.client_id,
                "OIDC_CLIENT_SECRET": secret.client_secret,
            }
        )
    )
