"""A file of the wrong kind is named."""

import pytest

from core.domain.platform.imports.tables import BEGINNING, named_kind
from tests.adapters.imports.importing import SAMPLES

A0DEPLOY = b"""rules: []
databases:
  - name: Username-Password-Authentication
clients:
  - name: Shop
"""


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (A0DEPLOY, "a0deploy's tenant.yaml"),
        (b"tenant:\n  friendly_name: Acme\n", "a0deploy's tenant.yaml"),
        (b"---\nservices:\n  shop: {}\n", "YAML"),
        (b"version: 3\n", "YAML"),
        (b"PK\x03\x04\x14\x00", "a ZIP archive or a spreadsheet: unpack it, or save it as CSV"),
        (b"\x1f\x8b\x08", "compressed with gzip: unpack it"),
        ('[{"id": 1}]'.encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"PGDMP\x01", "a dump of PostgreSQL"),
        (b"<!DOCTYPE html><html>", "a web page or XML"),
        (b'<?xml version="1.0"?>', "a web page or XML"),
        (b'{"id": "x", "realm": "acme", "users": [', "a realm export of Keycloak"),
        (b'[{"id": "x", "realm": "acme"', "an export of several realms of Keycloak"),
        (b'[{"email": "a@example.org", "email_verified": true}]', "a list of users for Auth0's bulk import"),
        (b'{"user_id": "auth0|1", "email": "a@example.org"}\n', "an export of Auth0's users, one in each line"),
        (b'{"_id": {}, "email": "a@example.org", "passwordHash": "$2b$"}\n', "Auth0's file of password hashes"),
        (b'{"postern_people": 1, "source": "x"}\n', "a file of people in Postern's own form"),
        (b'\xef\xbb\xbf {"a": 1}', "JSON"),
        (b"email,name\na@example.org,Ada\n", "a table"),
        (b"name;e-mail\nAda;a@example.org\n", "a table"),
        (b'[{"Attributes": [], "Username": "ada"}]', "a list of Amazon Cognito's users"),
        (b'{"timeout": "10m", "dataOrgs": {"orgs": [{"orgId": "1"', "an export of Zitadel"),
        (b"version: 1\nentries:\n  - model: authentik_core.user\n", "a blueprint of authentik"),
        (b"INSERT INTO users VALUES", "SQL"),
        (b"Dear operator", "text"),
        (b"", ""),
        (b" \n", ""),
    ],
)
def test_a_beginning_says_what_a_file_is(beginning: bytes, kind: str) -> None:
    assert named_kind(beginning) == kind


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        ("acme-realm.json", "a realm export of Keycloak"),
        ("auth0-bulk-import.json", "a list of users for Auth0's bulk import"),
        ("auth0-users.ndjson", "an export of Auth0's users, one in each line"),
        ("auth0-hashes.ndjson", "Auth0's file of password hashes"),
        ("people.csv", "a table"),
        ("firebase-users.json", "an export of Firebase's users"),
        ("firebase-users.csv", "a table"),
        ("cognito-users.json", "a list of Amazon Cognito's users"),
        ("cognito-users.csv", "a table of Amazon Cognito's users"),
        ("zitadel-export.json", "an export of Zitadel"),
        ("zitadel-users.json", "a list of Zitadel's users"),
        ("authentik.yaml", "a blueprint of authentik"),
    ],
)
def test_our_samples_are_named(sample: str, kind: str) -> None:
    assert named_kind((SAMPLES / sample).read_bytes()[:BEGINNING]) == kind
