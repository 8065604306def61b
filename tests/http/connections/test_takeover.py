"""Whom a directory may sign in: an organization's own provider vouches for the addresses of its proved domains, and never for platform
owners, whichever protocol it speaks.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from core.domain.identifiers import UserId
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.connections.scene import ConnectionScene
from tests.http.people import Person

IN, CREATED, CODE, REFUSED = "signed in", "created", "asked for the code", "refused"
OURS, ELSEWHERE = "example.org", "elsewhere.example"

Make = Callable[[ConnectionScene, str], Person | None]


class Vouching(NamedTuple):
    name: str
    domain: str
    outcome: str
    make: Make


def nobody(_house: ConnectionScene, _email: str) -> None:
    return None


def somebody(scene: ConnectionScene, email: str) -> Person:
    return scene.verified(email)


def member(scene: ConnectionScene, email: str) -> Person:
    person = scene.verified(email)
    scene.tenants.join(person, scene.acme)
    return person


def of_another_tenant(scene: ConnectionScene, email: str) -> Person:
    person = scene.verified(email)
    scene.tenants.join(person, scene.another)
    return person


def unproved(scene: ConnectionScene, email: str) -> Person:
    person = scene.verified(email)
    scene.people.change("update users set email_verified_at = null where id = %s", person.user)
    return person


def deactivated(scene: ConnectionScene, email: str) -> Person:
    person = scene.verified(email)
    scene.people.change("update users set deactivated_at = now() where id = %s", person.user)
    return person


def platform_owner(scene: ConnectionScene, email: str) -> Person:
    person = scene.verified(email)
    scene.people.change("update users set is_platform_owner = true where id = %s", person.user)
    return person


def with_second_factor(scene: ConnectionScene, email: str) -> Person:
    person = scene.verified(email)
    scene.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", person.user
    )
    return person


CASES: Final = (
    Vouching("nobody, in the domain", OURS, CREATED, nobody),
    Vouching("nobody, outside of it", ELSEWHERE, REFUSED, nobody),
    Vouching("somebody, in the domain", OURS, IN, somebody),
    Vouching("somebody, outside of it", ELSEWHERE, REFUSED, somebody),
    Vouching("a member, in the domain", OURS, IN, member),
    Vouching("a member, outside of it", ELSEWHERE, REFUSED, member),
    Vouching("a person of another tenant, in the domain", OURS, IN, of_another_tenant),
    Vouching("a person of another tenant, outside of it", ELSEWHERE, REFUSED, of_another_tenant),
    Vouching("an address that nobody has proved, in the domain", OURS, IN, unproved),
    Vouching("an address that nobody has proved, outside of it", ELSEWHERE, REFUSED, unproved),
    Vouching("a deactivated account", OURS, REFUSED, deactivated),
    Vouching("a platform owner, in the domain", OURS, REFUSED, platform_owner),
    Vouching("a platform owner, outside of it", ELSEWHERE, REFUSED, platform_owner),
    Vouching("somebody with a second factor", OURS, CODE, with_second_factor),
)


async def test_directories_vouch_for_their_proved_domains_alone_by_either_protocol(scene: ConnectionScene) -> None:
    scene.another = scene.tenants.add("globex")
    saml = await scene.active(domain=OURS)
    oidc = await scene.own_provider(domain="")
    for kind, provider in (("saml", saml), ("oidc", oidc)):
        for number, case in enumerate(CASES):
            email = f"{kind}-{number}@{case.domain}"
            person = case.make(scene, email)
            tabs = scene.browser()
            answer = await arrive(scene, tabs, kind, provider, email, f"{kind}-{number}")
            told = await outcome(scene, tabs, answer, person, email)
            assert told == case.outcome, (kind, case.name, answer.status, answer.body)
    # An identity that is connected counts as long as the account's own address is in the domain, and its person no platform owner.
    for kind, provider in (("saml", saml), ("oidc", oidc)):
        number, email = 2, f"{kind}-2@{OURS}"
        for change in ("is_platform_owner = true", f"is_platform_owner = false, email = 'moved-{kind}@{ELSEWHERE}'"):
            scene.people.change(f"update users set {change} where email = %s", email)
            tabs = scene.browser()
            await arrive(scene, tabs, kind, provider, email, f"{kind}-{number}")
            assert await scene.who(tabs) is None, (kind, change)


async def arrive(scene: ConnectionScene, tabs: Tabs, kind: str, provider: str, email: str, subject: str) -> Received:
    if kind == "saml":
        scene.directory.subject, scene.directory.email = subject, email
        return await scene.arrive(tabs, provider)
    scene.sits(email, word="own", sub=subject)
    return await scene.go(tabs, "?org=acme", word=provider)


async def outcome(scene: ConnectionScene, tabs: Tabs, answer: Received, person: Person | None, email: str) -> str:
    who = await scene.who(tabs)
    if who is None:
        return CODE if "second-factor" in (answer.header("location") or "") else REFUSED
    (account,) = scene.people.rows("select id, email_verified_at, address_vouched_by from users where email = %s", email)
    assert who == UserId(account["id"])
    # An own provider proves nothing: the address of a new account, or of one that nobody has proved, is vouched for.
    assert (account["email_verified_at"] is None) == (account["address_vouched_by"] is not None)
    if person is None:
        assert account["address_vouched_by"] is not None
        return CREATED
    assert who == person.user
    return IN
