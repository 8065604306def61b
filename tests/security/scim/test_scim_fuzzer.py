"""A directory cannot change another tenant's people, the owners and admins of its own organization, rights on the platform, passwords or
second factors, whatever it sends, and learns nothing about other tenants.

A fuzzer draws the requests. After each batch of one to four at once, all rows of the database are compared with those before.
`FUZZ_MINUTES=60` goes on for as long; `FUZZ_SEED=…` repeats one round, but for the order of what ran at once.
"""

import json
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import unquote

import trio

from adapters.postgres.identity.privacy.forgetting import NOBODY
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog, Emptying
from tests.http.client import Client, Received
from tests.http.conftest import postern_on, with_keys
from tests.http.federation.scim.directories import BASE
from tests.http.forgetting import finish_forgetting
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.security.scim.answers import check_shape, part_of, user_of
from tests.security.scim.fuzzer import FuzzedRequest, Fuzzer
from tests.security.scim.territory import Accounts, TableReader, Territory, changes, faults_within, ways_left_behind
from tests.security.scim.town import SLUGS, DirectoryOrganization, DirectoryOrganizations, mark
from tests.security.scim.words import View

FIXED_SEEDS: Final = (1, 2, 3, 4)
BATCHES: Final = 90
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DOTS: Final = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))
_CHANGES: Final = frozenset({"create a user", "replace a user", "change a user", "change a group", "replace a group"})


@dataclass
class Tally:
    """Counts requests and answers."""

    rounds: int = 0
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def requests(self) -> int:
        return sum(self.answers.values())

    def __str__(self) -> str:
        kinds = sorted({kind for kind, _ in self.answers})
        lines = [f"{self.requests} requests in {self.rounds} rounds, {self.requests / max(self.seconds, 0.001):.0f} a second"]
        for kind in kinds:
            told = sorted((status, number) for (one, status), number in self.answers.items() if one == kind)
            lines.append(f"  {kind:18} " + "  ".join(f"{status}: {number}" for status, number in told))
        return "\n".join(lines)


