"""`postern access`: its output and its exit status. Tests of the relations in PostgreSQL cover the data."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from adapters.crypto.key_ring import EncryptionKey
from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId, TermsId
from core.domain.identity.terms import PendingTerms
from core.domain.mail import Email
from core.domain.tenancy.organizations import Accessor, OrganizationStatus, Related
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import replace
from entrypoints.cli.access import lines, run, status
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed
from entrypoints.settings import read

AUDITOR = Accessor(
    Email("ada@example.org"),
    True,
    "acme",
    OrganizationStatus.ACTIVE,
    "auditor",
    [Related("holder", "auditor"), Related("audit_logs.view", "auditor")],
)
MEMBER = replace(AUDITOR, role="member", related=[Related("member")])
NOBODY = replace(AUDITOR, role="", related=[])


def test_a_holder_of_an_own_role_is_explained_by_that_role() -> None:
    assert lines(AUDITOR) == [
        "ada@example.org is auditor in acme",
        "relation    user ada@example.org is holder of role auditor",
        "relation    holders of role auditor have audit_logs.view in organization acme",
        "capability  audit_logs.view        as holder of auditor",
    ]


def test_a_built_in_role_is_explained_by_itself() -> None:
    assert lines(MEMBER) == [
        "ada@example.org is member in acme",
        "relation    user ada@example.org is member of organization acme",
        *(f"capability  {one:<22} as member" for one in Capability if one in BuiltInRole.MEMBER.capabilities),
    ]


def test_a_question_for_one_capability_is_answered_for_that_one() -> None:
    assert lines(MEMBER, Capability.SERVICES_VIEW)[-1] == "capability  services.view          as member"
    assert lines(MEMBER, Capability.BILLING_MANAGE)[-1] == "capability  billing.manage         not held"
    assert len(lines(MEMBER, Capability.SERVICES_VIEW)) == 3


def test_a_second_factor_that_is_missing_is_said_before_and_after_it_is_due() -> None:
    due = datetime(2026, 11, 20, 23, 12, tzinfo=UTC)
    said = "The organization requires MFA, and the account has not set it up: it {} due at 2026-11-20 23:12 UTC."
    waiting = replace(MEMBER, second_factor_due=due)
    assert (lines(waiting)[1], status(waiting, None)) == (said.format("is"), OK)
    owing = replace(waiting, owes_second_factor=True)
    assert (lines(owing)[1], status(owing, None)) == (said.format("was"), FAILURE)


def test_terms_that_were_not_accepted_are_said_before_and_after_they_are_due() -> None:
    due, nobodys = datetime(2026, 11, 20, 23, 12, tzinfo=UTC), TermsId(UUID(int=1))
    acmes = PendingTerms(
        id=nobodys,
        organization=OrganizationId(UUID(int=2)),
        organization_slug="acme",
        organization_name="Acme",
        version="3",
        address="https://acme.example/terms",
        due_at=due,
        is_over=False,
    )
    waiting = replace(MEMBER, terms=[acmes])
    said = "The {} requires people to accept its terms, version 3, and the person has not: it {} due at 2026-11-20 23:12 UTC."
    assert (lines(waiting)[1], status(waiting, None)) == (said.format("organization", "is"), OK)
    installations = replace(acmes, organization=None, organization_slug="", organization_name="", is_over=True)
    owing = replace(MEMBER, terms=[installations])
    assert (lines(owing)[1], status(owing, None)) == (said.format("installation", "was"), FAILURE)


def test_what_keeps_somebody_out_is_said() -> None:
    assert lines(NOBODY) == ["ada@example.org is not a member of acme"]
    out = lines(replace(MEMBER, is_active=False, organization_status=OrganizationStatus.SUSPENDED))
    assert out[1:3] == [
        "The account is deactivated, so it is refused everywhere.",
        "The organization is suspended: its members can see that it exists, but not its contents.",
    ]


@pytest.mark.parametrize(
    ("seen", "capability", "expected"),
    [
        (MEMBER, None, OK),
        (MEMBER, Capability.SERVICES_VIEW, OK),
        (MEMBER, Capability.BILLING_MANAGE, FAILURE),
        (NOBODY, None, FAILURE),
        (replace(MEMBER, is_active=False), None, FAILURE),
        (replace(MEMBER, organization_status=OrganizationStatus.PENDING), Capability.SERVICES_VIEW, FAILURE),
    ],
)
def test_the_exit_status_is_the_answer(seen: Accessor, capability: Capability | None, expected: int) -> None:
    assert status(seen, capability) == expected


def test_a_word_that_names_no_capability_is_refused_before_anything_else() -> None:
    arguments = argparse.Namespace(user="ada@example.org", organization="acme", capability="everything")
    with pytest.raises(StartFailed, match=r"audit_logs\.view") as refused:
        run(arguments, read({}))
    assert refused.value.status == USAGE


_FILL = b"""
    insert into users (id, email, email_key) values (gen_random_uuid(), 'ada@example.org', 'ada@example.org');
    insert into organizations (id, slug, name, status, created_at, updated_at)
    values (gen_random_uuid(), 'acme', 'Acme', 'active', now(), now());
    insert into memberships (id, org_id, user_id, role, created_at)
    select gen_random_uuid(), organizations.id, users.id, 'member', now() from organizations, users;
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, 'member', 'organization', org_id from memberships;
"""


def test_it_answers_from_the_database(emptied_database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(emptied_database_url, autocommit=True) as connection:
        connection.execute(_FILL)
    settings = read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )

    def asked(user: str, organization: str, capability: str | None = None) -> int:
        return run(argparse.Namespace(user=user, organization=organization, capability=capability, service=None, json=False), settings)

    assert asked("ADA@example.org", "acme") == OK
    assert capsys.readouterr().out.splitlines() == lines(MEMBER)
    assert asked("ada@example.org", "acme", "services.view") == OK
    assert asked("ada@example.org", "acme", "billing.manage") == FAILURE
    for user, organization in (("bob@example.org", "acme"), ("ada@example.org", "globex")):
        with pytest.raises(NotFound, match=organization):
            asked(user, organization)
