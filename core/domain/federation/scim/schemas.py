"""The names of the standard schemas of people (RFC 7643 section 4)."""

from typing import Final

USER_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
ENTERPRISE_SCHEMA: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
