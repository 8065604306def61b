"""`postern organization export`: writes one organization, whole, to a file that only the installation of the given key can open."""

import argparse
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg
import trio

from adapters.crypto.recipients import ReceivingKeyUnusable, RecipientKey, parse_receiving_key
from adapters.moving_files import FileExists, FileWriter
from adapters.postgres.moving.leaving import LeavingOrganization, leaving
from adapters.postgres.moving.what_moves import USERS
from core.domain.identity.passkeys import RelyingParty
from core.domain.platform.moving import FORMAT, DepartedOrganization, FileHead, exported
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.usecases.record import CHAIN_KEY
from entrypoints.bootstrap import Postern
from entrypoints.cli.backups.common import run_interruptibly
from entrypoints.cli.moving.report import say_departed
from entrypoints.cli.moving.rights import require_right_to_move
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.operating import acting
from entrypoints.cli.output.progress import progress
from entrypoints.failures import OK, USAGE, StartFailed
from entrypoints.settings import Settings
from ports.crypto import CannotOpen
from ports.jobs import Advance


class KeyUnusable(StartFailed):
    status = USAGE


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    run_interruptibly(partial(_run, arguments, settings))
    return OK


async def _run(given: argparse.Namespace, settings: Settings) -> None:
    async with opened_postern(settings) as postern:
        await require_right_to_move(settings)
        departed = await export(postern, given.organization, Path(given.to), given.key)
    say_departed(departed, as_json=given.json)


async def export(postern: Postern, slug: str, path: Path, key: str) -> DepartedOrganization:
    """Writes the file and the entry in the audit log. Raises `NotFound`, and `StartFailed` when no file was made."""
    organization = (await postern.platform.governance.show(slug)).organization
    if organization.status is OrganizationStatus.REJECTED:
        raise StartFailed(f"{slug} was rejected permanently, so it cannot be moved")
    try:
        recipient = parse_receiving_key(key)
        writer = await trio.to_thread.run_sync(FileWriter, path, recipient)
    except ReceivingKeyUnusable as error:
        raise KeyUnusable(str(error)) from None
    except FileExists as error:
        raise StartFailed(str(error)) from None
    except OSError as error:
        raise StartFailed(f"The file {path} cannot be written: {error.strerror}") from None
    try:
        departed = await _write(postern, organization, writer, path, recipient)
        async with postern.foundation.unit_of_work() as uow:
            await uow.record(exported(departed, acting()))
            await uow.commit()
        writer.publish()
    except psycopg.Error as error:
        raise StartFailed(f"Nothing was exported: {error.diag.message_primary or type(error).__name__}") from error
    except CannotOpen as error:
        raise StartFailed(
            f"A secret of {slug} cannot be decrypted, so nothing was exported; `postern doctor` shows details: {error}"
        ) from None
    except OSError as error:
        raise StartFailed(f"The file {path} cannot be written: {error.strerror}") from None
    finally:
        writer.abandon()
    return departed


async def _write(
    postern: Postern, organization: Organization, writer: FileWriter, path: Path, recipient: RecipientKey
) -> DepartedOrganization:
    chain_key = await postern.foundation.server_secrets.get(CHAIN_KEY)
    with progress("Exporting", None, "rows") as advance:
        async with leaving(postern.foundation.pool, postern.foundation.keyring, organization.id) as moving:
            described = await moving.described()
            party = postern.identity.passkeys.relying_party
            writer.head(
                FileHead(
                    format=FORMAT,
                    version=postern.foundation.version,
                    schema=described.schema,
                    made_at=datetime.now(UTC).isoformat(),
                    source=postern.foundation.public_url,
                    organization=organization.id,
                    slug=described.slug,
                    name=described.name,
                    tier=described.tier,
                    relying_party=party.id if isinstance(party, RelyingParty) else None,
                    migrations=described.migrations,
                )
            )
            await _write_parts(moving, writer, advance)
            audit = await moving.audit(chain_key)
        digest = await trio.to_thread.run_sync(writer.seal, audit)
    return DepartedOrganization(
        organization=organization.id,
        slug=described.slug,
        file=str(path),
        digest=digest,
        sealed_for=recipient.fingerprint,
        was_open=described.status == OrganizationStatus.ACTIVE,
        people=moving.people,
        tables=tuple(writer.parts),
        audit=audit,
    )


async def _write_parts(moving: LeavingOrganization, writer: FileWriter, advance: Advance) -> None:
    async def write(part: str, batches: AsyncIterator[Sequence[bytes]]) -> None:
        writer.part(part)
        async for rows in batches:
            await trio.to_thread.run_sync(writer.rows, rows)
            advance(len(rows))

    await write(USERS, moving.rows_of_people())
    for table in moving.tables:
        await write(table.name, moving.rows_of(table))
