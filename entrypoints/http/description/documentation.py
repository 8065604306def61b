"""The documentation of the API for people, rendered from the OpenAPI document: a page of contents, and a page for each tag, with the types
that the tag's endpoints use. The pages work without scripts and load nothing from other sites.

The templates read the OpenAPI document itself. `_WORDS` has the functions by which the templates put parts of the document into words.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from core.domain.languages import DEFAULT
from core.frozen import Frozen
from entrypoints.http.description.examples import example_of
from entrypoints.http.description.guides.guides import by_folder, guide_name, guides
from entrypoints.http.description.paging import WAYS
from entrypoints.http.description.samples import has_samples, in_python, in_typescript
from entrypoints.http.description.wording import caller_in_words, constraints_of, curl, kind_of, limit_in_words, pretty
from entrypoints.http.pages import Pages

Json = dict[str, Any]

# The titles of tags whose name, with a capital letter and without hyphens, is no good title.
_TITLES: Final = {
    "api-keys": "API keys",
    "audit": "Audit log",
    "end-users": "End users",
    "mfa": "Second factor",
    "management-keys": "Management keys",
    "oauth": "OAuth and OpenID Connect",
    "provider-certificates": "Certificates of providers",
    "resource-servers": "APIs of your own",
    "saml": "SAML",
    "scim": "SCIM",
    "service-interface": "For a service's servers",
    "setup-links": "Set-up links",
    "siem": "SIEM",
    "sign-in-domains": "Sign-in domains",
    "user-keys": "Keys of users",
}
# What people call it who do not know our word for it. The search finds a topic by these, too.
_ALSO_CALLED: Final[Mapping[str, str]] = {
    "account": "profile me password language",
    "analytics": "statistics charts usage",
    "api-keys": "credentials tokens service",
    "audit": "history changes who did log",
    "billing": "payment checkout invoice stripe buy",
    "directory-runs": "synchronize sync ldap active directory people groups deprovision offboard",
    "claims": "token contents attributes mapping",
    "configuration": "terraform infrastructure as code gitops yaml export",
    "provider-certificates": "saml signing rollover expiry",
    "connections": "sso single sign-on enterprise identity provider okta entra google",
    "devices": "sessions browsers where signed in",
    "end-users": "customers people users block delete",
    "fields": "profile attributes custom data",
    "installation": "jobs workers server settings health",
    "installation-texts": "wording translation approve mails pages",
    "invitations": "invite add people colleague mail",
    "keys": "jwks public keys verify tokens",
    "management-keys": "machine automation api credentials personal access token",
    "members": "people users colleagues add remove owner transfer",
    "mfa": "two factor 2fa totp authenticator backup codes",
    "oauth": "oidc login authorize token refresh introspect logout device",
    "operations": "health metrics status version",
    "organizations": "tenants workspaces companies customers create",
    "passkeys": "webauthn fido passwordless",
    "plans": "prices subscription tiers",
    "platform": "superuser administrator impersonate approve suspend",
    "privacy": "gdpr export delete forget erase personal data",
    "registration": "sign up signup create account verify mail reset forgot password",
    "resource-servers": "audience api scopes mcp",
    "risk": "suspicious sign-in conditional access block country anomaly",
    "rights": "permissions roles authorization rbac assign",
    "roles": "permissions authorization rbac",
    "saml": "single sign-on service provider metadata",
    "scim": "provisioning directory sync okta entra",
    "service-interface": "backend server check permission",
    "services": "applications apps clients client secret redirect uri rotate",
    "settings": "branding logo colour texts wording footer translation smtp mail server custom domain",
    "proposals": "assistant mcp agent approval change request",
    "setup-links": "onboarding admin portal customer",
    "siem": "splunk log forwarding stream",
    "sign-in": "login log in sign out logout session refresh",
    "sign-in-domains": "home realm discovery mail domain join",
    "teams": "groups",
    "trusted-issuers": "workload identity federation github actions kubernetes",
    "user-keys": "developer tokens customers api",
    "webhooks": "events callbacks notifications deliveries replay",
}
# The guide of `docs/guides` that begins with the topic.
_GUIDES: Final[Mapping[str, str]] = {
    "api-keys": "service-interface",
    "audit": "verify-audit-offline",
    "billing": "sell-a-plan",
    "claims": "claims-and-scopes",
    "configuration": "configuration",
    "connections": "directories/connect-okta",
    "provider-certificates": "directories/connect-okta",
    "installation-texts": "looks/own-texts",
    "invitations": "first-organization",
    "keys": "programs/check-access-tokens",
    "management-keys": "management-keys",
    "members": "first-organization",
    "oauth": "protect-your-app",
    "organizations": "first-organization",
    "passkeys": "passkeys",
    "plans": "sell-a-plan",
    "registration": "first-sign-in",
    "resource-servers": "apis/your-own-apis",
    "rights": "claims-and-scopes",
    "saml": "saml-grafana",
    "scim": "scim-okta",
    "service-interface": "service-interface",
    "services": "protect-your-app",
    "setup-links": "set-up-links",
    "sign-in": "first-sign-in",
    "sign-in-domains": "sign-in-domains",
    "trusted-issuers": "workloads/github-actions",
    "user-keys": "programs/keys-of-your-users",
}
_TO_A_TYPE: Final = "#/components/schemas/"


class Documentation(Frozen):
    contents: bytes
    chapters: Mapping[str, bytes]
    guides: Mapping[str, bytes]


def rendered(pages: Pages, document: Json) -> Documentation:
    base_url = document["servers"][0]["url"]
    schemas = document["components"]["schemas"]
    all_guides = guides()
    chapters = _chapters(document, base_url)
    everywhere = {"version": document["info"]["version"], "chapters": chapters, "guides": all_guides, **_WORDS}
    contents = pages.page(
        "documentation/contents.html",
        DEFAULT,
        base_url=base_url,
        sign_in_example=_sign_in_example(base_url),
        user_example=curl("get", f"{base_url}/api/user", {"security": [{"bearer": []}]}),
        error_example=pretty(example_of(schemas["ErrorBody"], schemas)),
        addresses={
            one["operationId"]: f"/docs/{chapter['name']}#{one['operationId']}" for chapter in chapters for one in chapter["operations"]
        },
        count=sum(len(chapter["operations"]) for chapter in chapters),
        folders=by_folder(all_guides),
        **everywhere,
    )
    return Documentation(
        contents,
        {
            chapter["name"]: pages.page(
                "documentation/chapter.html",
                DEFAULT,
                chapter=chapter,
                types=_types(chapter["operations"], schemas),
                schemas=schemas,
                **everywhere,
            )
            for chapter in chapters
        },
        {
            guide.name: pages.page("documentation/guide.html", DEFAULT, guide=guide, folder=words, beside=beside, **everywhere)
            for _, words, beside in by_folder(all_guides)
            for guide in beside
        },
    )


def _sign_in_example(base_url: str) -> str:
    """A command that signs in, with the required fields only. The reader fills in the e-mail address and the password."""
    credentials = {"email": "you@example.org", "password": "your password"}
    body = {"content": {"application/json": {"example": credentials}}}
    return curl("post", f"{base_url}/api/auth/login", {"security": [], "requestBody": body})


def _chapters(document: Json, base_url: str) -> Sequence[Json]:
    """The tags, each with its endpoints; an endpoint also has its method, its path, and a command that calls it."""
    operations = [
        {
            **operation,
            "method": method.upper(),
            "path": path,
            "call": curl(method, base_url + _filled_in(path, operation), operation),
            "samples": (("Python", in_python(operation)), ("TypeScript", in_typescript(operation))) if has_samples(operation) else (),
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return [
        {
            **tag,
            "title": _TITLES.get(tag["name"]) or tag["name"].replace("-", " ").capitalize(),
            "also_called": _ALSO_CALLED.get(tag["name"], ""),
            "guide": guide_name(_GUIDES.get(tag["name"], "")),
            "operations": [one for one in operations if one["tags"][0] == tag["name"]],
        }
        for tag in document["tags"]
    ]


def _filled_in(path: str, operation: Json) -> str:
    query: dict[str, str] = {}
    for one in operation.get("parameters", ()):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(one["example"]))
        elif one["in"] == "query" and one["required"]:
            query[one["name"]] = one["example"]
    return f"{path}?{urlencode(query)}" if query else path


def _types(operations: Sequence[Json], schemas: Mapping[str, Json]) -> Mapping[str, Json]:
    """The types that the endpoints use, and the types inside these types, by name. The pages show errors by their codes, without a type."""
    named = list(_named([(one.get("parameters"), one.get("requestBody")) for one in operations]))
    for operation in operations:
        for status, answer in operation["responses"].items():
            if status != "default" and "examples" not in _media(answer)[1]:
                named += _named(answer)
    found = dict[str, Json]()
    while named:
        name = named.pop()
        if name not in found:
            found[name] = schemas[name]
            named += _named(schemas[name])
    return dict(sorted(found.items()))


def _named(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith(_TO_A_TYPE):
            yield reference.removeprefix(_TO_A_TYPE)
        part = list(part.values())
    if isinstance(part, list | tuple):
        for one in part:
            yield from _named(one)


def _media(holder: Json) -> tuple[str, Json]:
    """The media type of the body of a request or an answer, and the OpenAPI object for this media type."""
    content: Json = holder.get("content", {})
    return next(iter(content.items()), ("", {}))


_WORDS: Final = {
    "caller_in_words": caller_in_words,
    "limit_in_words": limit_in_words,
    "kind_of": kind_of,
    "constraints_of": constraints_of,
    "pretty": pretty,
    "media_of": _media,
    "ways_of_paging": WAYS,
}
