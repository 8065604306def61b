"""A moving file whose rows are right but for one value. Whoever has the public key can make one: it is refused in words, or the value
is one that an endpoint takes as well.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import pytest
import trio

from adapters.postgres.moving.arriving import ArrivalMeans, ArrivalTerms, ArrivingOrganization, arriving
from adapters.postgres.moving.arriving_columns import COLUMNS, OtherCheck
from adapters.postgres.moving.what_moves import USERS, MovedTable, moved_tables
from adapters.postgres.tables.every import MOVED
from adapters.postgres.unit_of_work import PostgresUnitOfWork
from core.domain.platform.moving import UnfitFile
from core.frozen import Frozen
from entrypoints.bootstrap import Postern, open_postern
from tests.conftest import fresh_database
from tests.entrypoints.moving.installations import ADA, HERE, THERE, MovingPlace, fill_source, settings_for
from tests.entrypoints.moving.test_hostile_files import Contents, contents
from tests.places import open_directory

Row = dict[str, Any]
STRANGER: Final = str(uuid4())
MARKUP: Final = "<script>x"
CONTROLS: Final = "a\u0007b\u202ec"
# A text that is kept under a key of another release is shown nowhere.
OWN_TEXTS: Final = frozenset({"organization_texts.key", "organization_texts.text", "organization_texts.based_on"})
ENDLESS: Final = "x" * 1_000_000

# What is of the wrong type, by the type of the column. No column takes any of it.
WRONG: Final[Mapping[str, Sequence[Any]]] = {
    "text": (7, True, ["x"], {"a": 1}),
    "_text": ("x", 7, {"a": 1}, [7], [None], [["x"]]),
    "bool": (1, "true", [True]),
    "int2": ("1", 1.5, True, [1], 2**15, -(2**40)),
    "int4": ("1", 1.5, True, [1], 2**31),
    "int8": ("1", 1.5, True, [1], 2**63),
    "uuid": ("x", 7, ["x"], {"a": 1}),
    "_uuid": ("x", ["x"], [7], {"a": 1}),
    "timestamptz": ("yesterday", 7, ["x"]),
    "bytea": ("zz", "\\xzz", 7, ["\\x00"]),
    "jsonb": ("x", 7, True, [{"a": "x"}], [1]),
    "inet": ("x", 7, ["192.0.2.1"]),
}
# What is of the right type. The columns that take it are named below.
ODD: Final[Mapping[str, Sequence[Any]]] = {
    "text": ("root", MARKUP, CONTROLS, ENDLESS),
    "_text": (["root"], [MARKUP], [CONTROLS], [ENDLESS]),
    "int2": (-1, 2**15 - 1),
    "int4": (-1, 2**31 - 1),
    "int8": (-1,),
    "jsonb": ({"a": 1}, {MARKUP: CONTROLS}, {"a": ENDLESS}, {"keys": [{"kty": "oct", "k": "AA"}]}),
}
# People write names as they like, and pages show them as text. Systems elsewhere give their things the names that they like.
NAMED: Final = frozenset(
    (
        *("all_organizations.name", "all_services.name", "api_keys.name", "former_services.name", "management_keys.name"),
        *(
            "passkeys.name",
            "passkeys.made_on",
            "plans.name",
            "plans.features",
            "provisioned_users.display_name",
            "provisioned_users.external_id",
        ),
        *("provisioned_users.family_name", "provisioned_users.formatted_name", "provisioned_users.given_name", "resource_servers.name"),
        *("roles.name", "roles.description", "scim_groups.external_id", "scim_tokens.name", "service_roles.name"),
        *("service_roles.description", "siem_configurations.name", "teams.name", "teams.external_id", "trusted_issuers.name"),
        *("upstream_providers.name", "user_keys.name", "webhooks.name", "permissions.description", "mail_servers.from_name"),
        *("mail_servers.username", "oauth_credentials.client_id", "upstream_providers.client_id", "identities.subject"),
        *("identities.email", "identities.issuer", "audit_entries.action", "audit_entries.target_id", "audit_entries.target_type"),
        *("audit_personal.user_agent", "login_counts.provider", "consents.scopes", "consents.saml_scopes", "consents.saml_entity_id"),
        *("api_keys.prefix", "client_secrets.prefix", "management_keys.prefix", "scim_tokens.prefix", "user_keys.prefix"),
        *(
            "user_keys.scopes",
            "saml_configurations.entity_id",
            "upstream_providers.scopes",
            "upstream_providers.second_factor_values",
            "all_profile_fields.label",
        ),
        *("all_services.codehost_scopes", "all_services.websuite_scopes", "all_services.officesuite_scopes", "trusted_issuers.audience"),
        *("trusted_issuers.subject_pattern", "terms.version"),
        # Those of a key that is not here are shown nowhere; ours of another release may be anything.
        *("organization_texts.text", "organization_texts.based_on"),
    )
)
PERMISSIONS: Final = frozenset({"service_roles.permissions"})
# Words of these forms.
SLUGS: Final = frozenset(
    (
        *("all_services.slug", "former_slugs.slug", "permissions.key", "plans.key", "roles.slug", "service_roles.slug", "teams.slug"),
        *("all_profile_fields.key", "user_key_settings.prefix", "service_claims.name", "mail_servers.host"),
        *("organization_texts.key", "organization_texts.language"),
    )
)
# Documents of applications, and of the log.
DOCUMENTS: Final = frozenset(
    ("all_organizations.metadata", "all_services.metadata", "service_users.metadata", "audit_entries.details", "audit_personal.details")
)
LOG: Final = frozenset({"audit_entries.details", "audit_personal.details"})


def test_rows_are_of_their_types(walked: "Walked") -> None:
    taken = walked.taken(WRONG)
    assert {name: values for name, values in taken.items() if values} == {}


def test_nothing_is_null_that_must_not_be(walked: "Walked") -> None:
    assert [
        f"{table.name}.{column}"
        for table in walked.tables
        for column in table.columns
        if column not in table.optional and walked.refusal(table, column, None) is None
    ] == []


def test_no_column_takes_what_no_endpoint_takes(walked: "Walked") -> None:
    elsewhere = {f"{table}.{column}" for table, rules in COLUMNS.items() for column, rule in rules.items() if rule in STATED}
    allowed: dict[str, frozenset[str] | set[str]] = {
        # A short name of a further provider: an identity of one that is not here leads nowhere.
        "root": NAMED | SLUGS | PERMISSIONS | {"identities.provider"} | OWN_TEXTS | elsewhere,
        MARKUP: NAMED | elsewhere,
        CONTROLS: {"audit_personal.user_agent"} | elsewhere,
        ENDLESS: elsewhere,
    }
    wrong: list[tuple[str, str]] = []
    for name, values in walked.taken({kind: ODD[kind] for kind in ("text", "_text")}).items():
        for value in values:
            text = value[0] if isinstance(value, list) else value
            if name not in allowed[text]:
                wrong.append((name, text[:20]))
    assert wrong == []


STATED: Final = (OtherCheck.STATEMENT, OtherCheck.LEFT)


def test_numbers_stay_in_their_bounds(walked: "Walked") -> None:
    taken = walked.taken({kind: ODD[kind] for kind in ("int2", "int4", "int8")})
    assert {name: values for name, values in taken.items() if values} == {
        "saml_certificates.warned_days": [2**15 - 1],
        "plans.price_cents": [2**31 - 1],
    }


def test_documents_have_their_forms(walked: "Walked") -> None:
    taken = walked.taken({"jsonb": ODD["jsonb"]})
    small, marked, large, keys = ODD["jsonb"]
    for name, values in taken.items():
        if name == "trusted_issuers.claims":
            assert values == [small]
        elif name in LOG:
            # What happened is what happened. The chain's digest covers it.
            assert values == [small, marked, large, keys]
        elif name in DOCUMENTS:
            assert values == [small, marked, keys], name
        else:
            assert values == [], name


def jwk(bits: int, exponent: bytes = b"\1\0\1") -> Mapping[str, str]:
    def number(value: bytes) -> str:
        return urlsafe_b64encode(value).rstrip(b"=").decode()

    return {"kty": "RSA", "kid": "a", "n": number(b"\xff" * (bits // 8)), "e": number(exponent)}


def test_keys_are_those_that_an_endpoint_takes(walked: "Walked") -> None:
    services = walked.table("all_services")
    assert walked.refusal(services, "jwks", {"keys": [jwk(2048)]}) is None
    for keys in (
        *({"keys": [one]} for one in ({"kty": "oct", "k": "AA"}, {**jwk(2048), "d": "AQAB"}, jwk(16_384), jwk(2048, b"\1" * 256), 7, "x")),
        *({"keys": []}, {"keys": {}}, {"keys": [jwk(2048)] * 11}, {"keys": [jwk(2048)] * 2}, {"a": 1}),
    ):
        assert "Row 1 of all_services is not fit: jwks" in (walked.refusal(services, "jwks", keys) or ""), keys


@pytest.mark.parametrize(
    "rule",
    [
        [1],
        {"a": 1},
        {"min_length": "1"},
        {"min_length": -1},
        {"max_length": 10**9},
        {"choices": "abc"},
        {"choices": [1]},
        {"minimum": 1},
        7,
    ],
)
def test_rules_of_fields_are_those_that_an_endpoint_takes(walked: "Walked", rule: Any) -> None:
    fields = walked.table("all_profile_fields")
    assert walked.refusal(fields, "rule", {"max_length": 7}) is None
    assert "Row 1 of all_profile_fields is not fit: rule" in (walked.refusal(fields, "rule", rule) or "")


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("all_organizations", "invitation_domains", ["<x>"]),
        ("all_organizations", "invitation_domains", ["x" * 100_000]),
        ("all_organizations", "registration_domains", ["<x>"]),
        ("all_organizations", "registration_policy", "everybody"),
        ("all_organizations", "languages", "xx"),
        ("all_organizations", "languages", "de,de"),
        ("saml_configurations", "attribute_mapping", [1, 2]),
        ("saml_configurations", "attribute_mapping", {"email": 7}),
        ("saml_configurations", "acs_endpoints", [{"index": "1", "url": "https://sp.example", "is_default": None}]),
        ("trusted_issuers", "issuer", "https://new.example.org"),
        ("logos", "digest", "0" * 64),
        ("look_pictures", "digest", "0" * 64),
        ("look_pictures", "kind", "logo"),
        ("service_logos", "digest", "0" * 64),
        # The database would refuse these, without words.
        ("organization_texts", "key", "Own Footer"),
        ("organization_texts", "language", "zh-Hans"),
        ("organization_texts", "text", ""),
        ("all_organizations", "look", '{"corner": 5}'),
        ("all_organizations", "look", '{"background": "url(https://evil.example)"}'),
        ("all_organizations", "look", "[]"),
        ("all_organizations", "look", "{"),
        # Pages would compare these with the clock.
        ("all_organizations", "look", '{"notice_from": "soon"}'),
        ("all_organizations", "look", '{"notice_until": "2030-01-01T12:00:00"}'),
        ("all_organizations", "look", '{"notice_from": "2030-01-02T00:00:00+00:00", "notice_until": "2030-01-01T00:00:00+00:00"}'),
        ("all_organizations", "look", '{"notice_until": 7}'),
        ("all_organizations", "look", '{"corner": false}'),
        ("all_organizations", "look", '{"corner": 4.0}'),
        ("all_organizations", "look", "[" * 100_000),
        ("scim_groups", "profile_mapping", {"title": 7}),
        ("upstream_providers", "profile_mapping", {"claim": ["x"]}),
        ("profile_values", "values", {STRANGER: {"a": 1}}),
        ("profile_values", "values", {STRANGER: "x" * 1001}),
        ("profile_values", "values", {"x": "y"}),
        ("users", "name", "a\u202eb"),
        ("users", "name", ENDLESS),
        ("users", "email", "x@" + "y" * 400),
        ("users", "language", "tlh"),
        ("users", "deactivated_by", "root"),
    ],
)
def test_values_that_a_reviewer_sent(walked: "Walked", table: str, column: str, value: Any) -> None:
    said = walked.refusal(walked.table(table) if table != USERS else None, column, value)
    assert f"Row 1 of {table} is not fit: " in (said or "")
    assert column in (said or "")


# What leads to a row of somebody else, or gives what nobody has given.
TOGETHER: Final[Sequence[tuple[str, str, str, str]]] = (
    ("memberships", "role", "'root'", "their role is none that there is"),
    ("memberships", "role", "'owner'", "name an owner beside the owner"),
    ("invitations", "role", "'owner'", "their role is none that can be given"),
    ("invitations", "role", "'root'", "their role is none that can be given"),
    ("teams", "role", "'root'", "their role is none that can be given"),
    ("relations", "relation", "'owner'", "name an owner beside the owner"),
    ("relations", "relation", "'admin'", "give what neither a membership nor a role gives"),
    ("relations", "relation", "'org.everything'", "give what neither a membership nor a role gives"),
    ("upstream_providers", "succeeds", f"array['{STRANGER}/{STRANGER}']", "succeed a provider of another organization"),
)


def test_nothing_is_given_that_nobody_gave(walked: "Walked") -> None:
    first = dict.fromkeys(MOVED, "place = (select min(place) from arriving_{table})")
    first["relations"] = "place = (select min(place) from arriving_relations where user_id is not null and object_type = 'organization')"
    first["memberships"] = (
        "place = (select min(place) from arriving_memberships where role_id is null and user_id <> (select owner_user_id from"
        " arriving_all_organizations))"
    )
    changes = [
        (table, f"update arriving_{table} set {column} = {value} where {first[table].format(table=table)}")
        for table, column, value, _ in TOGETHER
    ]
    said = walked.refused_together(changes)
    assert [(one or "").partition(": ")[0] for one in said] == [table for table, *_ in TOGETHER]
    for (*_, words), one in zip(TOGETHER, said, strict=True):
        assert words in (one or "")
        assert " (row " in (one or "")


def test_no_reference_leaves_the_file(walked: "Walked") -> None:
    """Only a person who may be gone, and ids that say nothing here, may be somebody whom the file does not have."""
    names, changes = [], []
    for table in walked.tables:
        meant = {*table.declared.ids, *table.declared.kept_by, *(one.column for one in table.people if one.may_be_gone)}
        for column in {one.column for one in table.references} | {table.owner or "", table.service or ""} - {""}:
            if column and column not in meant and column not in table.declared.sets:
                names.append(f"{table.name}.{column}")
                first = f"place = (select min(place) from arriving_{table.name})"
                changes.append((table.name, f"update arriving_{table.name} set {column} = '{STRANGER}' where {first}"))
    assert len(names) > 60
    said = walked.refused_together(changes)
    assert [name for name, one in zip(names, said, strict=True) if one is None or name.partition(".")[0] not in one] == []


class Walked(Frozen):
    """A file of everything, and the installation for which it was made."""

    place: MovingPlace
    tables: Sequence[MovedTable]
    contents: Contents

    def table(self, name: str) -> MovedTable:
        return next(table for table in self.tables if table.name == name)

    def taken(self, values: Mapping[str, Sequence[Any]]) -> Mapping[str, list[Any]]:
        """The values that each column of one of these types takes."""
        return {
            f"{table.name}.{column}": [value for value in values[kind] if self.refusal(table, column, value) is None]
            for table in self.tables
            for column, kind in table.types.items()
            if kind in values
        }

    def refusal(self, table: MovedTable | None, column: str, value: Any) -> str | None:
        """What the import says of the first row with this value. None if the row by itself is right."""
        name = USERS if table is None else table.name
        _, row = self.contents.rows[name][0]
        changed = {**row, column: value}
        raw = {key: msgspec.Raw(msgspec.json.encode(one)) for key, one in changed.items()}
        try:
            _arrival(self, name).ready(name, [raw])
        except UnfitFile as refusal:
            return refusal.message if f"Row 1 of {name} is not fit: " in refusal.message else None
        return None

    def refused_together(self, changes: Sequence[tuple[str, str]]) -> Sequence[str | None]:
        """What the import says of all rows after each of these changes to those that are right."""
        said: list[str | None] = []

        async def work() -> None:
            async with open_postern(self.place.settings) as postern, postern.foundation.unit_of_work() as uow:
                assert isinstance(uow, PostgresUnitOfWork)
                statements = uow.statements
                async with arriving(statements, means(postern), self.contents.head, terms()) as arrival:
                    for part, rows in self.contents.rows.items():
                        decoded = [msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) for raw, _row in rows]
                        await arrival.take(part, arrival.ready(part, decoded))
                    await arrival.know_people()
                    for _, change in changes:
                        await statements.tell("savepoint before")
                        await statements.tell(change)
                        said.append(await _refused(arrival))
                        await statements.tell("rollback to savepoint before")
                    assert await _refused(arrival) is None

        trio.run(work)
        return said


async def _refused(arrival: ArrivingOrganization) -> str | None:
    try:
        await arrival.check()
        await arrival.write(lambda _rows: None)
    except UnfitFile as refusal:
        return refusal.message
    return None


def _arrival(walked: Walked, name: str) -> ArrivingOrganization:
    tables = [table for table in walked.tables if table.name == name]
    # Nothing of this asks the database.
    return ArrivingOrganization(None, tables, _MEANS[0], walked.contents.head, terms())  # type: ignore[arg-type]


_MEANS: Final[list[ArrivalMeans]] = []


def means(postern: Postern) -> ArrivalMeans:
    foundation = postern.foundation
    return ArrivalMeans(
        foundation.keyring, foundation.email_syntax, foundation.public_url, postern.identity.profiles.is_zone, foundation.shipped_words
    )


def terms() -> ArrivalTerms:
    return ArrivalTerms("acme", _FREE, trusted=True, same_relying_party=True)  # type: ignore[arg-type]


_FREE: Final = "01900000-0000-7000-8000-000000000001"


@pytest.fixture(scope="session")
def walked(worker_id: str) -> Iterator[Walked]:
    for url in fresh_database(f"walked_here_{worker_id}"):
        for source in fresh_database(f"walked_there_{worker_id}"):
            with open_directory() as directory, open_directory() as elsewhere:
                here = MovingPlace(settings_for(url, directory, HERE, "new.example.org"), url, HERE)
                there = MovingPlace(settings_for(source, elsewhere, THERE, "old.example.org"), source, THERE)
                fill_source(there)
                _fill_more(there)
                key = here.receiving_key()
                file: Path = elsewhere / "acme.postern"
                there.export(file, key)
                yield Walked(here, trio.run(_tables, here), contents(file, here.receiving_secrets()))


def _fill_more(there: MovingPlace) -> None:
    """Values where the rows of others have none, so that a change of one is a change of one."""
    there.rows("update memberships set own_since = now() where user_id = %s", there.user(ADA))


async def _tables(here: MovingPlace) -> Sequence[MovedTable]:
    async with open_postern(here.settings) as postern, postern.foundation.unit_of_work() as uow:
        assert isinstance(uow, PostgresUnitOfWork)
        _MEANS[:] = [means(postern)]
        return await moved_tables(uow.statements)
