"""Documents for tests: one with an object of every kind that needs nobody outside."""

from pathlib import Path
from typing import Any, Final

from core.domain.identity.sessions import TWO_FACTORS
from entrypoints.cli.configuration.planned_documents import AllowedSecrets

# Of a service provider that signs its requests.
CERTIFICATE: Final = """\
-----BEGIN CERTIFICATE-----
MIICrzCCAZegAwIBAgIBATANBgkqhkiG9w0BAQsFADAaMRgwFgYDVQQDDA9jcm0u
ZXhhbXBsZS5jb20wIBcNMjAwMTAxMDAwMDAwWhgPMjA5OTAxMDEwMDAwMDBaMBox
GDAWBgNVBAMMD2NybS5leGFtcGxlLmNvbTCCASIwDQYJKoZIhvcNAQEBBQADggEP
ADCCAQoCggEBAOme4bXtS1S4e/jfiRlcLG/LC2VuzZYm0YqXG/2WLuk2Qky+z4O2
tJ12ptLU2caVcUkc8MUPlOTVMW9ui9hmfEwHv0YjJ7wVAY1cvrtn7DK8JQ0xrt0z
u5cAjk4MmNJQvJa9U+Rhp+whHVigLP/sqeg1g5vxYNspCF/hviAJRmIu4M+UeOAM
ZDsEtnsjrDd6qgpRk87qiRFqxF6pyfUaFbn4HDrlLH89pWNcwmwGFIoVOk269imK
4uC3d3RBmQyT9BqOMEjlOvezV28W62P3Rm6MPcJilX/xmkHYRCtBmzPN2+FwBKAC
B74t+yWVep+JRlSGSi31gBbRZ8uYTweDiJMCAwEAATANBgkqhkiG9w0BAQsFAAOC
AQEAKXZ4lL19iPhN80gNihEcpql4MU577nzGrv//U5v6os5wBF+HKH/PSaTtH2/P
YLiSbQCQsCuzIFCmroqzPHV6G64Yukm9+aKv83sdrIO9EL04wK2srPHKfz+nIIkV
oc/CQYslJYzKzsc4nPOEFKNX3XbKO4/rIEK+Cekw3j4VlGs4zWLrStdvo8yr3SV/
UTNR7KMHPJTacBCLyVyDBHCSKrVrBnUdmXf7oz/P4tIOV81gC2vUc759nHWZHYvX
IBQ2xobyHI9IQcE2BkZ8vhrmiwAHjsUjoG+r3d/ZvWCxyBJKrgzl5AhUfVJnx7BT
BkDwp4vRR2W0xoNQuOarsYpITw==
-----END CERTIFICATE-----
"""
_X: Final = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
_Y: Final = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
ACME: Final[dict[str, Any]] = {
    "name": "Acme Ltd",
    "metadata": {"contract": "A-17", "signed": True, "seats": 1},
    "limits": {"tier": "professional", "max_services": 20, "max_users": None},
    "sign_in_rules": {
        "mfa_grace_days": 3,
        "device_trust_days": 5,
        "invitation_domains": ["b.example", "A.example"],
        "registration_policy": "except_domains",
        "registration_domains": ["d.example", "Bücher.example"],
        "sign_in_links": False,
    },
    "branding": {
        "primary_color": "#A01040",
        "second_color": "#2D5BA6",
        "corner": 4,
        "font": "serif",
        "help_url": "https://acme.example/help",
    },
    "languages": {"languages": ["de", "ar", "en"]},
    "texts": {
        "en": {"sign_in.title": " Welcome  to Acme", "own.footer": "Acme Ltd\nHigh Street 1\n\nRegistered in London"},
        "de": {"mail_invitation.subject": "Kommen Sie zu {organization}"},
    },
    "mail_server": {
        "host": "127.0.0.1",
        "port": 587,
        "username": "acme",
        "password": "env:MAIL_PASSWORD",
        "from_email": "it@acme.example",
        "from_name": " ACME Ltd  IT ",
    },
    "domain": {"domain": "Login.acme.example"},
    "offboarding_deadline": {"removal_minutes": 60, "access_minutes": 1440, "security_minutes": None},
    "siem": {
        "name": "Ours",
        "provider_type": "generic",
        "endpoint_url": "https://127.0.0.1/intake",
        "api_key": "env:SIEM_KEY",
        "auth_header": "env:SIEM_HEADER",
        "batch_size": 100,
        "is_active": False,
    },
    "hook": {"address": "https://127.0.0.1/hook", "silence": "refuse", "seconds": 3},
    "scim_settings": {"groups": "teams", "profile_mapping": {"department": "department"}},
    "profile_fields": {
        "department": {
            "label": "Department",
            "kind": "choice",
            "rule": {"choices": ["Sales", "Support"]},
            "written_by": ["directory", "administrator", "provider"],
            "position": 1,
        },
        "nickname": {"label": "Nickname", "kind": "text", "rule": {"max_length": 20}, "written_by": ["person"], "asked_at": "sign_in"},
    },
    "roles": {
        "support": {"name": "Support  team", "permissions": ["end_users.view", "end_users.manage"], "description": "Looks after end users"},
    },
    "teams": {"helpers": {"name": "Helpers", "role": "support"}, "plain": {"name": "Plain"}},
    "webhooks": {
        "CRM": {"url": "https://127.0.0.1/hooks", "events": ["user.joined", "user.login.success"], "is_active": False},
    },
    "upstream_providers": {
        "Directory": {
            "kind": "saml",
            "issuer": "https://login.acme.example",
            "sso_url": "https://login.acme.example/saml/sso",
            "slo_url": "https://login.acme.example/saml/slo",
            "slo_response_url": "https://login.acme.example/saml/slo/answers",
            "slo_binding": "post",
            "certificates": [CERTIFICATE.replace("\n", "\n\n")],
            "preset": "okta",
            "email_sources": ["mail", "name_id"],
            "wants_encrypted": True,
            "requested_contexts": ["urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"],
            "profile_mapping": {"urn:oid:2.5.4.11": "department"},
            "second_factor_values": ["https://refeds.org/profile/mfa"],
        },
        "People": {
            "kind": "ldap",
            "hosts": ["ldaps://DC1.acme.example", "ldaps://dc2.acme.example:3636"],
            "start_tls": False,
            "ca_certificates": CERTIFICATE,
            "bind_dn": "cn=reader,dc=acme,dc=example",
            "bind_password": "env:DIRECTORY",
            "base_dn": "ou=people,dc=acme,dc=example",
            "search_scope": "one_level",
            "ldap_preset": "openldap",
            "person_filter": "(objectClass=person)",
            "sign_in_attributes": ["uid", "mail"],
            "identity_attribute": "entryUUID",
            "address_attribute": "mail",
            "groups_attribute": "memberOf",
            "lockout_threshold": 2,
            "lockout_minutes": 20,
            "accepts_lockouts": True,
            "profile_mapping": {"ou": "department"},
        },
        "Published": {"kind": "saml", "metadata_url": "https://login.acme.example/metadata", "certificates": [CERTIFICATE]},
    },
    "oauth_credentials": {"codehost": {"client_id": "Iv1", "client_secret": "env:CODEHOST"}},
    "domain_routes": {
        "acme.example": {"login_policy": "password_allowed", "join_policy": "ask"},
    },
    "trusted_issuers": {
        "Deploy from main": {
            "service_slug": "billing",
            "issuer": "https://ci.acme.example",
            "audience": "https://id.example.org",
            "jwks_uri": None,
            "jwks": {"keys": [{"kty": "EC", "crv": "P-256", "x": _X, "y": _Y, "use": "sig", "kid": "a"}]},
            "subject_pattern": "repo:acme/*:ref:refs/heads/main",
            "claims": {"repository_owner_id": "74", "protected": True},
        },
    },
    "resource_servers": {
        "https://api.acme.example/invoices": {
            "name": "Invoices",
            "service_slug": "billing",
            "admits": "named",
            "admitted_services": ["billing"],
            "exchanges": ["billing"],
            "token_lifetime": 300,
            "access_token_alg": "RS256",
            "scopes": [
                {"name": "invoices:read", "description": "See  your invoices"},
                {"name": "invoices:write", "description": "Write invoices", "permission": "invoices:write"},
                {"name": "invoices:cancel", "description": "Cancel invoices", "acr_values": [TWO_FACTORS], "max_age": 300},
            ],
        },
        "http://localhost:8000/mcp": {"name": "In development", "admits": "all"},
    },
    "risk_policies": {
        "policies": [
            {
                "id": "5D0E7C1A-93C4-4C2B-8B57-0F2A3C9E6D11",
                "name": "Let in  at the office",
                "when": {"networks": [" 198.51.100.0/24"], "roles": ["member", "admin", "member"]},
                "action": "nothing",
            },
            {
                "id": "7b1c0a52-6e5d-4f0e-9d5b-1a7f4d2c8e30",
                "name": "At night",
                "when": {
                    "from_hour": 22,
                    "until_hour": 6,
                    "least_score": 0.456,
                    "services": ["wiki", "billing"],
                    "ways": ["password", "link"],
                },
                "action": "second_factor",
                "counts": False,
            },
        ],
        "exceptions": [
            {"kind": "team", "value": "helpers", "ends_at": "2099-01-01T02:00:00+02:00"},
            {"kind": "network", "value": "203.0.113.7", "ends_at": "2099-01-01T00:00:00.5Z"},
        ],
    },
    "services": {
        "billing": {
            "name": "Billing",
            "service_type": "web",
            "redirect_uris": ["https://billing.acme.example/callback", "http://localhost:3000/callback"],
            "sign_in_policy": "assigned",
            "trusted": True,
            "session_idle_minutes": 60,
            "most_sessions": 3,
            "dpop_bound_access_tokens": True,
            "metadata": {"cost_center": "4711"},
            "plans": {
                "free": {"name": "Free", "price_cents": 0, "currency": "EUR"},
                "team": {"name": "Team", "price_cents": 1900, "currency": "eur", "features": ["export"], "billing_price_id": None},
            },
            "permissions": {"invoices:write": {"description": "Write invoices"}, "invoices:read": None},
            "roles": {"editor": {"name": "Editor", "permissions": ["invoices:write", "invoices:read"]}},
            "assignments": {"editor to team helpers": {}, "editor to role admin": {}, "editor to role support": {}},
            "claims": {
                "cost_center": {"source": "constant", "argument": {"code": [1, 2]}, "into": ["userinfo", "id_token"]},
                "department": {"source": "organization_field", "argument": "department", "into": ["id_token"]},
            },
            "saml_service_provider": {
                "entity_id": "https://crm.example.com/saml",
                "acs_endpoints": [
                    {"index": 0, "url": "https://crm.example.com/saml/acs?a=1&b=%22"},
                    {"index": 1, "url": "https://crm.example.com/saml/acs", "is_default": True},
                ],
                "slo_url": "https://crm.example.com/saml/slo",
                "slo_response_url": "https://crm.example.com/saml/slo/answers",
                "slo_binding": "redirect",
                "signing_certificates": [CERTIFICATE],
                "encryption_certificate": CERTIFICATE.replace("\n", "\n\n"),
            },
            "saml": {
                "enabled": True,
                "require_signed_requests": True,
                "entity_id": "https://crm.example.com/saml",
                "acs_url": "https://crm.example.com/saml/acs",
            },
            "user_keys": {"enabled": True, "prefix": "inv", "longest_days": 90, "resource": "https://api.acme.example/invoices"},
            "provisioning": {
                "preset": "aws",
                "base_url": "https://scim.eu-central-1.amazonaws.com/acme/scim/v2/",
                "token": "env:AWS_TOKEN",
                "mapping": [
                    {"attribute": "userName", "source": "address"},
                    {"attribute": "displayName", "source": "name"},
                    {"attribute": "name.givenName", "source": "given_name"},
                    {"attribute": "name.familyName", "source": "family_name"},
                    {"attribute": "userType", "source": "constant", "argument": "employee"},
                ],
                "teams": ["helpers"],
            },
        },
        "app": {"name": "App", "service_type": "mobile", "redirect_uris": ["com.example.app:/callback"]},
        "wiki": {
            "name": "Wiki",
            "service_type": "proxy",
            "roles": {"editor": {"name": "Editor"}},
            "proxy": {"rules": ["/public open", "/admin role editor"], "headers": ["Remote-User username"], "idle_minutes": 60},
        },
    },
}
WHOLE: Final[dict[str, Any]] = {
    "postern": 1,
    "platform": {
        "texts": {"fr": {"sign_in.title": "Bonjour"}},
        "profile_fields": {"employee_number": {"label": "Number", "kind": "number", "rule": {"minimum": 1}, "scope": "profile"}},
        "providers": {
            "forum": {
                "name": "Forum",
                "kind": "oauth2",
                "authorization_url": "https://forum.example/authorize",
                "token_url": "https://forum.example/token",
                "profile_url": "https://forum.example/me",
                "subject": "id",
                "client_id": "postern",
                "client_secret": "env:CODEHOST",
            }
        },
        "risk_policies": {
            "policies": [
                {
                    "id": "2f9b6d0e-4a3c-4b1d-8f7e-5c6a7b8d9e01",
                    "name": "Owners by passkey",
                    "when": {"roles": ["platform_owner"], "new_device": True},
                    "action": "tell_owners",
                }
            ],
            "exceptions": [{"kind": "network", "value": "192.0.2.0/24", "ends_at": "2099-01-01T00:00:00Z"}],
        },
        "hook": {"address": "https://127.0.0.1/everywhere", "silence": "go_on"},
    },
    "organizations": {"acme": ACME},
}
SECRETS: Final = {
    "SIEM_HEADER": "X-Collector-Key",
    "MAIL_PASSWORD": "correct horse",
    "AWS_TOKEN": "a-token-of-theirs",
    "SIEM_KEY": "b2b1c5a0",
    "CODEHOST": "3c6e0b8a",
    "DIRECTORY": "reader of people",
}
resolve: Final = AllowedSecrets([*SECRETS, "A", "B", "HOME", "MOVED_SECRET", "PROVIDER"], Path("data")).resolve
"""As at the command line of an operator who allows these names."""
