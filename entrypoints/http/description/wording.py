"""Put the facts of the OpenAPI document into words for the page: callers, limits, types and example calls."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from core.frozen import Frozen

Json = dict[str, Any]

_IN_PERSON: Final = "_in_person"
_OF_INACTIVE: Final = "_of_inactive"
_CALLERS: Final = {
    "anyone": "Everybody, without a token",
    "user": "Signed-in users",
    "own_user": "Signed-in users, but not with the token of a service",
    "person": "Signed-in users, but not with the token of a service",
    "own_person": "Signed-in users, but not with the token of a service",
    "leaving": "Holders of an access token, even one that has expired",
    "client": "Services, by their client id and their secret or key, or as public clients by their id alone",
    "openid": "Applications with a session that a person opened for the application",
    "buyer": "Members of the organization, and users with a session in the service",
    "scim": "Directories, with a SCIM token of the organization",
    "in_flow": "Everybody, with a browser",
    "browser_or_nobody": "Everybody, with a browser",
    "preauthenticated": "Holders of a pre-auth token",
    "platform_owner": "Platform owners",
    "member": "Members of the organization",
    "owner": "The owner of the organization",
}
_FORMATS: Final = {"date-time": "moment", "uuid": "UUID"}
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
        words = f"Members of the organization whose role permits `{rule}`"
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
