"""What a program does with the blocking client: a person founds an organization, and a management key of it works there."""

import sys

from postern_client import ApiError, Postern, errors
from postern_client.types import SignInRecord, TeamRecord

BASE_URL, EMAIL, PASSWORD = sys.argv[1:]


def token_of(email: str, password: str) -> str:
    with Postern(BASE_URL) as nobody:
        return nobody.sign_in(email=email, password=password).access_token


def found(postern: Postern) -> tuple[str, str]:
    """The organization's id, and a token for it."""
    made = postern.create_organization(slug="python", name="Python")
    if made.organization.status == "pending":
        postern.approve_organization(made.organization.id)
    return made.organization.id, made.access_token


def key_of(token: str) -> str:
    with Postern(BASE_URL, token=token) as owner:
        made = owner.create_management_key(
            "python", name="Walk", capabilities=["org.members.view", "org.members.manage", "audit_logs.view"], expires_in_days=1
        )
        return made.key


def work(postern: Postern, org_id: str) -> None:
    slugs = [f"team{number}" for number in range(5)]
    teams: list[TeamRecord] = [postern.create_team("python", slug=slug, name=slug.title()) for slug in slugs]
    assert {team.org_id for team in teams} == {org_id}
    assert sorted(team.slug for team in postern.list_teams("python")) == slugs
    changed = postern.change_team("python", "team0", name="The first")
    assert (changed.name, changed.role, changed.created_at) == ("The first", None, teams[0].created_at)
    assert changed.created_at.tzinfo is not None
    postern.delete_team("python", "team4")
    refusals(postern)
    pages(postern)


def refusals(postern: Postern) -> None:
    try:
        postern.create_team("python", slug="team0", name="Again")
    except errors.Conflict as refused:
        assert (refused.status, refused.code) == (409, "CONFLICT")
        assert refused.request_id
        assert refused.message
    else:
        raise AssertionError
    for slug, expected in (("nowhere", errors.ApiError), ("python", errors.NotFound)):
        try:
            postern.delete_team(slug, "team4")
        except ApiError as refused:
            assert isinstance(refused, expected)
        else:
            raise AssertionError


def pages(postern: Postern) -> None:
    entries = list(postern.iterate_audit_log("python", target_type="team", limit=2))
    assert len(entries) == 7, entries
    first = postern.list_audit_log("python", target_type="team", limit=2)
    assert (len(first.logs), first.pagination.has_next) == (2, True)
    assert [entry.id for entry in first.logs] == [entry.id for entry in entries[:2]]
    # Sign-ins go on after the last entry.
    sign_ins: list[SignInRecord] = list(postern.iterate_sign_ins("python", limit=1))
    assert all(one.success for one in sign_ins)
    assert [member.user.email for member in postern.iterate_members("python")] == [EMAIL]


person = token_of(EMAIL, PASSWORD)
with Postern(BASE_URL, token=lambda: person) as postern:
    assert postern.get_profile().email == EMAIL
    organization, in_organization = found(postern)
with Postern(BASE_URL, token=key_of(in_organization)) as program:
    work(program, organization)
with Postern(BASE_URL, token="pto_unknown") as stranger:
    try:
        stranger.list_teams("python")
    except errors.Unauthorized as refused:
        assert refused.status == 401
print("walked")
