"""No statement of ours needs more than PostgreSQL 14 has. A machine may have no server that is so old, so this is read, not run."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from adapters.postgres.migrate import OLDEST_SERVER
from tests.places import MIGRATIONS, REPLACEABLE, ROOT

# The functions of PostgreSQL 18's catalogue that the catalogue of 14.23 lacks, without those that only PostgreSQL's own programs call, and
# the functions of SQL/JSON, which are no functions of the catalogue.
FUNCTIONS: Final = frozenset((Path(__file__).parent / "newer_than_14.txt").read_text().split())
_CALLED: Final = re.compile(r"(?<![\w.'])(?:pg_catalog\.)?(\w+)\s*\(")
_COMMENT: Final = re.compile(r"--.*")
_SQL: Final = re.compile(r"\b(?:select|update|insert|from|create)\b|\(")
SYNTAX: Final[Mapping[str, str]] = {
    "merge": r"\bmerge\s+into\b",
    "distinct nulls in an index": r"\bnulls\s+not\s+distinct\b",
    "a view with its reader's rights": r"\bsecurity_invoker\b",
    "columns that a deleted row leaves empty": r"\bon\s+delete\s+set\s+(?:null|default)\s*\(",
    "a test for JSON": r"\bis\s+(?:not\s+)?json\b",
    "numbers in groups": r"(?<![\w'\"./-])\d+_\d+(?![\w'\"])",
    "numbers of another base": r"(?<![\w'\"])0[xob][0-9a-f]+",
    "the session's time zone": r"\bat\s+local\b",
    "rows of before and after": r"\breturning\s+(?:with\s*\(|old\.|new\.)",
    "virtual columns": r"\)\s*virtual\b",
    "periods": r"\bwithout\s+overlaps\b",
    "constraints that are not enforced": r"\bnot\s+enforced\b",
    "errors that a copy ignores": r"\bon_error\b",
}
_FORMS: Final = {what: re.compile(form, re.IGNORECASE) for what, form in SYNTAX.items()}


def house_files() -> Sequence[Path]:
    """The migrations, the views and functions, and every module that may talk to the database."""
    folders = (ROOT / "adapters" / "postgres", ROOT / "entrypoints")
    return sorted([*MIGRATIONS.glob("*.sql"), REPLACEABLE, *(file for folder in folders for file in folder.rglob("*.py"))])


def statements_of(file: Path) -> Iterator[str]:
    """The texts in which something newer stands."""
    text = file.read_text()
    # Few files have a word that looks like it, so few are parsed.
    if not newer(text):
        return
    if file.suffix == ".sql":
        yield _COMMENT.sub("", text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.search(node.value):
            yield _COMMENT.sub("", node.value)


def newer(text: str) -> list[str]:
    called = [name for name in _CALLED.findall(text) if name.lower() in FUNCTIONS]
    return [*called, *(what for what, form in _FORMS.items() if form.search(text))]


def test_no_statement_uses_what_postgresql_14_lacks() -> None:
    assert OLDEST_SERVER == 14
    files = house_files()
    assert len(files) > 500
    found = [(str(file.relative_to(ROOT)), used) for file in files for statement in statements_of(file) if (used := newer(statement))]
    assert found == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("select sum(hashbyteaextended(sha256(x), 0)) from t", ["hashbyteaextended"]),
        ("select pg_catalog.any_value (x) from t", ["any_value"]),
        ("merge into t using u on true when matched then delete", ["merge"]),
        ("create unique index i on t (a) nulls not distinct", ["distinct nulls in an index"]),
        ("update t set n = 1_000 returning old.n", ["numbers in groups", "rows of before and after"]),
        ("select json_value(x, '$') from t where x is json", ["json_value", "a test for JSON"]),
        ("select sha256(x), uuid_v7(y), a.any_value(z), 'any_value (' from f_2026_01 where n = '1_000'", []),
    ],
)
def test_what_is_newer_is_seen(statement: str, found: list[str]) -> None:
    assert newer(statement) == found
