"""The documentation of the API for people, with the facts in words and samples of our clients.

How our clients for Python and TypeScript call an endpoint, with the values of its example. The names are those that `ops/clients` gives
(`tests/e2e/clients/test_samples.py` compares).

The pages are rendered from the OpenAPI document: one of contents, and one for each tag, with the types that the tag's endpoints use. They
work without scripts and load nothing from other sites.

The templates read the OpenAPI document itself. `_WORDS` has the functions by which the templates put parts of the document into words.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from core.domain.federation.explained_errors import EXPLAINED, LONGEST_ERROR, ExplainedError
from core.domain.languages import DEFAULT
from core.frozen import Frozen
from entrypoints.http.description.guides import by_folder, guide_name, guides
from entrypoints.http.description.openapi import WAYS, example_of
from entrypoints.http.pages.kit import Pages
from ports.texts import Text

Json = dict[str, Any]

_IN_PERSON: Final = "_in_person"
_OF_INACTIVE: Final = "_of_inactive"
_CALLERS: Final = {
    "anyone": "Anyone, without a token",
    "user": "Signed-in users",
    "own_user": "Signed-in users, but not with a token of a service",
    "person": "Signed-in users, but not with a token of a service",
    "own_person": "Signed-in users, but not with a token of a service",
    "leaving": "Holders of an access token, even an expired one",
    "client": "Services, with their client ID and their secret or key; public clients with only their client ID",
    "openid": "Applications with a session that a person opened for the application",
    "buyer": "Members of the organization, and users with a session in the service",
    "signal_receiver": "Applications for which an owner has enabled signals, with their own token",
    "scim": "Directories, with a SCIM token of the organization",
    "in_flow": "Anyone, with a browser",
    "browser_or_nobody": "Anyone, with a browser",
    "preauthenticated": "Holders of a pre-auth token",
    "platform_owner": "Platform owners",
    "member": "Members of the organization",
    "owner": "The owner of the organization",
}
_FORMATS: Final = {"date-time": "timestamp", "uuid": "UUID"}
_BOUNDS: Final = (("minLength", "maxLength", " characters"), ("minimum", "maximum", ""), ("minItems", "maxItems", " items"))


_SHORT_LIST: Final = re.compile(r"\[[^\[\]{}]{1,80}\]")
_FOR_THE_SHELL: Final = re.compile(r"[^\w:/.@%+,=-]")


class Kind(Frozen):
    """A schema in words. If the words name a type, `anchor` is the anchor of that type on the page."""

    text: str
    anchor: str = ""


def caller_in_words(operation: Json) -> str:
    name: str = operation["x-caller"]
    rule = name.removesuffix(_OF_INACTIVE).removesuffix(_IN_PERSON)
    if rule in _CALLERS:
        words = _CALLERS[rule]
    elif any("api_key" in scheme for scheme in operation["security"]):
        words = f"API keys with the permission `{rule}`"
    else:
        words = f"Members of the organization with the permission `{rule}`"
    if name.endswith(_OF_INACTIVE):
        words += ", even if the organization is suspended or pending"
    in_person = _IN_PERSON in name or rule.startswith("own_")
    return f"{words}. Not while impersonating." if in_person else f"{words}."


def limit_in_words(limit: Json) -> str:
    pace = limit["seconds_per_request"]
    rate = f"one every {pace:g} s" if pace > 1 else "one a second" if pace == 1 else f"{1 / pace:.0f} a second"
    return f"{limit['burst']} requests at once, then {rate}"


def kind_of(schema: Json) -> Kind:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Kind(name, f"type-{name}")
    if "enum" in schema:
        return Kind(" | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"]))
    if "const" in schema:
        return Kind(f'"{schema["const"]}"')
    if "anyOf" in schema:
        kinds = [kind_of(one) for one in schema["anyOf"]]
        return Kind(" or ".join(kind.text for kind in kinds), next((kind.anchor for kind in kinds if kind.anchor), ""))
    if schema.get("type") == "array":
        inner = kind_of(schema.get("items", {}))
        return Kind(f"list of {inner.text}", inner.anchor)
    kind: str = schema.get("format") or schema.get("type", "anything")
    return Kind(_FORMATS.get(kind) or kind)


def constraints_of(schema: Json, text: str) -> str:
    """The bounds and the default of a field in sentences. The bounds are those of the type other than null. The sentences leave out bounds
    that `text`, the field's description, already states.
    """
    bounded = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    words = [_bounds_in_words(bounded.get(least), bounded.get(most), unit) for least, most, unit in _BOUNDS]
    default = schema.get("default")
    words = [one for one in words if one and one.lower() not in text.lower()]
    if default is not None and default not in ("", [], ()):
        words.append(f"default {json.dumps(default)}")
    return "".join(f" {one[0].upper()}{one[1:]}." for one in words).strip()


def _bounds_in_words(least: Any, most: Any, unit: str) -> str:
    if least and most is not None:
        return f"{least} to {most}{unit}" if least != most else f"{most}{unit}"
    if most is not None:
        return f"at most {most}{unit}"
    return f"at least {least}{unit}" if least else ""


def pretty(value: Any) -> str:
    """Indented JSON for people. A short list stays on one line."""
    indented = json.dumps(value, indent=2, ensure_ascii=False)
    return _SHORT_LIST.sub(lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), indented)


def curl(method: str, url: str, operation: Json) -> str:
    """A command to paste into a shell. The reader sets `$TOKEN`, `$API_KEY`, or the names that all our lines have for a client."""
    method = method.upper()
    content: Mapping[str, Json] = operation.get("requestBody", {}).get("content", {})
    media_type, body = next(iter(content.items()), ("", None))
    command = "curl" if method == ("GET" if body is None else "POST") else f"curl -X {method}"
    parts = [f"{command} {_quoted(url) if _FOR_THE_SHELL.search(url) else url}"]
    # The example uses the first of the ways to authenticate.
    schemes = set(next(iter(operation["security"]), ()))
    if "api_key" in schemes:
        parts.append('-H "X-Api-Key: $API_KEY"')
    elif "client" in schemes:
        parts.append('-u "$OIDC_CLIENT_ID:$OIDC_CLIENT_SECRET"')
    elif schemes:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if body is not None:
        parts.append(_with_body(media_type, body))
    return " \\\n  ".join(parts)


def _with_body(media_type: str, body: Json) -> str:
    if "example" not in body:
        return f"-H 'Content-Type: {media_type}' --data-binary @body"
    if media_type == "application/x-www-form-urlencoded":
        return f"-d {_quoted(urlencode(body['example'], doseq=True))}"
    own_type = "" if media_type == "application/json" else f"-H 'Content-Type: {media_type}' "
    return f"{own_type}--json {_quoted(pretty(body['example']))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_KEY: Final = re.compile(r'^(\s*)"([A-Za-z_]\w*)":', re.MULTILINE)
_WORD: Final = re.compile(r"\b(true|false|null)\b(?=[,\s\]}]|$)(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)")
_IN_PYTHON: Final = {"true": "True", "false": "False", "null": "None"}
_WIDEST: Final = 76


def has_samples(operation: Json) -> bool:
    """Whether the clients have the endpoint: pages are for browsers, and SCIM has clients of its own."""
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    is_page = any("html" in kind for answer in answers for kind in answer.get("content", {}))
    return bool(answers) and not is_page and operation["security"] != [{"scim": []}]


def in_python(operation: Json) -> str:
    media_type, body = _body(operation)
    arguments = [json.dumps(str(value)) for value in _given(operation, "path").values()]
    named = {**_given(operation, "query"), **(body if isinstance(body, Mapping) else {})}
    arguments += [f"{name}={_python(value)}" for name, value in named.items() if _IDENTIFIER.fullmatch(name)]
    if media_type and not isinstance(body, Mapping):
        arguments.append("content=content")
        arguments += [f"content_type={json.dumps(media_type)}"] if _has_several_kinds(operation) else []
    return _call(f"postern.{operation['operationId']}", arguments)


def in_typescript(operation: Json) -> str:
    media_type, body = _body(operation)
    arguments = [json.dumps(str(value)) for value in _given(operation, "path").values()]
    if isinstance(body, Mapping):
        arguments.append(_typescript(body))
    elif media_type:
        arguments.append("content")
        arguments += [json.dumps(media_type)] if _has_several_kinds(operation) else []
    in_body = body if isinstance(body, Mapping) else {}
    query = {name: value for name, value in _given(operation, "query").items() if name not in in_body}
    arguments += [_typescript(query)] if query else []
    first, *rest = operation["operationId"].split("_")
    return "await " + _call(f"postern.{first}{''.join(word[:1].upper() + word[1:] for word in rest)}", arguments)


def _given(operation: Json, place: str) -> Json:
    """The parameters that a call must have, with their examples."""
    return {one["name"]: one["example"] for one in operation.get("parameters", ()) if one["in"] == place and one["required"]}


def _body(operation: Json) -> tuple[str, Any]:
    content: Mapping[str, Json] = operation.get("requestBody", {}).get("content", {})
    media_type, body = next(iter(content.items()), ("", {}))
    is_object = "$ref" in body.get("schema", {})
    return media_type, body.get("example") if is_object else None


def _has_several_kinds(operation: Json) -> bool:
    return len(operation["requestBody"]["content"]) > 1


def _python(value: Any) -> str:
    return _WORD.sub(lambda found: _IN_PYTHON[found[1]], pretty(value))


def _typescript(value: Any) -> str:
    text = pretty(value)
    flat = " ".join(text.split()) if '"' in text and len(text) < _WIDEST else text
    return _KEY.sub(r"\1\2:", text) if flat is text else re.sub(r'"([A-Za-z_]\w*)":', r"\1:", flat)


def _call(method: str, arguments: list[str]) -> str:
    line = f"{method}({', '.join(arguments)})"
    if len(line) <= _WIDEST or ("\n" in line and len(arguments) < 3):
        return line
    inside = ",\n".join(arguments).replace("\n", "\n  ")
    return f"{method}(\n  {inside},\n)"


# The titles of tags whose name, with a capital letter and without hyphens, is no good title.
_TITLES: Final = {
    "api-keys": "API keys",
    "audit": "Audit log",
    "end-users": "End users",
    "mfa": "MFA",
    "management-keys": "Management API keys",
    "oauth": "OAuth and OpenID Connect",
    "provider-certificates": "Identity provider certificates",
    "resource-servers": "APIs",
    "saml": "SAML",
    "scim": "SCIM",
    "service-interface": "For application servers",
    "setup-links": "Setup links",
    "siem": "SIEM",
    "sign-in-domains": "Sign-in domains",
    "user-keys": "User API keys",
}
CHAPTERS: Final = (
    "account",
    "analytics",
    "api-keys",
    "audit",
    "billing",
    "directory-runs",
    "claims",
    "configuration",
    "provider-certificates",
    "connections",
    "devices",
    "end-users",
    "fields",
    "installation",
    "installation-texts",
    "invitations",
    "keys",
    "management-keys",
    "members",
    "mfa",
    "oauth",
    "operations",
    "organizations",
    "passkeys",
    "plans",
    "platform",
    "privacy",
    "registration",
    "resource-servers",
    "risk",
    "rights",
    "roles",
    "saml",
    "scim",
    "service-interface",
    "services",
    "settings",
    "proposals",
    "setup-links",
    "provisioning",
    "signals",
    "siem",
    "hooks",
    "sign-in",
    "sign-in-domains",
    "teams",
    "trusted-issuers",
    "user-keys",
    "webhooks",
)
"""By their names in addresses. What people call each stands in the texts of the console's search, in its languages."""
EXPLAINED_IN: Final[Mapping[str, str]] = {
    **{one.name: "connections" for one in EXPLAINED if one.name.startswith("AADSTS")},
    **{one.name: "scim" for one in EXPLAINED if one.name.startswith("SCIM")},
    "redirect_uri": "services",
    "pkce": "oauth",
    "state": "oauth",
    "nonce": "oauth",
    "issuer": "oauth",
    "audience": "resource-servers",
    "clock": "operations",
    "signature": "keys",
    "invalid_client": "services",
    "unauthorized_client": "oauth",
    "invalid_scope": "oauth",
    "access_denied": "end-users",
    "login_required": "oauth",
    "invalid_grant": "oauth",
}
"""The chapter about what an error is about. Who reads `/docs/errors` may be of any organization, so no page of a console is led to."""
# The guide of `docs/guides` that begins with the topic.
_GUIDES: Final[Mapping[str, str]] = {
    "api-keys": "service-interface",
    "audit": "verify-audit-offline",
    "billing": "sell-a-plan",
    "claims": "claims-and-scopes",
    "configuration": "configuration",
    "connections": "directories/connect-okta",
    "provider-certificates": "directories/connect-okta",
    "hooks": "apis/hooks",
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
    frame: Mapping[str, Any]
    """What every page shows around its content."""
    contents: bytes
    chapters: Mapping[str, bytes]
    all_guides: bytes
    """The page that lists them."""
    guides: Mapping[str, bytes]


def rendered(pages: Pages, document: Json) -> Documentation:
    base_url = document["servers"][0]["url"]
    schemas = document["components"]["schemas"]
    all_guides = guides()
    chapters = _chapters(document, base_url, pages.text(DEFAULT))
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
        everywhere,
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
        pages.page("documentation/guides.html", DEFAULT, folders=by_folder(all_guides), **everywhere),
        {
            guide.name: pages.page("documentation/guide.html", DEFAULT, guide=guide, folder=words, beside=beside, **everywhere)
            for _, words, beside in by_folder(all_guides)
            for guide in beside
        },
    )


