"""Against Debian's slapd: sign-in names, answers to passwords, TLS in both forms, and what a test reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.domain.identity.upstream.ldap.answers import BindOutcome, LdapFailed, LdapFault, LdapStep, subject_of
from core.domain.identity.upstream.ldap.settings import LdapIdentity
from core.domain.secrets import Secret
from tests.adapters.ldap.reaching import NAMES, PROVIDER, directories, site
from tests.ldap.slapd import SUFFIX, Slapd
from tests.tools import needs, place_of

pytestmark = needs("slapd", "ldapmodify")
BASE = f"ou=people,{SUFFIX}"


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    folder: Path = tmp_path_factory.mktemp("slapd")
    started = Slapd.start(folder, place_of("slapd"))
    yield started
    started.stop()


async def outcome(slapd: Slapd, name: str, password: str) -> BindOutcome:
    at, asked = directories(), site(slapd.tls_port, ca=slapd.authority.pem, base_dn=BASE)
    found = await at.search(asked, name, NAMES)
    (entry,) = found.entries
    return (await at.prove(asked, found.host, entry.dn, Secret(password))).outcome


@pytest.mark.parametrize("name", ["ada", "ADA", "ada@example.org", "zoë", "ZOË"])
async def test_each_sign_in_attribute_finds_its_person(slapd: Slapd, name: str) -> None:
    found = await directories().search(site(slapd.tls_port, ca=slapd.authority.pem, base_dn=BASE), name, NAMES)
    assert [one.dn for one in found.entries] == [f"uid={'ada' if name.lower().startswith('ada') else 'zoë'},{BASE}"]
    assert len(subject_of(found.entries[0], LdapIdentity.ENTRY_UUID)) == 36


@pytest.mark.parametrize("name", ["*", "a*", "ada)(uid=*", "ada\\2a", "(uid=ada)", "\\00", "nobody", "ada,ou=people"])
async def test_nothing_that_somebody_types_is_a_part_of_a_filter(slapd: Slapd, name: str) -> None:
    found = await directories().search(site(slapd.tls_port, ca=slapd.authority.pem, base_dn=BASE), name, NAMES)
    assert found.entries == []


async def test_right_and_wrong_passwords_differ(slapd: Slapd) -> None:
    assert await outcome(slapd, "ada", "password of ada") is BindOutcome.RIGHT
    assert await outcome(slapd, "ada", "password of bob") is BindOutcome.WRONG


async def test_a_password_that_must_be_changed_or_is_locked_signs_nobody_in(slapd: Slapd) -> None:
    slapd.change(f"dn: uid=bob,{BASE}\nchangetype: modify\nreplace: pwdReset\npwdReset: TRUE\n")
    assert await outcome(slapd, "bob", "password of bob") is BindOutcome.MUST_CHANGE
    slapd.change(f"dn: uid=bob,{BASE}\nchangetype: modify\nreplace: pwdReset\npwdReset: FALSE\n")
    for _ in range(5):
        assert await outcome(slapd, "bob", "wrong") is BindOutcome.WRONG
    assert not (await outcome(slapd, "bob", "password of bob")).is_shown


async def test_start_tls_serves_as_well(slapd: Slapd) -> None:
    asked = site(slapd.plain_port, ca=slapd.authority.pem, start_tls=True, base_dn=BASE)
    found = await directories().search(asked, "ada", NAMES)
    assert len(found.entries) == 1
    assert (await directories().prove(asked, found.host, found.entries[0].dn, Secret("password of ada"))).outcome is BindOutcome.RIGHT


async def test_an_empty_base_is_the_directorys_own(slapd: Slapd) -> None:
    found = await directories().search(site(slapd.tls_port, ca=slapd.authority.pem, base_dn=""), "ada", NAMES)
    assert (found.base, len(found.entries)) == (SUFFIX, 1)


async def test_a_test_reads_people_and_lockout(slapd: Slapd) -> None:
    survey = await directories().survey(PROVIDER, site(slapd.tls_port, slapd.tls_port, ca=slapd.authority.pem, base_dn=BASE), NAMES)
    assert len(survey.people) == 3
    assert not survey.are_more
    assert survey.lockout is not None
    assert (survey.lockout.threshold, survey.lockout.seconds) == (5, 600)


@pytest.mark.parametrize(
    ("changes", "step", "fault"),
    [
        ({"password": "wrong"}, LdapStep.BIND, LdapFault.BIND_REFUSED),
        ({"base_dn": "ou=nobody,dc=example,dc=org"}, LdapStep.BASE, LdapFault.NO_BASE),
        ({"base_dn": "dc=elsewhere,dc=org"}, LdapStep.BASE, LdapFault.NO_BASE),
        ({"host": "dc2.example.org"}, LdapStep.CERTIFICATE, LdapFault.OTHER_HOST),
        ({"host": "192.0.2.1"}, LdapStep.CERTIFICATE, LdapFault.OTHER_HOST),
        ({"ca": ""}, LdapStep.CERTIFICATE, LdapFault.OTHER_AUTHORITY),
        ({"host": "nowhere.example.org"}, LdapStep.NAME, LdapFault.NO_NAME),
        ({"host": "forbidden.example.org"}, LdapStep.CONNECTION, LdapFault.NOT_ALLOWED),
    ],
)
async def test_each_failure_names_its_step(slapd: Slapd, changes: dict[str, str], step: LdapStep, fault: LdapFault) -> None:
    asked = site(slapd.tls_port, **{"ca": slapd.authority.pem, "base_dn": BASE, **changes})
    with pytest.raises(LdapFailed) as failed:
        await directories().search(asked, "ada", NAMES)
    assert (failed.value.step, failed.value.fault) == (step, fault)
