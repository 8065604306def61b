"""Whoever has the public key can make a file. Whatever is wrong in it is one line, and nothing of it is written."""

import gzip
import io
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec
import pytest
import trio

from adapters.crypto.recipients import OpeningFile, RecipientKey, RecipientSecrets, SealingFile
from adapters.moving_files import LONGEST_LINE, FileExists, FileReader, FileWriter
from adapters.postgres.migrating.schema import digest_of_migrations
from core.domain.errors import Refusal
from core.domain.platform.moving import AuditProof, FileHead, UnfitFile
from core.frozen import Frozen, replace
from entrypoints.bootstrap import open_postern
from entrypoints.cli.moving.arrival import ImportOptions, import_
from tests.adapters.postgres.migrating.former import EARLIER
from tests.adapters.postgres.populous import ACME, MEMBERS, OTHER
from tests.entrypoints.moving.conftest import Moving
from tests.entrypoints.moving.installations import ADA, CERTIFICATE, MovingPlace

Row = dict[str, Any]
Change = Callable[[str, Row], Row | list[Row]]
STRANGER: Final = str(uuid4())
# A row of another tenant of the receiving installation.
OTHERS_ROLE: Final = "0192aaaa-0000-7000-8000-000000000001"
OTHERS_SERVICE: Final = "0192aaaa-0000-7000-8000-000000000002"
OTHERS_TEAM: Final = "0192aaaa-0000-7000-8000-000000000003"


def public(moving: Moving) -> RecipientKey:
    return moving.secrets.hybrid_key


def rewritten(
    moving: Moving,
    path: Path,
    change: Change = lambda _part, row: row,
    *,
    head: Mapping[str, Any] | None = None,
    parts: Callable[[str], str | None] = lambda part: part,
    audit: Callable[[AuditProof], AuditProof] = lambda audit: audit,
) -> Path:
    """The file with other rows, and with an end that is right for these."""
    known = contents(moving.file, moving.secrets)
    writer = FileWriter(path, public(moving))
    writer.head(replace(known.head, **(head or {})))
    for part, rows in known.rows.items():
        name = parts(part)
        if name is not None:
            writer.part(name)
            writer.rows([line for raw, row in rows for line in _changed(raw, row, change(part, row))])
    writer.seal(audit(known.audit))
    writer.publish()
    return path


def _changed(raw: bytes, row: Row, after: Row | list[Row]) -> list[bytes]:
    if after is row:
        return [raw]
    return [json.dumps(one).encode() for one in (after if isinstance(after, list) else [after])]


class Contents(Frozen):
    head: FileHead
    rows: Mapping[str, list[tuple[bytes, Row]]]
    audit: AuditProof


@cache
def contents(file: Path, secrets: RecipientSecrets) -> Contents:
    reader = FileReader(file, secrets)
    rows: dict[str, list[tuple[bytes, Row]]] = {}
    for batch in reader.batches():
        for row in batch.rows:
            raw = msgspec.json.encode(row)
            rows.setdefault(batch.part, []).append((raw, msgspec.json.decode(raw)))
    reader.close()
    return Contents(reader.head, {part.name: rows.get(part.name, []) for part in reader.end.parts}, reader.end.audit)


def on(table: str, **values: Any) -> Change:
    """Changes the first row of a table."""
    done: list[bool] = []

    def change(part: str, row: Row) -> Row:
        if part == table and not done:
            done.append(True)
            return {**row, **values}
        return row

    return change


SAML: Final = {"kind": "saml", "client_id": None, "sealed_client_secret": None, "certificate": CERTIFICATE, "sealed_private_key": "\\x6b"}

