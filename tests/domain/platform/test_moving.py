"""What an organization's file may bring, and what the logs say of its move."""

from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import pytest

from adapters.postgres.moving.arriving_columns import COLUMNS
from adapters.postgres.moving.arriving_rows import Receiver, require_fit
from adapters.texts import ShippedTexts
from core.domain.errors import BadRequest
from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.ldap.settings import LdapSettings, ldap_issuer
from core.domain.mail import Email
from core.domain.platform.moving import (
    ArrivedOrganization,
    AuditProof,
    DepartedOrganization,
    MovedPeople,
    UnfitFile,
    exported,
    imported,
    is_bearable,
)
from core.domain.record.events import Actor
from tests.pictures import drawn_png, gif, png

ACME: Final = UUID(int=7)
PROOF: Final = AuditProof(3, "3:ab", 0, "cd")
REST: Final = f"${'a' * 22}${'b' * 43}"


@pytest.mark.parametrize(
    ("encoded", "bearable"),
    [
        (f"$argon2id$v=19$m=19456,t=2,p=1{REST}", True),
        (f"$argon2id$v=16$m=262144,t=4,p=16{REST}", True),
        (f"$argon2id$v=19$m=262145,t=1,p=1{REST}", False),
        (f"$argon2id$v=19$m=262144,t=5,p=1{REST}", False),
        (f"$argon2id$v=19$m=2147483648,t=1,p=1{REST}", False),
        (f"$argon2id$v=19$m=19456,t=0,p=1{REST}", False),
        (f"$argon2id$v=19$m=19456,t=1,p=0{REST}", False),
        (f"$argon2id$v=19$m=19456,t=1,p=17{REST}", False),
        (f"$argon2id$v=19$m=7,t=1,p=1{REST}", False),
        (f"$argon2i$v=19$m=19456,t=2,p=1{REST}", False),
        (f"$foreign$bcrypt$r=12${'a' * 22}${'b' * 31}", True),
        (f"$foreign$bcrypt$r=4${'a' * 22}${'b' * 31}", False),
        (f"$foreign$bcrypt$r=31${'a' * 22}${'b' * 31}", False),
        (f"$foreign$bcrypt$r=4${'a' * 22}$argon2id$v=19$m=19456,t=2,p=1{REST}", True),
        (f"$foreign$bcrypt$r=4${'a' * 22}$argon2id$v=19$m=19456,t=99,p=1{REST}", False),
        ("$foreign$plain$$x$hunter2", False),
        ("hunter2", False),
        ("", False),
    ],
)
def test_a_password_may_cost_so_much_and_no_more(encoded: str, *, bearable: bool) -> None:
    assert is_bearable(encoded) is bearable


ORGANIZATION: Final = {
    "name": "Acme",
    "primary_color": "#0f5f5c",
    "logo_url": "https://acme.example/logo.png",
    "help_url": None,
    "privacy_url": None,
    "terms_url": None,
    "look": None,
    "mfa_grace_days": 7,
    "device_trust_days": 30,
    "invitation_domains": ["acme.example"],
    "registration_domains": ["acme.example"],
}
SERVICE: Final = {
    "slug": "shop",
    "name": "Shop",
    "service_type": "web",
    "redirect_uris": ["https://shop.example/callback"],
    "post_logout_redirect_uris": [],
    "device_activation_uri": "https://shop.example/device",
    "initiate_login_uri": "https://shop.example/sign-in",
    "backchannel_logout_uri": None,
    "jwks_uri": "https://shop.example/keys",
    "sign_in_policy": "anyone",
}
PROFILED: Final = {
    **SERVICE,
    "jwks_uri": None,
    "jwks": {"keys": [{"kty": "EC", "crv": "P-256", "x": "A" * 43, "y": "A" * 43}]},
    "profile": "fapi2",
    "dpop_bound_access_tokens": True,
    "assertion_audience": "issuer",
}
CLAIM: Final = {"name": "tier", "source": "plan", "argument": None, "told_in": ["id_token"]}
SAML: Final = {
    "acs_url": "https://sp.example/acs",
    "slo_url": None,
    "slo_response_url": None,
    "acs_endpoints": [{"index": 1, "url": "https://sp.example/b", "is_default": None}],
    "signing_certificates": [],
    "enabled": False,
}
WEBHOOK: Final = {"url": "https://receiver.example", "events": ["user.joined"]}
DIRECTORY: Final = {
    "id": str(ACME),
    "kind": "ldap",
    "issuer": ldap_issuer(str(ACME)),
    "ldap": LdapSettings(),
    "profile_mapping": {"departmentNumber": "department"},
}
API: Final = {
    "name": "Orders",
    "metadata_hosts": [],
    "identifier": "https://login.example/",
    "domain": "login.example",
    "scopes": [{"name": "read", "description": "See orders", "permission": None}],
}
TRUSTED: Final = {
    "name": "Deploy",
    "issuer": "https://ci.example",
    "audience": "https://id.example",
    "jwks_uri": "https://ci.example/keys",
    "jwks": None,
    "subject_pattern": "repo:acme/shop:*",
    "claims": {"repository_id": "74"},
}


