"""`postern audit verify`: checks whether entries of the audit log were removed, added or altered. A stopped run can go on."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import trio

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import PLATFORM_CHAIN, ChainCheck, ChainFinding, ChainHead, Reached
from core.usecases.record import Audit, CheckedChain
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import print_json, printable
from entrypoints.cli.output.progress import progress, say
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed
from entrypoints.settings import Settings
from ports.crypto import CannotOpen
from ports.system import Clock

# In seconds. After a kill, at most this much work is done again.
_EVERY: Final = 5.0


class NotResumed(StartFailed):
    status = USAGE


class ResumeFile:
    """`path` need not be there yet. Nobody but the operator may read it, and nobody without the keys can make one that counts."""

    def __init__(self, audit: Audit, path: Path) -> None:
        self._audit = audit
        self._path = path

    async def begin(self, only: OrganizationId | None, noted: ChainHead | None, clock: Clock) -> Reached | None:
        """Where the run before came to. None without a file. Raises `NotResumed`."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            # A place that cannot be kept is told now, and not after the first seconds of a long run.
            with self._writing():
                self._put("").unlink()
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise NotResumed(f"{printable(str(self._path))} cannot be read: {reason}") from None
        try:
            return await self._audit.progress_in(text, only, noted, clock.now())
        except BadRequest as refusal:
            raise NotResumed(f"{printable(str(self._path))}: {refusal.message}. Delete it to start again") from None

    async def keep(self, place: Callable[[], Reached | None]) -> None:
        """Writes the place every few seconds, until it is cancelled."""
        while True:
            await trio.sleep(_EVERY)
            if (reached := place()) is not None:
                await self.write(reached)

    async def write(self, reached: Reached) -> None:
        text = await self._audit.progress_of(reached)
        with self._writing():
            self._put(text).replace(self._path)

    def _put(self, text: str) -> Path:
        """A file beside the path, with this text."""
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.touch(mode=0o600)
        beside.write_text(text, encoding="utf-8")
        return beside

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NotResumed(f"{printable(str(self._path))} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink()


# The most faults that are printed for a chain. A longer list would not help the reader.
_MOST_SHOWN: Final = 20


class _Unusable(StartFailed):
    status = USAGE


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return trio.run(_verify, settings, arguments)


async def _verify(settings: Settings, arguments: argparse.Namespace) -> int:
    organization: str | None = arguments.organization
    noted: ChainHead | None = arguments.head
    if noted is not None and organization is None:
        raise _Unusable("--head is about one chain: name the chain with --organization")
    report = _JsonReport() if arguments.json else _Report()
    async with opened_postern(settings) as postern:
        audit, clock = postern.record.audit, postern.foundation.clock
        only = None if organization is None else await audit.chain_of(organization, noted)
        file = None if arguments.resume is None else ResumeFile(audit, arguments.resume)
        try:
            begin = None if file is None else await file.begin(only, noted, clock)
            report.begin(begin, only, noted, clock.now())
            async with trio.open_nursery() as nursery:
                if file is not None:
                    nursery.start_soon(file.keep, report.place)
                await audit.verify(
                    report.found,
                    report.checked,
                    only=only,
                    noted=noted,
                    name=organization,
                    readers=arguments.workers,
                    begin=begin,
                    reached=report.reached,
                    progress=progress,
                )
                nursery.cancel_scope.cancel()
        except* CannotOpen:
            raise StartFailed(
                f"The encryption keys ({', '.join(postern.foundation.keyring.key_ids())}) do not belong to this database: they cannot "
                "decrypt the secret of its audit chains. Verify with the keys that the database was used with"
            ) from None
        backlog = await audit.backlog()
    if file is not None:
        file.remove()
    report.end(backlog.pending)
    return FAILURE if report.faults else OK


class _Report:
    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self._chains = 0
        self._links = 0
        self._begun: Reached | None = None
        self._place: Reached | None = None

    def begin(self, begun: Reached | None, only: OrganizationId | None, noted: ChainHead | None, now: datetime) -> None:
        """Goes on with what a run before has counted."""
        if begun is not None:
            self.faults.update(begun.faults)
            self._chains, self._links = begun.chains, begun.links_before
            self.goes_on(begun)
        self._begun = begun or Reached(now, only, PLATFORM_CHAIN, ChainHead(), 0, 0, noted=noted)

    def goes_on(self, begun: Reached) -> None:
        found = f". The interrupted run found {_faults(sum(begun.faults.values()))}" if begun.faults else ""
        say(f"Continuing at link {begun.head.sequence + 1} of {_chain(begun)}, after {_entries(begun.links_before + begun.links)}{found}")

    def reached(self, check: ChainCheck) -> None:
        assert self._begun is not None  # noqa: S101 - for the type checker
        self._place = Reached(
            began=self._begun.began,
            only=self._begun.only,
            chain=check.chain,
            head=check.head,
            links=check.links,
            forgotten=check.forgotten,
            chains=self._chains,
            links_before=self._links,
            faults=dict(self.faults),
            noted=self._begun.noted,
        )

    def place(self) -> Reached | None:
        return self._place

    def found(self, name: str, finding: ChainFinding) -> None:
        self.faults[name] += 1
        if self.faults[name] <= _MOST_SHOWN:
            say(f"FAIL  {name}  {said_of(finding)}")
        elif self.faults[name] == _MOST_SHOWN + 1:
            say(f"FAIL  {name}  … and more faults")

    def checked(self, chain: CheckedChain) -> None:
        self._chains += 1
        self._links += chain.links
        forgotten = f", {chain.forgotten} with their personal part forgotten" if chain.forgotten else ""
        state = "FAIL" if self.faults[chain.name] else "ok  "
        say(f"{state}  {chain.name}  {_entries(chain.links)}{forgotten}, head {chain.head}")

    def end(self, pending: int) -> None:
        faults = sum(self.faults.values())
        chains = f"{self._chains} chain{'' if self._chains == 1 else 's'}"
        waiting = f" {_entries(pending)} not linked yet." if pending else ""
        verdict = f"{_faults(faults)} found" if faults else "no entry is missing, altered or inserted"
        print(f"{chains}, {_entries(self._links)}: {verdict}.{waiting}")


class _JsonReport(_Report):
    """Prints one object at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._findings: list[dict[str, object]] = []
        self._checked: list[dict[str, object]] = []
        self._resumed: dict[str, object] | None = None

    def goes_on(self, begun: Reached) -> None:
        """The object says what is not in its lists: the run before was stopped, and printed nothing."""
        self._resumed = {"chain": _chain(begun), "after": begun.head.sequence, "chains": begun.chains, "faults": dict(begun.faults)}

    def found(self, name: str, finding: ChainFinding) -> None:
        self.faults[name] += 1
        if self.faults[name] <= _MOST_SHOWN:
            self._findings.append({"chain": name, "fault": said_of(finding)})

    def checked(self, chain: CheckedChain) -> None:
        self._chains += 1
        self._links += chain.links
        self._checked.append({"chain": chain.name, "links": chain.links, "forgotten": chain.forgotten, "head": str(chain.head)})

    def end(self, pending: int) -> None:
        print_json(
            {
                "resumed": self._resumed,
                "chains": self._checked,
                "faults": self._findings,
                "fault_count": sum(self.faults.values()),
                "pending": pending,
            }
        )


def _chain(begun: Reached) -> str:
    return "platform" if begun.chain == PLATFORM_CHAIN else str(begun.chain)


def _faults(count: int) -> str:
    return "1 fault" if count == 1 else f"{count} faults"


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def said_of(finding: ChainFinding) -> str:
    place = [] if finding.sequence is None else [str(finding.sequence) if finding.last is None else f"{finding.sequence} to {finding.last}"]
    entry = [] if finding.entry is None else [f"entry {finding.entry}"]
    return f"{', '.join(place + entry)}: {finding.fault}"
