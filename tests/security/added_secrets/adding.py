"""A plugin for a run of tests: a connection, a custom provider and a mail server have one more field, `probe_secret`, with a column.

The field is added to the source of the class before anything imports it, so everything that is derived from the class has it: columns,
statements, records, events and documents. The run fails when the secret is in a response, in the log, or in a row of another table, which
is where events, audit entries, webhook deliveries and jobs are. It also fails when an endpoint of these nouns has not answered with
success: a new endpoint owes a test here.

Files with which an organization moves, and backups, have whole rows, and are for operators.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

FIELD: Final = "probe_secret"
CLASSES: Final = {
    ("core.domain.tenancy.upstream_providers", "UpstreamProvider"): "upstream_providers",
    ("core.domain.identity.upstream.further", "FurtherProvider"): "further_providers",
    ("core.domain.tenancy.mail_servers", "MailServer"): "mail_servers",
}
_MODULES: Final = {module for module, _ in CLASSES}
# Runs of a directory have routes of another noun.
_PATHS: Final = re.compile(
    r"/api/organizations/\{org_slug\}/(?:smtp|upstream-providers)(?!.*/runs)|/api/platform/provider|/saml/sp/\{connection_id\}$"
    r"|/api/(?:organizations/\{org_slug\}|platform)/(?:configuration|audit-log)|/api/privacy/export"
)


def secret(table: str) -> str:
    return f"probe-secret-of-{table}"


SECRETS: Final = tuple(secret(table) for table in CLASSES.values())
# As text, and as the bytes of a column.
_SHOWN: Final = sql.Literal(f"probe-secret-of-|{b'probe-secret-of-'.hex()}")


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and (table := CLASSES.get((fullname, node.name))) is not None:
                node.body += ast.parse(f"{FIELD}: str = {secret(table)!r}").body
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin)
        return spec


assert not _MODULES & sys.modules.keys(), "the classes are imported already"
sys.meta_path.insert(0, _Finder())

_owed: Final[dict[str, re.Pattern[str]]] = {}
_answers: Final = [0]


def pytest_sessionstart() -> None:
    """Everything here is imported by now, with the field."""
    _require_fields()
    _add_columns()
    _watch_log()
    _watch_answers()


def _require_fields() -> None:
    for module, name in CLASSES:
        assert FIELD in getattr(sys.modules[module], name).__struct_fields__, name


def _add_columns() -> None:
    conftest: Any = sys.modules["tests.conftest"]
    fresh = conftest._fresh

    def with_columns(name: str, template: str) -> Iterator[str]:
        # The run that has started this one has databases of the same names.
        for url in fresh(f"{os.environ['TESTS_ADDED_SECRETS']}_{name}", template):
            with psycopg.connect(url, autocommit=True) as connection:
                for table in CLASSES.values():
                    added = sql.SQL("alter table {} add column {} text not null default {}")
                    connection.execute(added.format(sql.Identifier(table), sql.Identifier(FIELD), sql.Literal(secret(table))))
            yield url

    conftest._fresh = with_columns


def _watch_log() -> None:
    captured: Any = sys.modules["tests.conftest"].CapturedLog
    begin = captured.__init__

    def remembering(self: Any) -> None:
        begin(self)
        self.remember(*SECRETS)

    captured.__init__ = remembering


def _watch_answers() -> None:
    # Not before the classes have their fields.
    from entrypoints.http.routes import ROUTES  # noqa: PLC0415
    from tests.http.client import Client  # noqa: PLC0415

    for endpoint in ROUTES:
        if _PATHS.match(endpoint.path):
            _owed[f"{endpoint.method} {endpoint.path}"] = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(endpoint.path)))
    exchange = Client.exchange

    async def watched(self: Any, method: str, target: str, headers: Any, pieces: Any) -> Any:
        answer = await exchange(self, method, target, headers, pieces)
        shown = [one for one in SECRETS if one in repr(answer.headers) or one.encode() in answer.body]
        assert not shown, f"{method} {target} shows {shown}"
        _answers[0] += 1
        if answer.status < 400:
            for name in [
                name for name, path in _owed.items() if name.startswith(f"{method} ") and path.fullmatch(target.partition("?")[0])
            ]:
                del _owed[name]
        return answer

    Client.exchange = watched  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Function) -> Iterator[None]:
    """Looks at the tables before the fixtures empty them."""
    try:
        if url := item.funcargs.get("database_url"):
            _look_at_tables(str(url))
    finally:
        yield


def _look_at_tables(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        tables = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()]
        row = "select {literal} as name, row::text as row from {name} as row"
        rows = [sql.SQL(row).format(literal=sql.Literal(one), name=sql.Identifier(one)) for one in tables if one not in CLASSES.values()]
        found = connection.execute(sql.SQL("select * from ({}) as rows where row ~ {}").format(sql.SQL(" union all ").join(rows), _SHOWN))
        assert not (shown := found.fetchall()), f"rows of other tables show it: {shown}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _owed or not _answers[0]:
        session.config.get_terminal_writer().line(f"\nof {_answers[0]} answers, none of success: {sorted(_owed)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