def _content(picture: bytes) -> dict[str, Any]:
    return {"content": f"\\x{picture.hex()}", "digest": sha256(picture).hexdigest()}


FIT: Final[tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]] = (
    ("all_organizations", ORGANIZATION, {"name": ""}),
    ("all_organizations", ORGANIZATION, {"primary_color": "red;}"}),
    ("all_organizations", {**ORGANIZATION, "primary_color": None}, {"terms_url": "javascript:alert(1)"}),
    ("all_services", SERVICE, {"slug": "a/b"}),
    ("all_services", SERVICE, {"service_type": "toaster"}),
    ("all_services", SERVICE, {"redirect_uris": ["com.example:/x"]}),
    ("all_services", {**SERVICE, "service_type": "mobile", "redirect_uris": ["com.example.app:/x"]}, {"redirect_uris": [7]}),
    ("all_services", {**SERVICE, "device_activation_uri": None}, {"device_activation_uri": "ftp://x"}),
    ("all_services", SERVICE, {"initiate_login_uri": "https://shop.example/?iss=x"}),
    ("all_services", SERVICE, {"initiate_login_uri": "javascript:alert(1)"}),
    ("all_services", SERVICE, {"jwks_uri": "file:///keys"}),
    ("all_services", PROFILED, {"jwks": None, "profile": "fapi2"}),
    ("all_services", PROFILED, {"dpop_bound_access_tokens": False}),
    ("all_services", PROFILED, {"assertion_audience": "endpoint"}),
    ("all_services", PROFILED, {"redirect_uris": ["http://localhost/callback"]}),
    ("all_services", PROFILED, {"service_type": "mobile", "profile": "fapi2"}),
    ("service_claims", CLAIM, {"name": "sub"}),
    ("service_claims", CLAIM, {"told_in": ["postcard"]}),
    ("service_claims", CLAIM, {"source": "password"}),
    ("service_roles", {"slug": "editor"}, {"slug": "Editor!"}),
    ("roles", {"slug": "boss_2"}, {"slug": "<b>"}),
    ("teams", {"slug": "sales"}, {"slug": ""}),
    ("saml_configurations", SAML, {"acs_url": "javascript:alert(1)"}),
    ("saml_configurations", SAML, {"acs_endpoints": [{"url": "data:x"}]}),
    ("saml_configurations", SAML, {"acs_endpoints": ["https://sp.example"]}),
    ("logos", {"media_type": "image/png", **_content(png())}, {"media_type": "image/gif"}),
    ("logos", {"media_type": "image/gif", **_content(gif())}, {"content": "\\x00"}),
    ("logos", {"media_type": "image/gif", **_content(gif())}, {"digest": "0" * 64}),
    ("look_pictures", {"kind": "background", "media_type": "image/png", **_content(drawn_png())}, _content(drawn_png() + b"<script>")),
    ("look_pictures", {"kind": "favicon", "media_type": "image/png", **_content(drawn_png())}, _content(drawn_png(3, 2))),
    ("look_pictures", {"kind": "favicon", "media_type": "image/png", **_content(drawn_png())}, {"media_type": "image/webp"}),
    ("service_logos", {"media_type": "image/png", **_content(drawn_png())}, {"digest": "0" * 64}),
    ("service_logos", {"media_type": "image/png", **_content(drawn_png())}, {"media_type": "image/gif", **_content(gif())}),
    ("all_organizations", {**ORGANIZATION, "look": '{"corner": 4}'}, {"look": '{"corner": 5}'}),
    ("all_organizations", {**ORGANIZATION, "look": None}, {"look": '{"background": "url(https://evil.example)"}'}),
    ("all_organizations", {**ORGANIZATION, "look": None}, {"look": "[]"}),
    ("all_organizations", {**ORGANIZATION, "look": None}, {"look": "{"}),
    ("pictures", {"type": "image/png", "content": f"\\x{png().hex()}"}, {"content": f"\\x{png(width=9000).hex()}"}),
    ("pictures", {"type": "image/png", "content": f"\\x{png().hex()}"}, {"content": f"\\x{png(padding=300_000).hex()}"}),
    ("webhooks", WEBHOOK, {"url": "gopher://x"}),
    ("webhooks", WEBHOOK, {"events": ["thing.done"]}),
    ("siem_configurations", {"endpoint_url": "https://siem.example"}, {"endpoint_url": "siem"}),
    ("upstream_providers", {"kind": "oidc", "issuer": "https://login.example"}, {"issuer": "login"}),
    (
        "upstream_providers",
        {"kind": "saml", "issuer": "login", "saml": SamlSettings()},
        {"saml": SamlSettings(sso_url="javascript:alert(1)")},
    ),
    ("upstream_providers", DIRECTORY, {"ldap": LdapSettings(read_seconds=10**15)}),
    ("upstream_providers", DIRECTORY, {"ldap": LdapSettings(address_attribute="userPassword")}),
    ("upstream_providers", DIRECTORY, {"profile_mapping": {"userPassword": "department"}}),
    ("domains", {"domain": "login.example"}, {"domain": "LOGIN.example"}),
    ("domain_routes", {"domain": "login.example"}, {"domain": "x/../y"}),
    ("resource_servers", API, {"identifier": "https://login.example/#a"}),
    ("resource_servers", API, {"domain": "other.example"}),
    ("resource_servers", API, {"scopes": [{"name": "openid", "description": "All", "permission": None}]}),
    ("resource_servers", API, {"scopes": [{"description": "All"}]}),
    *(
        ("resource_servers", API, {"scopes": [{"name": "read", "description": "Read", name: value}]})
        for name, value in (
            *(("acr_values", ["urn:x"]), ("acr_values", ""), ("acr_values", [{}])),
            *(("max_age", 1), ("max_age", True), ("max_age", 90.5)),
        )
    ),
    ("trusted_issuers", TRUSTED, {"subject_pattern": "*:acme"}),
    ("trusted_issuers", TRUSTED, {"jwks_uri": None, "jwks": {"keys": [{"kty": "oct", "k": "AA"}]}}),
    ("trusted_issuers", TRUSTED, {"jwks_uri": None, "jwks": {"keys": [5]}}),
    ("trusted_issuers", TRUSTED, {"jwks_uri": "file:///keys"}),
    ("invitations", {"email": "A@b.example", "email_key": "a@b.example"}, {"email_key": "c@b.example"}),
    ("management_keys", {"capabilities": ["services.view"]}, {"capabilities": ["tiers.manage"]}),
    ("api_keys", {"permissions": ["read:users"]}, {"permissions": ["everything"]}),
)


