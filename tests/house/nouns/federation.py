"""The nouns of signing in for other applications, and of directories."""

from typing import Final

from core.domain import identifiers as ids
from core.domain.federation.backchannel_requests import BlockedClient
from core.domain.federation.oauth.consents import AgentGrant, Consent
from core.domain.federation.saml.configurations import Configuration
from core.domain.federation.scim.tokens import ScimToken
from core.domain.platform.searches import ThingKind
from tests.house.declaring import Noun

_API: Final = "/api/organizations/{org_slug}"
_SERVICE: Final = f"{_API}/services/{{service_slug}}"
_UI: Final = "/ui/o/{org_slug}"
_APPLICATION: Final = f"{_UI}/applications/{{service_slug}}"

FEDERATION: Final = (
    Noun(
        name="consent",
        of=Consent,
        id=ids.ConsentId,
        table="consents",
        at="/api/user/consents",
        events=("user.consent",),
        page="/ui/applications",
    ),
    Noun(
        name="blocked client",
        of=BlockedClient,
        table="afar_blocks",
        at="/api/user/blocked-clients",
        events=("user.afar_client",),
        page="/ui/requests",
    ),
    Noun(
        name="agent grant",
        of=AgentGrant,
        id=ids.AgentGrantId,
        table="resource_consents",
        at=f"{_API}/agent-grants",
        events=("service.agent",),
        page=f"{_UI}/people/agents",
        told_as=("agent",),
    ),
    Noun(
        name="SAML configuration",
        of=Configuration,
        table="saml_configurations",
        parts={
            "saml_certificates": "its certificates",
            "saml_requests": "the ids of requests that were used",
            "saml_sessions": "people's sessions at the service provider",
            "saml_exchanges": "its log: what the service provider and we sent each other, for a week",
        },
        part_ids=(ids.SamlCertificateId, ids.SamlRequestId, ids.SamlSessionId, ids.SamlExchangeId),
        at=f"{_SERVICE}/saml",
        is_single=True,
        events=("service.saml",),
        page=f"{_APPLICATION}/saml",
        document="saml",
    ),
    Noun(
        name="SCIM token",
        of=ScimToken,
        id=ids.ScimTokenId,
        table="scim_tokens",
        parts={
            "scim_groups": "what the directory's groups are here, and which attribute fills which field",
            "scim_exchanges": "the directory's log: what it asked and what we answered, for a week",
            "provisioned_users": "what the directory says of people",
        },
        part_ids=(ids.ScimExchangeId,),
        at=f"{_API}/scim-tokens",
        events=("scim_token",),
        page=f"{_UI}/directories/scim",
        search=ThingKind.SCIM_TOKEN,
        most="MOST_TOKENS",
    ),
)
