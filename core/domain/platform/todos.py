"""Todos of an organization that wait for somebody's decision, or that will break something if nobody decides."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final

SOON: Final = timedelta(days=30)
"""A certificate or key that ends within this time is a todo."""
MOST_COUNTED: Final = 100
"""Each count stops here."""


class Todo(StrEnum):
    """The kind of a todo."""

    JOIN_REQUESTS = "join_requests"
    """People who want to become members wait for an answer."""
    CERTIFICATES = "certificates"
    """SAML certificates that end soon, or have ended, and have no successor."""
    CONNECTIONS = "connections"
    """Connections whose last certificate, or ours, ends soon or has ended, or with a certificate that waits for an owner."""
    WEBHOOKS = "webhooks"
    """Webhooks that fail, or that we have disabled because they failed for days."""
    DOMAINS = "domains"
    """Domains whose proof is gone."""
    RESOURCE_SERVERS = "resource_servers"
    """APIs that no tokens are made for, because nobody has shown whose host it is."""
    SECOND_FACTORS = "second_factors"
    """Members without a second factor although the organization requires one."""
    MAIL_SERVER = "mail_server"
    """The organization's mail server fails."""
    SIEM = "siem"
    """The delivery to the organization's SIEM fails."""
    SETUP_LINKS = "setup_links"
    """Things that were set up with a link, are tested, and wait for an owner."""
    TEXTS = "texts"
    """Own texts beneath which a release has changed ours."""
    KEYS = "keys"
    """Management keys, SCIM tokens and API keys that end soon."""


class PlatformTodo(StrEnum):
    """The kind of a todo of the installation, for its owners."""

    ORGANIZATIONS = "organizations"
    """Organizations that wait for an approval."""
    APPROVALS = "approvals"
    """APIs whose organizations ask for an approval of the host."""
    TEXTS = "texts"
    """Organizations whose own texts wait for an approval, where the installation wants one."""
    JOBS = "jobs"
    """Background work that was given up."""


AnyTodo = Todo | PlatformTodo
Todos = Mapping[Todo, int]
"""The number of things of each todo, up to `MOST_COUNTED`. Todos of which there is nothing are left out."""