class Round:
    """The requests of one seed, on a database of its own."""

    def __init__(self, seed: int, postern: Postern, people: People, tally: Tally) -> None:
        self.random = Random(seed)  # noqa: S311 - has to be repeatable
        self.fuzzer = Fuzzer(seed)
        self.postern = postern
        self.people = people
        self.client: Client = unlimited(postern)
        self.town = DirectoryOrganizations(postern, people)
        self.reader = TableReader(people)
        self.tally = tally
        self.versions: dict[str, list[str]] = {slug: [] for slug in SLUGS}
        self.state = self.reader.read()
        self.accounts = Accounts(self.state)
        self.asked: list[FuzzedRequest] = []
        self.answers: list[Received | None] = []
        assert faults_within(self.accounts, self.state) == []

    async def run(self) -> None:
        for _ in range(BATCHES):
            await self.batch()
        await self.verify_chains()
        misplaced = "select from scim_exchanges as noted join scim_tokens as used on used.id = token_id where used.org_id <> noted.org_id"
        assert self.people.rows(misplaced) == []

    async def batch(self) -> None:
        scene, other = (self.town.houses[slug] for slug in self.random.choice((SLUGS, SLUGS, SLUGS, SLUGS[::-1])))
        at_once = self.random.choice((1, 1, 1, 1, 2, 3, 4))
        refused = self.random.random() < 0.04
        askers = [scene] * at_once
        if at_once > 1 and not refused and self.random.random() < 0.3:
            # Both directories send at the same moment.
            askers[0] = other
        self.asked = [self.fuzzer.draw(self.view(one)) for one in askers]
        tokens = [self.random.choice(scene.refused) if refused else one.token for one in askers]
        with trio.fail_after(PATIENCE):
            answers = await self.ask_all(self.asked, tokens)
        await self.follow()
        before, self.state = self.state, self.reader.read()
        was, self.accounts = self.accounts, Accounts(self.state)
        found = changes(before, self.state, self.reader.keys)
        asking = {one.id for one in askers}
        territories = [Territory(one, was, self.accounts, asking, self.reader.mail_of) for one in sorted(asking)]
        trespasses = [one for one in found if not any(territory.allows(one) for territory in territories)]
        assert trespasses == [], "\n".join(map(str, trespasses))
        assert ways_left_behind(was, self.accounts) == []
        assert faults_within(self.accounts, self.state) == []
        found = [one for one in found if one.table != "scim_exchanges"]
        for asker, asked, answer in zip(askers, self.asked, answers, strict=True):
            self.tally.answers[asked.kind, answer.status] += 1
            check_shape(asked, answer)
            self.check_secrets(asker, asked, answer, was)
            if refused:
                # Paths and their methods are no secret.
                assert answer.status in {401, 404, 405, *([204] if asked.method == "OPTIONS" else [])}
            # A request at the same moment may just have added them.
            if at_once == 1 and answer.status < 300 and (user := user_of(asked)) is not None:
                assert user in was.known(asker.id), "somebody whom the organization does not know"
            if etag := answer.header("etag"):
                self.versions[asker.slug] = [*self.versions[asker.slug][-5:], etag]
        if all(answer.status >= 400 for answer in answers):
            assert found == [], "refusals have changed something"
        if at_once == 1 and not refused:
            await self.confirm(scene, self.asked[0], answers[0])

    def view(self, scene: DirectoryOrganization) -> View:
        users = sorted(self.accounts.tables["users"], key=lambda row: row["email_key"])
        known = self.accounts.known(scene.id)
        other = next(one for one in self.town.houses.values() if one is not scene)
        named = [row for table, row in ((table, json.loads(row)) for table, row in self.state if table == "invitations")]
        others = [other.id, *(str(one.service.id) for one in self.town.houses.values())]
        others += [row["id"] for row in sorted(named, key=lambda row: (row["org_id"] == scene.id, row["email_key"], row["role"]))]
        return View(
            users=[row["id"] for row in users],
            near=[row["id"] for row in users if row["id"] in known],
            addresses=[*(row["email"] for row in users), *scene.invited, *other.invited, NOBODY],
            group=scene.id,
            others=others,
            versions=self.versions[scene.slug],
        )

    async def ask_all(self, asked: Sequence[FuzzedRequest], tokens: Sequence[str]) -> list[Received]:
        answers = self.answers = [None] * len(asked)

        async def ask(at: int) -> None:
            answers[at] = await self.ask(asked[at], tokens[at])

        async with trio.open_nursery() as nursery:
            for at in range(len(asked)):
                nursery.start_soon(ask, at)
        return [one for one in answers if one is not None]

    async def ask(self, asked: FuzzedRequest, token: str) -> Received:
        headers = [(name, value) for name, value in asked.headers]
        pieces = [asked.body[at : at + 65_536] for at in range(0, len(asked.body), 65_536)] or [b""]
        return await self.client.exchange(asked.method, asked.target, [*headers, ("authorization", f"Bearer {token}")], pieces)

    async def follow(self) -> None:
        """Does the work that follows a moment later: requests are kept for administrators, and deleted people are forgotten."""
        with trio.move_on_after(0):
            # Before the keeper ends, it writes the waiting requests.
            await self.postern.federation.scim_recorder.run()
        await finish_forgetting(self.postern, self.people)

    def check_secrets(self, scene: DirectoryOrganization, asked: FuzzedRequest, answer: Received, was: Accounts) -> None:
        """Checks that an answer has only ids and addresses that its organization knows, or that its directory has sent."""
        other = next(one for one in SLUGS if one != scene.slug)
        headers = "\n".join(value for name, value in answer.headers if name != "x-request-id")
        text = f"{headers}\n{answer.body.decode(errors='replace')}".lower()
        sent = f"{unquote(asked.target)}\n{asked.body.decode(errors='replace')}".lower()
        sent += "".join(one.said(scene.id) for one in (was, self.accounts)).lower()
        bare = sent.replace("-", "")
        assert mark(other) not in text, "what only the other organization knows"
        known = was.known(scene.id) | self.accounts.known(scene.id) | {scene.id}
        shown = {one for one in _UUID.findall(text) if one not in known and one.replace("-", "") not in bare}
        assert shown == set(), "ids that the organization does not know"
        for users in (was.users, self.accounts.users):
            for user, row in users.items():
                email = row["email"].lower()
                if user not in known and email not in sent:
                    assert email not in text, "the address of somebody whom the organization does not know"

    async def confirm(self, scene: DirectoryOrganization, asked: FuzzedRequest, answer: Received) -> None:
        """Checks that an answered change was made."""
        if asked.kind == "delete a user" and answer.status == 204 and asked.method == "DELETE":
            gone = FuzzedRequest(kind="get a user", method="GET", path=asked.path)
            assert (await self.ask(gone, scene.token)).status == 404
            return
        if asked.kind not in _CHANGES or answer.status not in {200, 201} or asked.method not in {"POST", "PUT", "PATCH"}:
            return
        path = asked.path
        if answer.status == 201:
            location = answer.header("location") or ""
            path = location[location.index(BASE) :]
        again = await self.ask(FuzzedRequest(kind="get", method="GET", path=path, query=asked.query), scene.token)
        assert again.status == 200
        assert again.json() == answer.json(), "the answer is not what is there"
        assert again.header("etag") == answer.header("etag")
        whole = (await self.ask(FuzzedRequest(kind="get", method="GET", path=path), scene.token)).json()
        for name, value in asked.shows.items():
            shown = part_of(whole, name)
            if name == "userName":
                # Another spelling of the address changes nothing if the account is not the directory's own.
                shown, value = _spelled(shown), _spelled(value)  # noqa: PLW2901
            elif name == "active" and self.accounts.is_barred(whole["id"]):
                value = False  # noqa: PLW2901 - no directory lifts the platform's deactivation
            assert shown == value, f"{name} is not what was asked for"
        members = {one["value"] for one in whole.get("members", ())}
        for user, is_in in asked.members.items():
            if is_in or not self.accounts.runs(scene.id, user):
                assert (user in members) is is_in, f"{user} {'is not' if is_in else 'is'} in the group"

    async def verify_chains(self) -> None:
        audit = self.postern.record.audit
        await audit.link()
        findings: list[Any] = []
        checked: list[Any] = []
        await audit.verify(lambda name, finding: findings.append((name, finding)), checked.append)
        assert findings == []
        (entries,) = self.people.rows("select count(*) as number from audit_entries")
        assert sum(chain.links for chain in checked) == entries["number"]


