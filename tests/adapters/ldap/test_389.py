"""Against Debian's 389 Directory Server: sign-ins, what it says of people who may not sign in, and a whole directory read."""

import os
from collections.abc import Iterator

import pytest

from adapters.ldap.reading import TrioLdapReading
from core.domain.identity.upstream.ldap.answers import BindOutcome, LdapFailed, LdapFault, LdapSite
from core.domain.identity.upstream.ldap.settings import LdapPreset
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapMarks, LdapPerson
from core.domain.secrets import Secret
from tests.adapters.ldap.reaching import PROVIDER, directories, site
from tests.ldap.directory389 import GROUPS, PASSWORD, PEOPLE, READER, READER_PASSWORD, SUFFIX, Directory389
from tests.tools import needs

pytestmark = [
    needs("ns-slapd", "dscreate", "ldapmodify"),
    pytest.mark.skipif(os.geteuid() != 0, reason="the tools of 389 keep an instance where only root may write"),
    pytest.mark.slow,
]
MANY = 1200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory389]:
    started = Directory389.start(tmp_path_factory.mktemp("389"))
    try:
        started.add(*(f"person{number:04d}" for number in range(MANY)))
        started.add("ada", "bob", "carol", "dave", "eve", "frank")
        yield started
    finally:
        started.stop()


@pytest.fixture
def at(server: Directory389) -> LdapSite:
    return site_of(server)


def site_of(server: Directory389, **changes: str) -> LdapSite:
    asked = {"bind_dn": READER, "base_dn": PEOPLE, "person_filter": "(objectClass=inetOrgPerson)", **changes}
    return site(
        server.tls_port,
        ca=server.authority,
        password=READER_PASSWORD,
        ldap_preset=LdapPreset.DIRECTORY_389,
        groups_attribute="memberOf",
        **asked,
    )


async def outcome(at: LdapSite, name: str, password: str = PASSWORD) -> BindOutcome:
    found = await directories().search(at, name, ("nsUniqueId", "mail"))
    (entry,) = found.entries
    return (await directories().prove(at, found.host, entry.dn, Secret(password))).outcome


async def people(at: LdapSite, since: LdapMarks | None = None) -> dict[str, LdapPerson]:
    found = [one async for page in TrioLdapReading(directories()).people(at, ("uid", "mail"), since) for one in page]
    return {one.values["uid"][0]: one for one in found}


async def groups(at: LdapSite) -> dict[str, LdapGroup]:
    return {one.name: one for one in await TrioLdapReading(directories()).groups(at)}


@pytest.mark.parametrize("name", ["ada", "ADA", "ada@example.org"])
async def test_each_sign_in_attribute_finds_its_person(at: LdapSite, name: str) -> None:
    assert await outcome(at, name) is BindOutcome.RIGHT
    assert await outcome(at, name, "wrong") is BindOutcome.WRONG
    assert await outcome(at, name) is BindOutcome.RIGHT


async def test_what_it_says_of_people_who_may_not_sign_in_is_understood(server: Directory389, at: LdapSite) -> None:
    server.set("bob", nsAccountLock="true")
    assert await outcome(at, "bob") not in {BindOutcome.RIGHT, BindOutcome.WRONG}
    server.configure(passwordMustChange="on")
    server.set("carol", userPassword="another password of hers")
    assert await outcome(at, "carol", "another password of hers") is BindOutcome.MUST_CHANGE
    server.configure(passwordMustChange="off")
    server.set("dave", passwordExpirationTime="20200101000000Z")
    assert await outcome(at, "dave") in {BindOutcome.PASSWORD_EXPIRED, BindOutcome.MUST_CHANGE}
    for _ in range(3):
        await outcome(at, "eve", "wrong")
    assert not (await outcome(at, "eve")).is_shown
    read = await people(at)
    assert [name for name in ("ada", "bob", "carol", "dave", "eve") if read[name].is_disabled] == ["bob"]


async def test_more_people_than_a_page_are_read_though_all_pages_have_one_cookie(at: LdapSite) -> None:
    assert len(await people(at)) == MANY + 6
    survey = await directories().survey(PROVIDER, at, ("nsUniqueId", "mail"))
    assert (len(survey.people), survey.are_more) == (1000, True)


async def test_changes_alone_are_read(server: Directory389, at: LdapSite) -> None:
    marks = await TrioLdapReading(directories()).marks(at)
    assert marks.modified is not None
    later = LdapMarks(None, None, str(int(marks.modified[:-1]) + 1) + "Z")
    assert await people(at, later) == {}
    server.change(f"dn: uid=frank,{PEOPLE}\nchangetype: modrdn\nnewrdn: uid=francis\ndeleteoldrdn: 1\n")
    changed = await people(at, marks)
    assert "francis" in changed
    assert changed["francis"].identity in {one.identity for one in (await people(at)).values()}


async def test_groups_are_read_with_groups_in_them(server: Directory389, at: LdapSite) -> None:
    def group(name: str, *members: str) -> str:
        listed = "".join(f"member: {one}\n" for one in members)
        return f"\ndn: cn={name},{GROUPS}\nchangetype: add\nobjectClass: groupOfNames\ncn: {name}\n{listed}"

    server.change(
        group("sales", f"uid=ada,{PEOPLE}", f"cn=europe,{GROUPS}")
        + group("europe", f"cn=sales,{GROUPS}", *(f"uid=person{number:04d},{PEOPLE}" for number in range(MANY)))
    )
    found = await groups(site_of(server, base_dn=SUFFIX))
    assert set(found) == {"sales", "europe"}
    assert found["sales"].members == found["europe"].members
    assert len(found["sales"].members) == MANY + 1
    server.change(f"dn: cn=sales,{GROUPS}\nchangetype: modify\ndelete: member\nmember: uid=ada,{PEOPLE}\n")
    assert len((await groups(site_of(server, base_dn=SUFFIX)))["sales"].members) == MANY
    assert await groups(at) == {}


async def test_a_part_of_the_people_is_never_taken_for_all(server: Directory389, at: LdapSite) -> None:
    limits = ("nsPagedSizeLimit", "nsSizeLimit")
    server.change(f"dn: {READER}\nchangetype: modify\n" + "".join(f"replace: {one}\n{one}: 200\n-\n" for one in limits))
    try:
        with pytest.raises(LdapFailed) as failed:
            await people(at)
        assert failed.value.fault is LdapFault.CUT_SHORT
    finally:
        server.change(f"dn: {READER}\nchangetype: modify\n" + "".join(f"delete: {one}\n-\n" for one in limits))
