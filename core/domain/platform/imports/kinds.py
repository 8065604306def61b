"""Names a file by its beginning, for whoever has given the wrong one."""

import re
from collections.abc import Sequence
from typing import Final

BEGINNING: Final = 1 << 16
"""So many bytes are looked at."""
# The first that fits counts.
_BINARY: Final[Sequence[tuple[bytes, str]]] = (
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet: unpack it, or save it as CSV"),
    (b"\x1f\x8b", "compressed with gzip: unpack it"),
    (b"\xff\xfe", "UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16: save it as UTF-8"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PGDMP", "a dump of PostgreSQL"),
)
_TEXTS: Final[Sequence[tuple[str, str]]] = (
    (r'\{\s*"postern_people"', "a file of people in Postern's own form"),
    (r"\s*<(\?xml|!doctype|html)", "a web page or XML"),
    (r"[^\n]*\bcognito:username\b", "a table of Amazon Cognito's users"),
    (r'\s*\{\s*"users"\s*:\s*\[\s*\{\s*"localId"\s*:', "an export of Firebase's users"),
    (r'\s*\{\s*"(orgs|dataOrgs|data_orgs|timeout)"\s*:(?s:.*)"(orgId|humanUsers)"\s*:', "an export of Zitadel"),
    (r'\s*\{(?s:.*)"state"\s*:\s*"USER_STATE_', "a list of Zitadel's users"),
    (r"(?m)^\s*(- )?model: authentik_", "a blueprint of authentik"),
    (r'\s*\{(?s:.*)"(realm|keycloakVersion)"\s*:', "a realm export of Keycloak"),
    (r'\s*\[\s*\{(?s:.*)"realm"\s*:', "an export of several realms of Keycloak"),
    (r'\s*\[\s*\{(?s:.*)"(user_id|custom_password_hash|email_verified)"\s*:', "a list of users for Auth0's bulk import"),
    (r'\s*\{[^\n]*"passwordHash"\s*:[^\n]*\}\s*(\n|$)', "Auth0's file of password hashes"),
    (r'\s*\{[^\n]*"(user_id|email_verified)"\s*:[^\n]*\}\s*(\n|$)', "an export of Auth0's users, one in each line"),
    (r'\s*[\[{](?s:.*)"Username"\s*:(?s:.*)"(UserStatus|UserCreateDate|Attributes)"\s*:', "a list of Amazon Cognito's users"),
    (r'\s*[\[{](?s:.*)"Attributes"\s*:(?s:.*)"Username"\s*:', "a list of Amazon Cognito's users"),
    (r"(?m)^(tenant|clients|databases|connections|rulesConfigs|clientGrants|resourceServers|emailTemplates):", "a0deploy's tenant.yaml"),
    (r"\s*[\[{]", "JSON"),
    (r"(---\s|[\w-]+:( |\n))", "YAML"),
    (r"[^\n,;\t]+[,;\t][^\n]*\n[^\n]*[,;\t]", "a table"),
    (r"\s*(insert|create|--|/\*)\s", "SQL"),
    (r"\s*\S", "text"),
)


def named(beginning: bytes) -> str:
    """A phrase, such as "a realm export of Keycloak"; empty for an empty file."""
    for mark, phrase in _BINARY:
        if beginning.startswith(mark):
            return phrase
    text = beginning[:BEGINNING].decode("utf-8-sig", "replace")
    return next((phrase for pattern, phrase in _TEXTS if re.match(pattern, text, re.IGNORECASE) or _anywhere(pattern, text)), "")


def _anywhere(pattern: str, text: str) -> bool:
    return pattern.startswith("(?m)") and re.search(pattern, text) is not None
