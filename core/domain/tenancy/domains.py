"""The domain of an organization, and the proof of its ownership: a text that only the owner of the domain can publish there."""

import re
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import DomainId, OrganizationId
from core.domain.outbound.destinations import NotADestination, OutboundDestination, address_of, destination, host
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.frozen import Frozen

RECHECKED_EVERY: Final = timedelta(days=7)
# A name server that is down for an hour does not end a proof. Only this many failed checks in a row do, a day apart.
MOST_MISSES: Final = 3
RECHECKED_AFTER_MISS: Final = timedelta(days=1)
# While one process checks a domain, no other process does. If the process dies, another one repeats the check after this time.
LEASE: Final = timedelta(hours=1)
# The limit for each place where the proof may be. All of them together stay within the time that a request has.
TIMEOUT: Final = timedelta(seconds=7)
LONGEST_PROOF: Final = 1024
_RECORD: Final = "_postern-verification"
_FILE: Final = "/.well-known/postern-verification.txt"
# Host names have no underscores; only other records do.
_LABELS: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_LONGEST: Final = 253 - len(_RECORD) - 1


class Domain(Frozen, kw_only=True):
    """A domain and its proof. `misses` counts the latest checks in a row without a proof."""

    id: DomainId
    organization: OrganizationId
    name: str
    token: str
    verified_at: datetime | None = None
    checked_at: datetime | None = None
    misses: int = 0
    created_at: datetime

    @property
    def is_verified(self) -> bool:
        return self.verified_at is not None

    @property
    def record(self) -> str:
        """The name of the TXT record."""
        return f"{_RECORD}.{self.name}"

    @property
    def files(self) -> tuple[OutboundDestination, ...]:
        """The addresses where the file may be. Plain HTTP counts too: a domain that is new may have no certificate yet."""
        return tuple(destination(f"{scheme}://{self.name}{_FILE}") for scheme in ("https", "http"))

    @property
    def file_url(self) -> str:
        return f"https://{self.name}{_FILE}"

    def is_proved_by(self, text: str) -> bool:
        return text.strip() == self.token


def domain_name(text: str) -> str:
    """The name in lower case, without a dot at its end. Raises `BadRequest`."""
    try:
        name = host(text.strip().removesuffix("."))
    except NotADestination:
        name = ""
    if not _LABELS.fullmatch(name) or len(name) > _LONGEST or address_of(name) is not None:
        raise BadRequest(
            "domain: must be a domain of yours, such as login.example.com; write other letters in ASCII (xn--…)", words="domain_malformed"
        )
    return name


def domain_set(domain: Domain, actor: Actor) -> Event:
    return _event("domain.set", domain, actor)


def domain_verified(domain: Domain, actor: Actor) -> Event:
    return _event("domain.verified", domain, actor)


def domain_deleted(domain: Domain, actor: Actor) -> Event:
    return _event("domain.deleted", domain, actor)


def domain_lost(domain: Domain) -> Event:
    return _event("domain.lost", domain, SYSTEM)


def _event(name: str, domain: Domain, actor: Actor) -> Event:
    return Event(name, actor, Target("organization", str(domain.organization)), domain.organization, {"domain": domain.name})