# What is done to the file, and the line that says so.
ROWS: Final[Mapping[str, tuple[Change, str]]] = {
    "another organization's id": (on("roles", org_id=str(OTHER)), "roles: 1 of its rows: they name another organization"),
    "the platform's management key": (on("management_keys", org_id=None), "management_keys: 1 of its rows: they name another organization"),
    "the installation's field": (on("all_profile_fields", org_id=None), "all_profile_fields: 1 of its rows: they name another"),
    "the platform's log": (on("audit_entries", organization_id=None), "audit_entries: 1 of its rows: they name another organization"),
    "another's service": (on("api_keys", service_id=OTHERS_SERVICE), "api_keys: 1 of its rows: their service_id is of nobody"),
    "two owners": (
        on("all_organizations", owner_user_id=None),
        "memberships: 1 of its rows: name an owner beside the owner",
    ),
    "another's role": (on("memberships", role_id=OTHERS_ROLE), "memberships: 1 of its rows: their role_id is of nobody"),
    "another's team": (on("team_members", team_id=OTHERS_TEAM), "team_members: .*violates foreign key"),
    "a right in another organization": (
        on("relations", object_type="organization", object_id=str(OTHER)),
        "relations: 1 of its rows: names an object of another organization",
    ),
    "somebody whom the file does not have": (on("memberships", user_id=STRANGER), "memberships: 1 of its rows: their user_id is of nobody"),
    "a team's member whom the file does not have": (on("team_members", user_id=STRANGER), "team_members: .*violates foreign key"),
    "a row that is here": (on("former_services", id=OTHERS_SERVICE), "former_services: duplicate key .*already exists"),
    "a client that is here": (on("all_services", client_id=OTHERS_ROLE), "all_services: duplicate key .*already exists"),
    "two organizations": (
        lambda part, row: [row, {**row, "id": str(OTHER)}] if part == "all_organizations" else row,
        "not of one organization",
    ),
    "an organization of another id": (on("all_organizations", id=str(uuid4())), "has another id than the file|is of nobody"),
    "two people of one address": (
        lambda part, row: {**row, "email": "U2@example.org"} if part == "users" and row["email"] == ADA else row,
        "users: could not create unique index",
    ),
    "no address": (on("users", email="nobody"), "Row 1 of users is not fit: "),
    "an address that is a number": (on("users", email=7), "Row 1 of users is not fit: email: is not of the form"),
    "a person without a column": (on("users", nick="x"), "the columns that people have"),
    "a second factor that is a word": (
        on("users", has_passkey_as_second_factor="no"),
        "Row 1 of users is not fit: has_passkey_as_second_factor: is not",
    ),
    "a platform owner": (on("users", is_platform_owner=True), "the columns that people have"),
    "a column that there is not": (on("roles", rank=1), "Row 1 of roles is not fit: it does not have the columns"),
    "the mailed token of an invitation": (
        on("invitations", mailed_digest="\\x00"),
        "Row 1 of invitations is not fit: it does not have the columns",
    ),
    "a counter": (on("all_organizations", member_count=-7), "Row 1 of all_organizations is not fit: it does not have the columns"),
    "a number for an id": (on("roles", id=7), "Row 1 of roles is not fit: id: is not of the form"),
    "a word for a number": (on("plans", price_cents="dear"), "Row 1 of plans is not fit: price_cents: is not of the form"),
    "an object for a text": (on("all_services", redirect_uris={"a": 1}), "Row 1 of all_services is not fit: redirect_uris"),
    "a time that never comes": (on("users", created_at="infinity"), "users: 1 of its rows: a time is beyond all times"),
    "a time before all times": (on("webhooks", updated_at="-infinity"), "webhooks: 1 of its rows: a time is beyond all times"),
    "a word that a terminal obeys": (on("audit_personal", address="\u001b[2J"), r"Row 1 of audit_personal is not fit: address"),
    "a zero byte": (on("roles", name="a\u0000b"), "Row 1 of roles is not fit: name: must be without"),
    "a value that no row may have": (on("plans", currency="EURO"), "Row 1 of plans is not fit: currency: three letters"),
    "a secret that is none": (on("webhooks", sealed_secret="zz"), "Row 1 of webhooks is not fit: sealed_secret: is not"),
    "a secret that is a number": (on("webhooks", sealed_secret=5), "Row 1 of webhooks is not fit: sealed_secret: is not"),
    "a secret of nobody": (on("webhooks", id="x"), "Row 1 of webhooks is not fit: id: is not"),
    "a script to go back to": (
        on("all_services", redirect_uris=["javascript:alert(1)"]),
        "Row 1 of all_services is not fit: redirect_uris",
    ),
    "a logo of an application that nobody has registered": (
        on("all_services", service_type="metadata", logo_digest="0" * 64),
        "Row 1 of all_services is not fit: logo_digest",
    ),
    "a page that is a logo": (
        on("logos", media_type="text/html", content="\\x" + b"<script>".hex()),
        "Row 1 of logos is not fit: content: is no picture",
    ),
    "a text that is HTML": (
        on("organization_texts", key="sign_in.title", text="<b>"),
        "Row 1 of organization_texts is not fit: texts: sign_in.title",
    ),
    "a link that is an address": (
        on("organization_texts", key="own.footer", text="[x](https://127.0.0.1/)"),
        "Row 1 of organization_texts is not fit: texts: own.footer",
    ),
    "a text in another form": (
        on("organization_texts", key="sign_in.title", text=" a  b"),
        "Row 1 of organization_texts is not fit: text: must be as it is kept",
    ),
    "an endless text": (on("organization_texts", based_on="x" * 5000), "Row 1 of organization_texts is not fit: based_on"),
    "a reserved claim": (
        on("service_claims", name="is_platform_owner"),
        "Row 1 of service_claims is not fit: name: 'is_platform_owner' is reserved",
    ),
    "a capability of the platform": (
        on("management_keys", capabilities=["organizations.manage"]),
        "management_keys is not fit: capabilities: a value",
    ),
    "a file for a webhook": (on("webhooks", url="file:///etc/passwd"), "Row 1 of webhooks is not fit: url: must start"),
    "a script for a directory's page": (
        on("upstream_providers", **SAML, saml={"sso_url": "javascript:alert(1)"}),
        "Row 1 of upstream_providers is not fit: sso_url",
    ),
    "certificates that are none": (
        on("upstream_providers", **SAML, saml={"certificates": "x"}),
        "upstream_providers is not fit: saml: is not of the form",
    ),
    "a domain that is a path": (on("domains", domain="a.example/../x"), "Row 1 of domains is not fit: domain"),
    "an invitation for another's address": (on("invitations", email_key="victim@example.org"), "invitations is not fit: email_key"),
    "an identity at another provider": (on("identities", provider="codehost"), "identities: .*another provider than it says|violates"),
    "another entry in the log": (on("audit_entries", action="thing.undone"), "The entries of the audit log are not those"),
    "a deep value": (
        on("audit_entries", details=json.loads("[" * 900 + "]" * 900)),
        "Row 1 of audit_entries is not fit: details: (must be an object|is not of the form)",
    ),
}


