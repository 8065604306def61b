"""What the database knows after a fault, against what clients were told."""

import email
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from core.domain.secrets import Token
from ops.bench.load import fetch
from ops.bench.receivers import Receivers
from ops.drill.clients import Clients
from ops.drill.cluster import Cluster

# Work whose lease a dead connection took along is taken up again after a minute at the latest.
PATIENCE: Final = 100.0


@dataclass(frozen=True, slots=True)
class Truth:
    lost: Mapping[str, int]
    """Of each kind, how many things were answered as done and are not there."""
    twice: Mapping[str, int]
    """Things that happened twice and must not."""
    refused_yet_done: Mapping[str, int]
    """Things that an answer called refused, and that are there."""
    unknown: int
    """Things that may have happened, as their clients were told."""
    ended: int
    """Sessions that an application lost, although it did nothing wrong."""
    repeated: Mapping[str, int] = field(default_factory=dict)
    """Mails and deliveries that came more than once, each under its one id, as they may."""


async def looked_up(cluster: Cluster, clients: Clients, sink: Receivers, mails: Path) -> tuple[Truth, float]:
    """Waits until the work that the database holds is done, then compares. Returns the seconds of that wait, too."""
    began = trio.current_time()
    with trio.move_on_after(PATIENCE):
        while await trio.to_thread.run_sync(_waiting, cluster):  # noqa: ASYNC110 - another process works
            await trio.sleep(0.2)
    waited = trio.current_time() - began
    signed_out = await _let_in_again(clients)
    return await trio.to_thread.run_sync(_compare, cluster, clients, sink, mails, signed_out), waited


def _waiting(cluster: Cluster) -> bool:
    ((waiting,),) = cluster.ask(_WAITING)
    return bool(waiting)


async def _let_in_again(clients: Clients) -> int:
    """How many of the sessions whose sign-out was answered are let in all the same. Asked of Postern, as a thief would."""
    let_in = 0
    for headers in clients.signed_out:
        answer = await fetch(clients.server.target("/api/user", headers))
        let_in += answer is not None and answer.status == 200
    return let_in


def _compare(cluster: Cluster, clients: Clients, sink: Receivers, mails: Path, signed_out: int) -> Truth:
    done, ledger = clients.ledger.done, clients.ledger
    sessions = _known(cluster, "select id::text from sessions where id::text = any(%s)", done["sign-in"])
    provisioned = Counter(_column(cluster, "select external_id from provisioned_users where external_id is not null"))
    events = _known(cluster, "select id from billing_events where applied_at is not null and id = any(%s)", done["billing event"])
    tokens = dict(cluster.ask("select encode(digest, 'hex'), rotated_at is not null from refresh_tokens"))
    told = Counter(_column(cluster, _TOLD, [list(clients.signed_in)]))
    arrived = {delivery.decode() for delivery in sink.arrived}
    delivered = Counter(user for user, delivery in cluster.ask(_DELIVERIES, [list(clients.signed_in)]) if delivery in arrived)
    sent = Counter(_addresses(mails))
    mailed_again = sum(sent[address] - 1 for address in done["mail"] if sent[address])
    lost = {
        "sign-in": len(done["sign-in"] - sessions),
        "sign-out": signed_out,
        "refresh": sum(_is_lost(chain.used, chain.token, tokens) for chain in clients.chains if not chain.ended),
        "SCIM": sum(name not in provisioned for name in done["SCIM"]),
        "billing event": len(done["billing event"] - events),
        "webhook": sum(delivered[user] == 0 for user in clients.signed_in),
        "mail": sum(sent[address] == 0 for address in done["mail"]),
    }
    twice = {
        "sign-in": sum(number - 1 for number in told.values()),
        "refresh": len(cluster.ask(_TWO_SUCCESSORS)),
        "SCIM": sum(number - 1 for number in provisioned.values()),
        "billing event": len(cluster.ask(_TWO_SUBSCRIPTIONS)),
        "webhook": sum(max(0, delivered[user] - told[user]) for user in clients.signed_in),
    }
    refused = [user for user, said in clients.refused_people.items() if said.name == "REFUSED"]
    yet_done = {
        **ledger.refused_yet_done,
        "sign-in": len(cluster.ask("select from sessions where user_id::text = any(%s) and created_at > %s", [refused, clients.began])),
        "SCIM not repeated": sum(name in provisioned for name in ledger.refused["SCIM"]),
        "billing event": len(_known(cluster, "select id from billing_events where id = any(%s)", ledger.refused["billing event"])),
    }
    return Truth(
        lost=lost,
        twice=twice,
        refused_yet_done=yet_done,
        unknown=sum(one.code.endswith("OUTCOME_UNKNOWN") for one in ledger.asked),
        ended=sum(chain.ended for chain in clients.chains),
        repeated={"webhook": sum(times - 1 for times in sink.times.values()), "mail": mailed_again},
    )


def _is_lost(used: Sequence[bytes], current: str, tokens: Mapping[str, bool]) -> bool:
    """Whether a token that was exchanged can be exchanged again, or the one that the client got does not exist."""
    if any(not tokens.get(digest.hex(), False) for digest in used):
        return True
    return bool(used) and Token(current).digest().hex() not in tokens


def _known(cluster: Cluster, statement: str, names: Iterable[str]) -> set[str]:
    return set(_column(cluster, statement, [list(names)]))


def _column(cluster: Cluster, statement: str, values: Any = ()) -> list[str]:
    return [row[0] for row in cluster.ask(statement, values)]


def _addresses(place: Path) -> Iterable[str]:
    for file in place.glob("*.eml"):
        yield str(email.message_from_bytes(file.read_bytes())["To"])


_WAITING: Final = """
    select exists (select from webhook_deliveries where next_at is not null)
        or exists (select from billing_events where applied_at is null)
        or exists (select from jobs where state = 'waiting' and kind in ('mail', 'account.mail'))
"""
_TOLD: Final = "select target_id from events where name = 'user.login.success' and target_id = any(%s)"
_DELIVERIES: Final = """
    select target_id, webhook_deliveries.id::text from webhook_deliveries join events on events.id = event_id
     where name = 'user.login.success' and target_id = any(%s)
"""
_TWO_SUCCESSORS: Final = "select session_id from refresh_tokens where rotated_at is null group by session_id having count(*) > 1"
_TWO_SUBSCRIPTIONS: Final = """
    select user_id, service_id from subscriptions where status = 'active' and managed group by user_id, service_id having count(*) > 1
"""
