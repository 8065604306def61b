"""Clients of other systems: which of their addresses a service gets, what tells what their mappers told, and what a0deploy has written."""

from typing import Any

import pytest

from core.domain.platform.imports import auth0
from core.domain.platform.imports.clients import addresses, document, lost_addresses
from core.domain.platform.imports.keycloak_clients import RealmParts, foreign_parts


def at_keycloak(texts: Any = None, language: Any = None, roles: Any = None, **client: Any) -> str:
    realm = RealmParts([{"clientId": "shop", **client}], {"client": {"shop": roles or []}}, [], texts, language)
    return "\n".join(document("acme", foreign_parts(realm)))


@pytest.mark.parametrize(
    ("given", "is_public", "kept", "why"),
    [
        ("https://a.example/cb", False, ("https://a.example/cb",), None),
        ("https://a.example/*", False, (), "there are no wildcards: write each address that the application uses"),
        ("*", True, (), "there are no wildcards: write each address that the application uses"),
        ("https://##ENV##.example/cb", False, (), "it has a placeholder: write the address that stands for it"),
        ("${authBaseUrl}/cb", False, (), "it has a placeholder: write the address that stands for it"),
        ("http://a.example/cb", False, (), "http is only for localhost, 127.0.0.1 and [::1]"),
        ("http://127.0.0.1:*", True, ("http://127.0.0.1", "http://127.0.0.1/"), None),
        ("http://[::1]:*/cb", True, ("http://[::1]/cb",), None),
        ("http://localhost:*/cb", False, (), "there are no wildcards: write each address that the application uses"),
        ("http://localhost:*/*", True, (), "there are no wildcards: write each address that the application uses"),
        ("/cb", False, ("https://root.example/cb",), None),
    ],
)
def test_an_address_is_kept_or_lost_with_a_reason(given: str, is_public: bool, kept: tuple[str, ...], why: str | None) -> None:
    found = addresses([given, given], "https://root.example/", is_public=is_public)
    assert (found.kept, [one.why for one in found.lost]) == (kept, [] if why is None else [why])


def test_a_program_on_the_device_keeps_its_any_port() -> None:
    text = at_keycloak(publicClient=True, redirectUris=["http://127.0.0.1:*", "https://a.example/cb"])
    assert 'service_type: "desktop"\n        redirect_uris:\n          - "http://127.0.0.1"\n          - "http://127.0.0.1/"' in text
    assert "# An address on the device has any port." in text


def test_a_service_has_the_type_that_may_have_all_of_its_addresses() -> None:
    text = at_keycloak(
        redirectUris=["https://a.example/cb", "com.example:/cb"],
        attributes={"post.logout.redirect.uris": "com.example:/bye", "backchannel.logout.url": "com.example:/logout"},
    )
    assert 'service_type: "mobile"' in text
    assert '"com.example:/bye"' in text
    assert "backchannel" not in text
    text = at_keycloak(redirectUris=["https://a.example/cb"], attributes={"post.logout.redirect.uris": "com.example:/bye"})
    assert 'service_type: "web"' in text
    assert "# post_logout_redirect_uris: com.example:/bye is left out: must begin with https://" in text


@pytest.mark.parametrize(
    ("texts", "language", "name"),
    [
        ({"de": {"client_shop": "Laden"}, "en": {"client_shop": "Shop!"}}, "de", "Laden"),
        ({"de": {"client_shop": "Laden"}, "en": {"client_shop": "Shop!"}}, None, "Shop!"),
        ({"fr": {"client_shop": "Magasin"}, "en": {"client_shop": " "}}, None, "Magasin"),
        ({"en": 5, "de": {"client_shop": 5}}, [], "Shop"),
        (None, None, "Shop"),
    ],
)
def test_a_name_that_is_a_key_is_resolved_or_made_of_the_client_id(texts: Any, language: Any, name: str) -> None:
    assert f'name: "{name}"' in at_keycloak(texts, language, name="${client_shop}")
    assert f'name: "The {name}"' in at_keycloak(texts, language, name="The ${client_shop}") or name == "Shop"