def prepared(here: MovingPlace) -> None:
    here.rows("insert into all_organizations (id, slug, name, created_at, updated_at) values (%s, 'other', 'Other', now(), now())", OTHER)
    here.rows(
        "insert into roles (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 'boss', 'Boss', now(), now())",
        OTHERS_ROLE,
        OTHER,
    )
    here.rows(
        "insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
        " values (%s, %s, 'shop', 'Shop', 'web', %s, now(), now())",
        *(OTHERS_SERVICE, OTHER, OTHERS_ROLE),
    )
    here.rows("insert into former_services (id, org_id, name, deleted_at) values (%s, %s, 'Gone', now())", OTHERS_SERVICE, OTHER)
    here.rows(
        "insert into teams (id, org_id, slug, name, created_at, updated_at) values (%s, %s, 't', 'T', now(), now())", OTHERS_TEAM, OTHER
    )


def test_rows_that_are_not_fit(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    prepared(here)
    before = here.everything()
    files = {name: (rewritten(moving, tmp_path / str(number), change), line) for number, (name, (change, line)) in enumerate(ROWS.items())}
    assert unexpected(here, files) == {}
    assert here.everything() == before


def unexpected(here: MovingPlace, files: Mapping[str, tuple[Path, str]]) -> Mapping[str, str]:
    """What an import says of each file, where it is not one line of this pattern."""
    wrong: dict[str, str] = {}

    async def work() -> None:
        async with open_postern(here.settings) as postern:
            for name, (path, line) in files.items():
                with pytest.raises(Refusal) as caught:
                    await import_(postern, path, ImportOptions(trusts=True))
                message = caught.value.message
                if re.search(line, message) is None or "\n" in message or len(message) > 400:
                    wrong[name] = message

    trio.run(work)
    return wrong


def test_files_that_are_not_whole(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    whole = moving.file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    cases: dict[str, tuple[bytes, str]] = {
        "empty": (b"", "not a file of `postern organization export`"),
        "a picture": (b"\x89PNG" * 100, "not a file of"),
        "cut off": (whole[:-100], "altered, or cut off|sealed for another"),
        "altered": (bytes(flipped), "altered, or cut off|sealed for another"),
        "longer": (whole + b"x", "altered"),
        "not compressed": (sealed(moving, b"hello\n"), "compression is broken"),
        "compression cut off": (sealed(moving, gzip.compress(lines(moving))[:-9]), "compression is broken|no end"),
        "not JSON": (sealed(moving, gzip.compress(b"hello\n")), "is not of the form"),
        "no end": (sealed(moving, gzip.compress(b"".join(lines(moving).splitlines(keepends=True)[:-1]))), "no end"),
        "behind the end": (sealed(moving, gzip.compress(lines(moving) + b"{}\n")), "goes on behind its end"),
        "a row first": (sealed(moving, gzip.compress(lines(moving, after_head=b"{}\n"))), "a row before its first part"),
        "a part twice": (sealed(moving, gzip.compress(lines(moving, after_head=b'["part","users"]\n'))), "a part twice"),
        "a strange name": (sealed(moving, gzip.compress(lines(moving, after_head=b'["part","../x"]\n'))), "no name of a table"),
        "a strange line": (sealed(moving, gzip.compress(lines(moving, after_head=b'["what",1]\n'))), "another line where 'end'"),
        "a list for a row": (sealed(moving, gzip.compress(lines(moving, after_head=b"[1]\n"))), "is not of the form"),
        "a row that is none": (
            sealed(moving, gzip.compress(lines(moving).replace(b'["part","roles"]\n', b'["part","roles"]\n{"id":}\n'))),
            "Row 1",
        ),
        "rows gone": (sealed(moving, gzip.compress(without_rows(moving, b"roles"))), "not whole: 'roles' was altered, or lacks rows"),
        "a part gone": (sealed(moving, gzip.compress(lines(moving).replace(b'["part","logos"]', b'["part","logoz"]'))), "logo"),
        "another head": (sealed(moving, gzip.compress(lines(moving).replace(b"Acme Ltd", b"Acme Inc", 1))), "first line was altered"),
        "a long line": (sealed(moving, gzip.compress(b"x" * (LONGEST_LINE + 2))), "longer than"),
    }
    before = here.everything()
    for name, (content, _line) in cases.items():
        (tmp_path / name).write_bytes(content)
    assert unexpected(here, {name: (tmp_path / name, line) for name, (_content, line) in cases.items()}) == {}
    assert here.everything() == before


def lines(moving: Moving, after_head: bytes = b"") -> bytes:
    with moving.file.open("rb") as file:
        opening = OpeningFile(file, moving.secrets)
        content = bytearray()
        while part := opening.read(1 << 20):
            content += part
    head, rest = gzip.decompress(bytes(content)).split(b"\n", 1)
    return head + b"\n" + after_head + rest


def without_rows(moving: Moving, part: bytes) -> bytes:
    before, after = lines(moving).split(b'["part","%s"]\n' % part)
    return before + b'["part","%s"]\n' % part + after[after.index(b"[") :]


def test_a_bomb_is_not_read_to_its_end(moving: Moving, tmp_path: Path) -> None:
    head = lines(moving).split(b"\n", 1)[0]
    row = b'{"a":"' + b"a" * 1_000_000 + b'"}\n'
    path = tmp_path / "bomb"
    path.write_bytes(sealed(moving, gzip.compress(head + b'\n["part","users"]\n' + row * 50, 9)))
    reader = FileReader(path, moving.secrets)
    sizes: list[int] = []
    with pytest.raises(UnfitFile, match="far larger"):
        sizes.extend(len(batch.rows) for batch in reader.batches())
    assert sum(sizes) < 40
    assert max(sizes) <= 5
    reader.close()


def sealed(moving: Moving, content: bytes) -> bytes:
    file = io.BytesIO()
    sealing = SealingFile(file, public(moving))
    sealing.write(content)
    sealing.finish()
    return file.getvalue()


def test_heads_and_parts(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "a later format": ({"head": {"format": 3}}, "format 3, and this Postern reads format 2"),
        "the format before": ({"head": {"format": 1}}, "^The file does not say which migrations .*: an older Postern has written it"),
        "no migrations": ({"head": {"migrations": ""}}, "^The file does not say which migrations its columns come from"),
        "another schema": ({"head": {"migrations": "0" * 64}}, "has the columns of other migrations .*: bring both .* to the same release"),
        "a list of the same length": (
            {"head": {"migrations": digest_of_migrations(EARLIER[: contents(moving.file, moving.secrets).head.schema])}},
            "has the columns of other migrations than this database",
        ),
        "another organization": ({"head": {"organization": UUID(int=7)}}, "they name another organization|has another id|is of nobody"),
        "a slug with a path": ({"head": {"slug": "../x"}}, "slug: "),
        "a part that is missing": ({"parts": lambda part: None if part == "logos" else part}, "does not have the parts .* logos"),
        "people missing": ({"parts": lambda part: None if part == "users" else part}, "does not have the parts .* users"),
        "a part that nobody knows": ({"parts": lambda part: "tiers" if part == "logos" else part}, "knows no such table"),
        "accounts of the platform": ({"parts": lambda part: "sessions" if part == "logos" else part}, "knows no such table"),
        "another proof": ({"audit": lambda audit: replace(audit, digest="00" * 32)}, "The entries of the audit log are not those"),
        "another count": ({"audit": lambda audit: replace(audit, entries=1)}, "The entries of the audit log are not those"),
    }
    before = here.everything()
    files = {name: (rewritten(moving, tmp_path / name, **changes), line) for name, (changes, line) in cases.items()}
    assert unexpected(here, files) == {}
    assert here.everything() == before


def test_a_file_of_before_says_what_to_do(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """Its first line lacks what the columns are compared by. A number was there, and means nothing across two lists of migrations."""
    first, rest = lines(moving).split(b"\n", 1)
    word, head = json.loads(first)
    del head["migrations"]
    head["format"] = 1
    path = tmp_path / "former"
    path.write_bytes(sealed(moving, gzip.compress(json.dumps([word, head]).encode() + b"\n" + rest)))
    before = here.everything()
    with pytest.raises(UnfitFile) as caught:
        here.import_(path)
    assert caught.value.message.endswith("an older Postern has written it. Bring both installations to the same release, and export again")
    assert here.everything() == before


def test_a_file_for_somebody_else(moving: Moving) -> None:
    """The exporting installation itself cannot open what it has sealed."""
    with pytest.raises(UnfitFile, match="it is for another installation"):
        moving.there.import_(moving.file)


def test_a_dump_of_the_file_shows_nothing(moving: Moving) -> None:
    content = moving.file.read_bytes()
    for word in (b"example.org", b"acme", b"argon2id", b"the secret of", b"JBSWY3DPEHPK3PXP", str(ACME).encode()):
        assert word not in content


def test_people_come_first(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    path = tmp_path / "late"
    known = contents(moving.file, moving.secrets)
    writer = FileWriter(path, public(moving))
    writer.head(known.head)
    for part in ("roles", "users"):
        writer.part(part)
        writer.rows([raw for raw, _row in known.rows[part]])
    writer.seal(known.audit)
    writer.publish()
    with pytest.raises(UnfitFile, match="do not come first"):
        here.import_(path)


def test_a_dear_password_is_left_out(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    dear = f"$argon2id$v=19$m=2147483648,t=99,p=1${'a' * 22}${'b' * 43}"
    arrived = here.import_(
        rewritten(moving, tmp_path / "dear", lambda part, row: {**row, "password_hash": dear} if part == "users" else row),
        ImportOptions(trusts=True),
    )
    assert here.one("select count(*) from users where password_hash is not null") == 0
    assert arrived.people.without_password == 4


def test_a_maker_who_is_another_here_makes_nothing(moving: Moving, here: MovingPlace, tmp_path: Path) -> None:
    """A key names its maker. In a file the maker could be any account of this installation."""
    here.rows("insert into users (id, email, email_key, is_platform_owner) values (%s, 'o@example.org', 'o@example.org', true)", STRANGER)

    def change(part: str, row: Row) -> Row:
        return {**row, "created_by": STRANGER} if part in {"api_keys", "management_keys", "scim_tokens"} else row

    here.import_(rewritten(moving, tmp_path / "made", change))
    nobody = {UUID(int=0)}
    for table in ("api_keys", "management_keys", "scim_tokens"):
        assert {row["created_by"] for row in here.rows(f"select created_by from {table}")} == nobody
    assert here.one("select count(*) from memberships") == MEMBERS


def test_a_writer_leaves_nothing_half_done(moving: Moving, tmp_path: Path) -> None:
    path = tmp_path / "file"
    writer = FileWriter(path, public(moving))
    writer.head(contents(moving.file, moving.secrets).head)
    writer.part("users")
    with pytest.raises(UnfitFile, match="longer than"):
        writer.rows([b"x" * (LONGEST_LINE + 1)])
    assert not path.exists()
    assert [one.stat().st_mode & 0o777 for one in tmp_path.iterdir()] == [0o600]
    writer.abandon()
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"mine")
    with pytest.raises(FileExists):
        FileWriter(path, public(moving))
    assert path.read_bytes() == b"mine"