def _spelled(address: str) -> str:
    """The address in one of its spellings. All of these dots are one (RFC 3490, section 3.1)."""
    return address.casefold().translate(_DOTS)


async def one_round(seed: int, database_url: str, directory: Path, tally: Tally) -> None:
    began = time.monotonic()
    async with postern_on(database_url, directory) as postern:
        await with_keys(postern)
        with People(postern, database_url) as people:
            now = Round(seed, postern, people, tally)
            try:
                await now.run()
            except BaseException as failure:
                failure.add_note(f"FUZZ_SEED={seed}")
                for asked, answer in zip(now.asked, now.answers, strict=True):
                    failure.add_note(f"{asked}\n  {'no answer' if answer is None else (answer.status, answer.body[:600])}")
                raise
    tally.rounds += 1
    tally.seconds += time.monotonic() - began


async def test_no_request_of_a_directory_reaches_beyond_its_organization(
    emptied_database_url: str, empty_shared_database: Emptying, tmp_path: Path, log: CapturedLog
) -> None:
    tally = Tally()
    until = time.monotonic() + float(os.environ.get("FUZZ_MINUTES", "0")) * 60
    given = os.environ.get("FUZZ_SEED")
    seeds = [int(given)] if given else [*FIXED_SEEDS]
    while seeds:
        empty_shared_database()
        await one_round(seeds.pop(0), emptied_database_url, tmp_path, tally)
        log.verify()
        log.entries.clear()
        if not seeds and time.monotonic() < until:
            seeds.append(secrets.randbelow(2**32))
            if tally.rounds % 20 == 0:
                print(tally, flush=True)  # noqa: T201 - for whoever waits, with -s
    print(tally)  # noqa: T201 - likewise