class Syntax:
    def parse(self, text: str) -> Email:
        if type(text) is not str or "@" not in text:
            raise BadRequest
        return Email(text)


HERE: Final = Receiver("https://id.example", Syntax(), ShippedTexts())


def test_rows_keep_the_rules_of_the_endpoints() -> None:
    for table, row, wrong in FIT:
        require_fit(table, whole(table, row), HERE)
        assert _refused(table, {**row, **wrong}), (table, wrong)
        for name in row:
            # The types of columns are read before.
            if row[name] is not None and type(row[name]) is not bool and name not in {"invitation_domains", "registration_domains"}:
                assert _refused(table, {**row, name: {"a": object()}}), (table, name)


def test_a_refusal_begins_with_the_column() -> None:
    for table, row, wrong in FIT:
        with pytest.raises(BadRequest, match=rf"^({'|'.join(wrong)}|content|digest|sso_url|a value)\b"):
            require_fit(table, whole(table, {**row, **wrong}), HERE)


def whole(table: str, row: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(COLUMNS[table]), **row}


def _refused(table: str, row: dict[str, Any]) -> bool:
    try:
        require_fit(table, whole(table, row), HERE)
    except BadRequest:
        return True
    return False


def test_an_unfit_file_shows_nothing_that_a_terminal_obeys() -> None:
    assert UnfitFile("a\u001b[2Jb").message == "a?[2Jb"


def test_the_logs_say_what_left_for_whom_and_what_arrived() -> None:
    operator = Actor(operator="grace")
    departed = DepartedOrganization(
        organization=ACME, slug="acme", file="f", digest="d", sealed_for="1234-abcd", was_open=True, people=2, tables=(), audit=PROOF
    )
    event = exported(departed, operator)
    assert (event.name, event.organization, event.published, event.audited) == ("organization.exported", ACME, False, True)
    assert event.known_personal == {"operator": "grace"}
    assert event.details == {"slug": "acme", "digest": "d", "sealed_for": "1234-abcd", "people": 2, "audit_head": "3:ab"}
    arrived = ArrivedOrganization(
        organization=ACME,
        slug="acme",
        source="https://old.example",
        digest="d",
        tier="free",
        status="suspended",
        trusted=True,
        planned=False,
        people=MovedPeople(1, 2, 0, 0),
        named=(),
        changed_ids={},
        tables=(),
        audit=PROOF,
    )
    event = imported(arrived, operator)
    assert (event.name, event.organization, event.published) == ("organization.imported", ACME, False)
    assert event.details == {
        "slug": "acme",
        "source": "https://old.example",
        "digest": "d",
        "people": 3,
        "trusted_people": True,
        "audit_head": "3:ab",
        "audit_digest": "cd",
    }
