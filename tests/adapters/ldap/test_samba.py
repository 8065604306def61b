"""Against Debian's Samba, an Active Directory: sign-ins, what it says of people who may not sign in, and a whole directory read."""

import os
from collections.abc import Iterator, Sequence

import pytest

from adapters.ldap.directories import TrioLdapDirectories
from adapters.ldap.reading import TrioLdapReading
from core.domain.identity.upstream.ldap.answers import BindOutcome, LdapFailed, LdapFault, LdapSite
from core.domain.identity.upstream.ldap.settings import NOTHING_DESCRIBED, LdapChange, LdapPreset
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapLockout, LdapMarks, LdapPerson
from core.domain.secrets import Secret
from core.frozen import replace
from tests.adapters.ldap.reaching import PROVIDER, directories_at
from tests.ldap.samba import ADDRESS, PASSWORD, PORT, READER, READER_PASSWORD, STAFF, USERS, Samba
from tests.tools import needs

pytestmark = [
    needs("samba", "samba-tool", "ldbmodify"),
    pytest.mark.skipif(os.geteuid() != 0, reason="Samba has the ports of LDAP, which only root may take"),
    pytest.mark.slow,
]
MANY = 200


@pytest.fixture(scope="module")
def samba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samba]:
    # The paths of sockets are short.
    started = Samba.start(tmp_path_factory.mktemp("ad"))
    try:
        started.add(*(f"person{number:03d}" for number in range(MANY)))
        started.add("ada", "bob", "carol", "dave", "eve", "frank", "grace")
        yield started
    finally:
        started.stop()


@pytest.fixture
def site(samba: Samba) -> LdapSite:
    change = LdapChange(
        hosts=(f"ldaps://dc1.example.org:{PORT}",),
        ca_certificates=samba.authority.pem,
        bind_dn=READER,
        ldap_preset=LdapPreset.SAMBA,
    )
    return LdapSite(change.applied(NOTHING_DESCRIBED), Secret(READER_PASSWORD))


def directories() -> TrioLdapDirectories:
    return directories_at(ADDRESS)


def reading() -> TrioLdapReading:
    return TrioLdapReading(directories())


async def outcome(site: LdapSite, name: str, password: str = PASSWORD) -> BindOutcome:
    found = await directories().search(site, name, ("objectGUID", "mail"))
    (entry,) = found.entries
    return (await directories().prove(site, found.host, entry.dn, Secret(password))).outcome


async def people(site: LdapSite, since: LdapMarks | None = None) -> dict[str, LdapPerson]:
    found: Sequence[LdapPerson] = [one async for page in reading().people(site, ("sAMAccountName", "mail"), since) for one in page]
    return {one.values["samaccountname"][0]: one for one in found}


async def groups(site: LdapSite) -> dict[str, LdapGroup]:
    return {one.name: one for one in await reading().groups(site)}


@pytest.mark.parametrize("name", ["ada", "ADA", "ada@example.org", "Ada.Mail@example.org"])
async def test_each_sign_in_attribute_finds_its_person(site: LdapSite, name: str) -> None:
    assert await outcome(site, name) is BindOutcome.RIGHT
    assert await outcome(site, name, "wrong") is BindOutcome.WRONG
    # So that the wrong ones of this test lock nobody.
    assert await outcome(site, name) is BindOutcome.RIGHT


async def test_what_it_says_of_a_right_password_is_understood(samba: Samba, site: LdapSite) -> None:
    samba.set("bob", userAccountControl="514")
    samba.set("carol", accountExpires="116444736000000000")
    samba.set("dave", pwdLastSet="0")
    expected = {"bob": BindOutcome.DISABLED, "carol": BindOutcome.ACCOUNT_EXPIRED, "dave": BindOutcome.MUST_CHANGE}
    for name, said in expected.items():
        assert await outcome(site, name) is said
        assert said.is_shown
        assert await outcome(site, name, "wrong") is BindOutcome.WRONG
    for _ in range(5):
        await outcome(site, "eve", "wrong")
    locked = await outcome(site, "eve")
    assert locked is BindOutcome.LOCKED
    assert not locked.is_shown
    # An administrator has disabled one of them. The others may sign in again some day.
    read = await people(site)
    assert [name for name in (*expected, "eve") if read[name].is_disabled] == ["bob"]


async def test_a_test_reads_people_and_the_lockout_of_the_domain(site: LdapSite) -> None:
    survey = await directories().survey(PROVIDER, site, ("objectGUID", "mail"))
    assert len(survey.people) >= MANY
    assert survey.lockout == LdapLockout(5, 1800)


async def test_who_moves_or_is_renamed_stays_the_same(samba: Samba, site: LdapSite) -> None:
    before = (await people(site))["frank"]
    samba.change(f"dn: CN=frank,{STAFF}\nchangetype: modrdn\nnewrdn: CN=Frank Moved\ndeleteoldrdn: 1\nnewsuperior: {USERS}\n")
    samba.change(f"dn: CN=Frank Moved,{USERS}\nchangetype: modify\nreplace: sAMAccountName\nsAMAccountName: francis\n")
    after = (await people(site))["francis"]
    assert (after.identity, after.dn) == (before.identity, f"CN=Frank Moved,{USERS}")
    assert await outcome(site, "francis") is BindOutcome.RIGHT


async def test_changes_alone_are_read_at_the_same_controller(samba: Samba, site: LdapSite) -> None:
    marks = await reading().marks(site)
    assert marks.controller is not None
    assert marks.usn is not None
    assert await people(site, marks) == {}
    samba.set("grace", telephoneNumber="42")
    assert list(await people(site, marks)) == ["grace"]
    assert len(await people(site, replace(marks, controller="another"))) >= MANY
    everybody = await people(site)
    assert {one async for page in reading().identities(site) for one in page} == {one.identity for one in everybody.values()}


async def test_groups_are_read_with_groups_in_them_and_first_groups(samba: Samba, site: LdapSite) -> None:
    def change(name: str, kind: str, member: str) -> None:
        samba.change(f"dn: CN={name},{STAFF}\nchangetype: modify\n{kind}: member\nmember: CN={member},{STAFF}\n")

    for name in ("Sales", "Europe"):
        samba.change(f"dn: CN={name},{STAFF}\nobjectClass: group\nsAMAccountName: {name}\n")
    change("Sales", "add", "ada")
    change("Europe", "add", "Sales")
    change("Sales", "add", "Europe")
    ada = (await people(site))["ada"].identity
    found = await groups(site)
    assert found["Europe"].members == found["Sales"].members == {ada}
    # Nobody is a `member` of their first group.
    assert len(found["Domain Users"].members) >= MANY
    assert ada in found["Users"].members
    samba.change(
        "\n\n".join(
            f"dn: CN=Sales,{STAFF}\nchangetype: modify\nadd: member\nmember: CN=person{number:03d},{STAFF}" for number in range(MANY)
        )
    )
    assert len((await groups(site))["Europe"].members) == MANY + 1
    change("Sales", "delete", "ada")
    assert ada not in (await groups(site))["Europe"].members
    below = await groups(replace(site, settings=replace(site.settings, base_dn=STAFF)))
    assert set(below) == {"Sales", "Europe"}


async def test_a_password_of_the_bind_account_that_is_wrong_reads_nobody(site: LdapSite) -> None:
    with pytest.raises(LdapFailed) as failed:
        await people(replace(site, password=Secret("wrong")))
    assert failed.value.fault is LdapFault.BIND_REFUSED