def test_a_client_id_is_made_readable() -> None:
    realm = RealmParts([{"clientId": "client_shop-admin.web", "name": "${x}"}, {"clientId": "---", "name": "${x}"}], None, [])
    assert [one.title for one in foreign_parts(realm).clients] == ["Shop admin web", "---"]


def test_descriptions_of_roles_are_resolved_or_left_out() -> None:
    roles = [{"name": "a", "description": "${role_a}"}, {"name": "b", "description": "${role_b}"}]
    text = at_keycloak({"en": {"role_a": "Writes"}}, roles=roles)
    assert 'description: "Writes"' in text
    assert "role_b" not in text


def mapper(kind: str, name: str = "m", **settings: str) -> dict[str, Any]:
    return {"name": name, "protocolMapper": kind, "config": {key.replace("__", "."): value for key, value in settings.items()}}


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (mapper("oidc-full-name-mapper"), "the scopes `profile` and `email` tell it"),
        (mapper("oidc-sub-mapper"), "tokens have it without a mapper, or need none"),
        (mapper("script-roles.js"), "it is code, which nothing here runs"),
        (mapper("saml-role-list-mapper"), "see `attribute_mapping` in `saml` of a service"),
        (mapper("oidc-audience-mapper"), "access tokens name the service as their audience"),
        (mapper("oidc-usermodel-realm-role-mapper", claim__name="roles"), "the scope `roles` tells it."),
        (
            mapper("oidc-usermodel-client-role-mapper", claim__name="resource_access.shop.roles"),
            "the application reads `roles` in the place of `resource_access.shop.roles`",
        ),
        (
            mapper("oidc-group-membership-mapper", claim__name="teams", id__token__claim="true"),
            'or write `claims: {"teams": {"source": "teams", "into": ["id_token"]}}`',
        ),
        (
            mapper("oidc-hardcoded-claim-mapper", claim__name="tenant", claim__value="a", access__token__claim="true"),
            'write it as `claims: {"tenant": {"source": "constant", "argument": "a", "into": ["access_token"]}}`',
        ),
        (mapper("oidc-hardcoded-claim-mapper"), "there is no counterpart"),
        (
            mapper("oidc-usermodel-property-mapper", user__attribute="username", claim__name="preferred_username"),
            "the scopes `profile` and `email` tell it",
        ),
        (
            mapper("oidc-usermodel-property-mapper", user__attribute="username", claim__name="uid"),
            "the application reads `preferred_username` in the place of `uid`",
        ),
        (mapper("oidc-usermodel-property-mapper", user__attribute="id", claim__name="uid"), "reads `sub` in the place of `uid`"),
        (mapper("oidc-usermodel-attribute-mapper", user__attribute="locale", claim__name="locale"), "the scopes `profile` and `email`"),
        (
            mapper("oidc-usermodel-attribute-mapper", user__attribute="dept", claim__name="department"),
            (
                "declare a field `dept`, and write "
                '`claims: {"department": {"source": "organization_field", "argument": "dept", "into": ["id_token"]}}`'
            ),
        ),
        (mapper("oidc-usermodel-attribute-mapper", user__attribute="dept"), "there is no counterpart"),
        (mapper("oidc-usersessionmodel-note-mapper"), "there is no counterpart"),
    ],
)
def test_a_mapper_is_named_with_what_to_do(one: dict[str, Any], says: str) -> None:
    text = at_keycloak(protocolMappers=[one])
    assert '        # Mapper "m": ' in text
    assert says in text


def test_mappers_with_the_same_advice_are_one_line() -> None:
    ones = [mapper("oidc-full-name-mapper", "full name"), mapper("oidc-sub-mapper", ""), mapper("oidc-full-name-mapper", "name\n2")]
    text = at_keycloak(protocolMappers=ones)
    assert '# Mappers "full name", "name?2": the scopes `profile` and `email` tell it.' in text
    assert '# Mapper "oidc-sub-mapper": ' in text


