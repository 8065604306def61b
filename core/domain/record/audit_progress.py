"""How far a verification of the audit log has come, in a form that another run takes up.

The text carries a code under a key that the chains' key gives, which is not in the database: nobody else can say that something was
verified. It is a key of its own, so no link of a chain can serve as such a code.
"""

import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.record.audit_chains import ChainHead
from core.frozen import Frozen

# What was altered since, before the place that was reached, a later run does not see. So no run is taken up after a week.
COUNTS_FOR: Final = timedelta(days=7)
_PURPOSE: Final = b"progress of a verification"


class Reached(Frozen):
    """All chains before this one were checked, and of this one all links up to its `head`."""

    began: datetime
    only: OrganizationId | None
    chain: OrganizationId
    head: ChainHead
    links: int
    forgotten: int
    chains: int = 0
    """How many chains came before."""
    links_before: int = 0
    """How many links those have."""
    faults: Mapping[str, int] = {}
    """How many were found so far, by the name of the chain."""
    noted: ChainHead | None = None
    """The end of the one chain at an earlier time, which the run compares."""


def sealed(key: bytes, reached: Reached) -> str:
    text = json.dumps(
        {
            "began": reached.began.isoformat(),
            "only": None if reached.only is None else str(reached.only),
            "chain": str(reached.chain),
            "head": str(reached.head),
            "links": reached.links,
            "forgotten": reached.forgotten,
            "chains": reached.chains,
            "links_before": reached.links_before,
            "faults": dict(reached.faults),
            "noted": None if reached.noted is None else str(reached.noted),
        }
    )
    return f"{text}\n{_code(key, text)}\n"


def opened(key: bytes, text: str, only: OrganizationId | None, noted: ChainHead | None, now: datetime) -> Reached:
    """Raises `BadRequest`, which says why this run cannot go on there."""
    said, _, code = text.rstrip("\n").partition("\n")
    if not hmac.compare_digest(_code(key, said).encode(), code.encode()):
        raise BadRequest("It is not the progress of a verification with these keys")
    kept = json.loads(said)
    reached = Reached(
        began=datetime.fromisoformat(kept["began"]),
        only=_chain(kept["only"]),
        chain=OrganizationId(UUID(kept["chain"])),
        head=ChainHead.parse(kept["head"]),
        links=kept["links"],
        forgotten=kept["forgotten"],
        chains=kept["chains"],
        links_before=kept["links_before"],
        faults=kept["faults"],
        noted=None if kept["noted"] is None else ChainHead.parse(kept["noted"]),
    )
    if reached.only != only:
        raise BadRequest("It is the progress of a verification of other chains")
    if reached.noted != noted:
        raise BadRequest("It is the progress of a verification that compares another head")
    if not now - COUNTS_FOR <= reached.began <= now:
        raise BadRequest("The verification was begun more than a week ago")
    return reached


def _code(key: bytes, text: str) -> str:
    return hmac.digest(hmac.digest(key, _PURPOSE, sha256), text.encode(), sha256).hex()


def _chain(text: str | None) -> OrganizationId | None:
    return None if text is None else OrganizationId(UUID(text))