def explaining(pages: Pages, frame: Mapping[str, Any], found: Sequence[ExplainedError] | None = None, problem: str = "") -> bytes:
    """The page that explains an error. `found` is None before anybody has pasted one."""
    chapters = {one: (f"/docs/{name}", _title(name)) for one, name in EXPLAINED_IN.items()}
    return pages.page(
        *("documentation/errors.html", DEFAULT),
        # What applications meet stands first, and what directories do after it.
        errors=sorted(EXPLAINED, key=lambda one: bool(one.source)),
        longest=LONGEST_ERROR,
        found=found,
        problem=problem,
        explained_in=chapters,
        **frame,
    )


def _sign_in_example(base_url: str) -> str:
    """A command that signs in, with the required fields only. The reader fills in the e-mail address and the password."""
    credentials = {"email": "you@example.org", "password": "your password"}
    body = {"content": {"application/json": {"example": credentials}}}
    return curl("post", f"{base_url}/api/auth/login", {"security": [], "requestBody": body})


def _chapters(document: Json, base_url: str, text: Text) -> Sequence[Json]:
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
            "title": _title(tag["name"]),
            "also_called": text(chapter_words(tag["name"])),
            "guide": guide_name(_GUIDES.get(tag["name"], "")),
            "operations": [one for one in operations if one["tags"][0] == tag["name"]],
        }
        for tag in document["tags"]
    ]


def _title(tag: str) -> str:
    return _TITLES.get(tag) or tag.replace("-", " ").capitalize()


def chapter_words(name: str) -> str:
    """The text key of what people call the chapter."""
    return f"console.chapter_words.{name.replace('-', '_')}"


def chapters_in_words() -> Sequence[tuple[str, str]]:
    """The name and the title of each chapter."""
    return [(name, _title(name)) for name in CHAPTERS]


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
