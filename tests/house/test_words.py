"""One word for one thing: what is called *told* is what an application learns about a person (docs/architecture.md, Words)."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.places import ROOT

_LAYERS: Final = ("core", "ports", "adapters", "actors", "entrypoints")
# About a claim, or about the people whom an application learns of; and what stands so in a table or a stored document.
TOLD: Final = {
    "core/domain/claims.py": {"ToldClaim", "groups_told", "rights_told", "service_told", "access_told", "_told"},
    "core/domain/federation/oauth/given_sessions.py": {"told"},
    "core/domain/federation/oauth/oidc.py": {"told_by"},
    "core/domain/federation/saml/sign_in.py": {"told", "told_by_assertion"},
    "core/domain/federation/token_preview.py": {"told_in"},
    "core/domain/federation/proxy_checks.py": {"LONGEST_TOLD", "MOST_TOLD", "told"},
    "core/domain/identity/sessions.py": {"told_at_login"},
    "core/domain/tenancy/hooks.py": {"told"},
    "core/usecases/tenancy/hook_asking.py": {"_told"},
    "core/domain/services/proxies.py": {"ToldHeader", "told_headers"},
    "core/domain/tenancy/teams.py": {"MOST_TOLD"},
    "core/usecases/federation/proxy_checks.py": {"told"},
    "adapters/crypto/tokens.py": {"TOLD_AGAIN_FOR"},
    # The column `join_requests.told_at`, and columns of statements.
    "core/domain/tenancy/join_requests.py": {"told_at"},
    "adapters/postgres/identity/accounts.py": {"told"},
    "adapters/postgres/tenancy/callers.py": {"told"},
    # What became of what an application was to learn.
    "core/domain/federation/signals.py": {"NO_LONGER_TOLD", "TOLD_WITH_ANOTHER"},
    # A member of the checks that a connection keeps.
    "core/domain/identity/upstream/connection_tests.py": {"told"},
}


def named(text: str) -> Iterator[str]:
    """The classes, functions, constants and fields of a file. What a function calls its own values, it says to nobody else."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name
                if isinstance(node, ast.ClassDef):
                    waiting.append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def told(text: str) -> set[str]:
    return {name for name in named(text) if "told" in name.lower().split("_") or name.lower().startswith(("told", "_told"))}


def test_told_is_what_an_application_learns_about_a_person() -> None:
    found = {
        str(file.relative_to(ROOT)): names
        for layer in _LAYERS
        for file in sorted((ROOT / layer).rglob("*.py"))
        if (names := told(file.read_text(encoding="utf-8")))
    }
    assert found == TOLD, "what an event says is its facts, what a provider says is stated, what a command says is said"


def test_names_are_found_wherever_others_see_them() -> None:
    text = "TOLD = 1\nclass ToldOnce:\n    told_at: int\n    def told(self):\n        told_local = 1\ndef bold(): ...\n"
    assert told(text) == {"TOLD", "ToldOnce", "told_at", "told"}
