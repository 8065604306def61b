"""`postern organization import`: takes one organization, whole, out of the file of another installation."""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.moving_files import FileReader, RowBatch
from adapters.postgres.moving.arriving import ArrivalMeans, ArrivalTerms, ArrivingOrganization, arriving
from adapters.postgres.unit_of_work import PostgresUnitOfWork
from core.domain.errors import NotFound
from core.domain.formats import table_line
from core.domain.identity.passkeys import RelyingParty
from core.domain.platform.moving import ArrivedOrganization, UnfitFile, imported
from core.domain.tenancy.organizations import organization_slug
from core.domain.tenancy.tiers import Tier
from core.usecases.record import CHAIN_KEY
from entrypoints.bootstrap import Postern
from entrypoints.cli.backups.common import run_interruptibly
from entrypoints.cli.moving.receive_key import receiving_secrets
from entrypoints.cli.moving.report import say_arrived
from entrypoints.cli.moving.rights import require_right_to_move
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.output.progress import progress
from entrypoints.failures import OK, StartFailed
from entrypoints.settings import Settings

_MOST_SHOWN: Final = 50


class ImportOptions:
    """What the operator says beside the file."""

    def __init__(self, *, plan: bool = False, trusts: bool = False, slug: str | None = None, tier: str | None = None) -> None:
        self.plan = plan
        self.trusts = trusts
        self.slug = slug
        self.tier = tier


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    run_interruptibly(partial(_run, arguments, settings))
    return OK


async def _run(given: argparse.Namespace, settings: Settings) -> None:
    options = ImportOptions(plan=given.plan, trusts=given.trust_people, slug=given.slug, tier=given.tier)
    async with opened_postern(settings) as postern:
        await require_right_to_move(settings)
        arrived = await import_(postern, Path(given.file), options, None if given.report is None else Path(given.report))
    say_arrived(arrived, as_json=given.json)


async def import_(postern: Postern, path: Path, options: ImportOptions, report: Path | None = None) -> ArrivedOrganization:
    """All of the file arrives, or nothing of it. Raises `UnfitFile`, and `StartFailed` when the file cannot be read."""
    secrets = await receiving_secrets(postern)
    try:
        reader = await trio.to_thread.run_sync(FileReader, path, secrets)
    except OSError as error:
        raise StartFailed(f"The file {path} cannot be read: {error.strerror}") from None
    try:
        return await _take(postern, reader, options, report)
    except psycopg.Error as error:
        raise StartFailed(f"Nothing was imported: {error.diag.message_primary or type(error).__name__}") from error
    finally:
        reader.close()


async def _take(postern: Postern, reader: FileReader, options: ImportOptions, report: Path | None) -> ArrivedOrganization:
    head, foundation = reader.head, postern.foundation
    slug = organization_slug(options.slug or head.slug)
    await _require_free(postern, slug)
    tier = await _tier(postern, options.tier, head.tier)
    party = postern.identity.passkeys.relying_party
    same_party = isinstance(party, RelyingParty) and party.id == head.relying_party
    wanted = ArrivalTerms(slug, tier.id, trusted=options.trusts, same_relying_party=same_party)
    chain_key = await foundation.server_secrets.get(CHAIN_KEY)
    async with foundation.unit_of_work() as uow:
        assert isinstance(uow, PostgresUnitOfWork)  # noqa: S101 - for the type checker: there are no others
        means = ArrivalMeans(
            foundation.keyring, foundation.email_syntax, foundation.public_url, postern.identity.profiles.is_zone, foundation.shipped_words
        )
        async with arriving(uow.statements, means, head, wanted) as arrival:
            await _read(arrival, reader)
            await arrival.check()
            # Whoever has registered an address without proving it must not get what its owner is given.
            for user in await arrival.unproved():
                await postern.identity.accounts.disown_unverified(uow, user, acting())
            with progress("Writing", sum(part.rows for part in reader.end.parts), "rows") as advance:
                tables = await arrival.write(advance)
            with progress("Linking the audit log", None, ""):
                await arrival.link(chain_key, reader.end.audit)
            arrived = ArrivedOrganization(
                organization=head.organization,
                slug=slug,
                source=head.source,
                digest=reader.digest,
                tier=tier.name,
                status=await arrival.status(),
                trusted=options.trusts,
                planned=options.plan,
                people=await arrival.counted_people(),
                named=await arrival.named(),
                changed_ids=await _changed_ids(arrival),
                tables=tables,
                audit=reader.end.audit,
            )
            if report is not None:
                await _write_report(arrival, report)
            if not options.plan:
                await uow.record(imported(arrived, acting()))
                await uow.commit()
    return arrived


async def _read(arrival: ArrivingOrganization, reader: FileReader) -> None:
    """Brings the rows of the file to where the database can look at them."""
    batches: Iterator[RowBatch] = reader.batches()
    with progress("Reading the file", None, "rows") as advance:
        while (batch := await trio.to_thread.run_sync(next, batches, None)) is not None:
            rows = await trio.to_thread.run_sync(arrival.ready, batch.part, batch.rows)
            await arrival.take(batch.part, rows)
            advance(len(rows))
    await arrival.know_people()
    missing = set(arrival.tables) ^ {part.name for part in reader.end.parts}
    if missing:
        raise UnfitFile(f"The file does not have the parts that it must have: {', '.join(sorted(missing))}")


async def _require_free(postern: Postern, slug: str) -> None:
    try:
        found = await postern.platform.governance.show(slug)
    except NotFound:
        return
    raise UnfitFile(f"{found.organization.slug} is the slug of an organization here: give another one with --slug, if it is not this one")


async def _tier(postern: Postern, wanted: str | None, named: str) -> Tier:
    try:
        return await postern.platform.governance.tier(wanted or named)
    except NotFound as error:
        raise StartFailed(f"{error.message}: name the tier with --tier") from None


async def _changed_ids(arrival: ArrivingOrganization) -> dict[str, str]:
    found: dict[str, str] = {}
    async for people in arrival.renamed(changed=True):
        found.update({str(one.old): str(one.new) for one in people})
        if len(found) >= _MOST_SHOWN:
            break
    return dict(list(found.items())[:_MOST_SHOWN])


async def _write_report(arrival: ArrivingOrganization, path: Path) -> None:
    """Everybody's id there and here. No addresses: the file is for whoever brings an application's own table up to date."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(table_line(("old_id", "new_id", "account")))
            async for people in arrival.renamed(changed=False):
                file.writelines(table_line((str(one.old), str(one.new), "known" if one.is_known else "new")) for one in people)
    except OSError as error:
        raise StartFailed(f"The report {path} cannot be written, so nothing was imported: {error.strerror}") from None