TENANT: dict[str, Any] = {
    "clients": [
        {"name": "All Applications"},
        {"name": "Theirs", "global": True},
        {"name": ""},
        5,
        {
            "name": "Shop",
            "app_type": "regular_web",
            "callbacks": ["https://shop.example/cb", "https://*.shop.example/cb"],
            "allowed_logout_urls": ["https://shop.example/bye"],
            "oidc_logout": {"backchannel_logout_urls": ["ftp://x", "https://shop.example/logout"]},
            "grant_types": ["authorization_code", "implicit"],
            "jwt_configuration": {"alg": "HS256"},
            "addons": {"samlp": {}},
            "organization_usage": "require",
            "client_secret": "hush",
        },
        {"name": "App", "app_type": "native", "callbacks": ["com.example.app:/cb"]},
        {"name": "Program", "app_type": "native", "callbacks": ["http://localhost:1234/cb"]},
        {"name": "Robot", "app_type": "non_interactive"},
    ],
    "roles": [
        {
            "name": "Editor",
            "description": "Writes",
            "permissions": [
                {"permission_name": "read:x", "resource_server_identifier": "https://api"},
                {"permission_name": "write:x", "resource_server_identifier": "https://api"},
            ],
        },
        {"name": ""},
    ],
    "connections": [
        {
            "name": "corp",
            "strategy": "samlp",
            "options": {"signInEndpoint": "https://corp.example", "domain_aliases": ["c.example"]},
        },
        {"name": "entra", "strategy": "waad", "options": {"client_secret": "hush"}},
        {"name": "google", "strategy": "google-oauth2"},
        {"name": "sms", "strategy": "sms"},
        {"name": "db", "strategy": "auth0"},
    ],
    "databases": [{"name": "Username-Password-Authentication"}],
    "resourceServers": [{"identifier": "https://api", "scopes": [{"value": "read:x"}]}, {"name": "Plain"}],
    "actions": [{"name": "enrich"}],
    "rules": "none",
}


def test_what_a0deploy_wrote_becomes_a_document() -> None:
    parts = auth0.foreign_parts(TENANT)
    text = "\n".join(document("acme", parts))
    for line in (
        "# Connection corp: connect a SAML directory at https://corp.example as a provider of the organization, for the domains c.example.",
        "# Connection entra: connect Microsoft Entra ID as a provider of the organization.",
        "# Connection google: people sign in with google-oauth2 if the installation or the organization has a client there.",
        "# Connection sms (sms): has no counterpart.",
        "# Database Username-Password-Authentication: its people come by `postern import auth0`.",
        "# API https://api: make a service for it, with the permissions read:x.",
        "# API Plain: make a service for it.",
        "# Actions enrich: are code, which nothing here runs.",
        (
            '    roles:\n      "editor":\n        # It has read:x, write:x of https://api: make permissions and a role of that service\n'
            '        name: "Editor"\n        permissions: []\n        description: "Writes"'
        ),
        (
            '        post_logout_redirect_uris:\n          - "https://shop.example/bye"\n'
            '        backchannel_logout_uri: "https://shop.example/logout"'
        ),
        "# It may have used the implicit flow",
        "# Its ID tokens were signed with its secret (HS256).",
        "# It speaks SAML",
        "# Only people of an organization of Auth0 signed in to it",
        '"app":\n        # App at Auth0\n        name: "App"\n        service_type: "mobile"',
        '"program":\n        # Program at Auth0\n        name: "Program"\n        service_type: "desktop"',
        '"robot":\n        # Robot at Auth0\n        name: "Robot"\n        service_type: "api"',
    ):
        assert line in text, line
    assert [one.name for one in parts.clients] == ["Shop", "App", "Program", "Robot"]
    assert "hush" not in text
    assert list(lost_addresses(parts)) == [
        "Shop: https://*.shop.example/cb is left out: there are no wildcards: write each address that the application uses"
    ]


def test_roles_in_the_metadata_of_auth0s_users_are_roles() -> None:
    """People cannot change them there. Each needs a --map-role, as every role does."""
    made = auth0.person(
        {
            "user_id": "1",
            "app_metadata": {"roles": ["admin", "editor"], "authorization": {"roles": ["admin", "auditor"]}, "tier": "gold"},
            "user_metadata": {"roles": ["root"]},
        },
        "",
    )
    assert made.roles == ("admin", "editor", "auditor")
    assert made.fields == {"tier": "gold", "roles": ["root"]}
    assert auth0.person({"user_id": "1", "app_metadata": {"roles": "admin", "authorization": 5}}, "").roles == ()
