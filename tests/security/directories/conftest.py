"""The organization of `tests/http/ldap`, and its directory."""

from tests.http.conftest import client, database_url, people
from tests.http.ldap.conftest import authority, directory, keeping, postern, scene

__all__ = ["authority", "client", "database_url", "directory", "keeping", "people", "postern", "scene"]
