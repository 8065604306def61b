"""All of the demo: two tenants, a web application, an MCP server and a client of it, and an application by SAML. What these need in Postern
is a configuration document, which the operator applies as `postern config apply` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.federation.saml.configurations import ConfigurationChange
from core.domain.secrets import Secret
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.cli.operating import acting, for_owner
from entrypoints.demo.organization import PARTNER_SLUG, SLUG, Demo
from entrypoints.demo.tools import SCOPE, DemoAssistant, DemoTools
from entrypoints.demo.wiki import DemoWiki
from entrypoints.failures import StartFailed
from entrypoints.http.routes.configuration.applying import Configuring

ASSISTANT: Final = "assistant"
WIKI: Final = "wiki"


class Programs(Frozen):
    tools: DemoTools
    assistant: DemoAssistant
    wiki: DemoWiki


async def make_everything(postern: Postern, made: Demo, programs: Programs, issuer: str) -> None:
    """Makes or finds what the programs need in the demo's two organizations, and tells them. Raises `StartFailed`."""
    configuring = Configuring(DocumentOperator(postern, {}))
    planned = await configuring.plan(document(programs), _without_secrets)
    if planned.problems:
        raise StartFailed(f"The demo cannot be set up: {planned.problems[0].message}")
    applied = await configuring.apply(planned)
    if applied.refused:
        raise StartFailed(f"The demo cannot be set up: {applied.refused[0].refusal.message}")
    partner = await for_owner(postern, PARTNER_SLUG)
    saml = postern.federation.saml
    await saml.fill(partner, WIKI, programs.wiki.description.encode(), acting())
    await saml.configure(partner, WIKI, ConfigurationChange(enabled=True), acting())
    if (await saml.get(partner, WIKI)).configured.active is None:
        await saml.make_certificate(partner, WIKI, acting(), activate=True)
    async with postern.foundation.unit_of_work() as uow:
        assistant = await uow.services.hold(made.organization.id, ASSISTANT)
    if assistant is None:
        raise StartFailed("The demo was deleted a moment ago: try again")
    programs.assistant.client_id = str(assistant.client_id)
    programs.wiki.metadata = f"{issuer}/saml/{PARTNER_SLUG}/{WIKI}/metadata"


def document(programs: Programs) -> Mapping[str, Any]:
    """The document leaves out what else the organizations have, so that stays as it is."""
    home = programs.assistant.home
    assistant = {
        "name": "Demo Assistant",
        "service_type": "web",
        "sign_in_policy": "members",
        "redirect_uris": [f"{home}/callback"],
        "post_logout_redirect_uris": [f"{home}/"],
    }
    tools = {"name": "Demo Tools", "admits": "all", "scopes": [{"name": SCOPE, "description": "Read your notes"}]}
    wiki = {"name": "Demo Wiki", "service_type": "web", "sign_in_policy": "members"}
    return {
        "postern": 1,
        "organizations": {
            SLUG: {"services": {ASSISTANT: assistant}, "resource_servers": {programs.tools.resource: tools}},
            PARTNER_SLUG: {"services": {WIKI: wiki}},
        },
    }


def _without_secrets(_steps: Sequence[str], value: Any) -> Secret | None:
    raise LookupError(value)
