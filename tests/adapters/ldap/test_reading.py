"""A whole directory, read from Debian's slapd: people, changes, groups, and what 20 000 people cost."""

import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from adapters.ldap.reading import TrioLdapReading
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault, LdapSite, LdapStep
from core.domain.identity.upstream.ldap.settings import LdapIdentity
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapMarks, LdapPerson
from tests.adapters.ldap.reaching import directories, site
from tests.ldap.slapd import READER, SUFFIX, Slapd, person
from tests.tools import needs, place_of

pytestmark = needs("slapd", "ldapmodify")
MANY = 20_000
PEOPLE = f"ou=people,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
NAMES = ("mail", "cn", "userPassword", "memberOf", "uid", "sn", "givenName")


def group(name: str, *members: str, kind: str = "groupOfNames", by: str = "member") -> str:
    listed = "".join(f"{by}: {one}\n" for one in members)
    return f"\ndn: cn={name},{GROUPS}\nobjectClass: {kind}\ncn: {name}\n{listed}"


def uid(name: str) -> str:
    return f"uid={name},{PEOPLE}"


TREE = (
    f"\ndn: {GROUPS}\nobjectClass: organizationalUnit\nou: groups\n"
    + group("sales", uid("ada"), f"CN=Europe , {GROUPS}", uid("nobody"))
    + group("europe", uid("bob").replace("uid", "UID"), f"cn=sales,{GROUPS}")
    + group("unique", uid("zoë"), kind="groupOfUniqueNames", by="uniqueMember")
    + group("everybody", *(uid(f"person{number:05d}") for number in range(MANY)))
    + "".join(person(f"person{number:05d}") for number in range(MANY))
)


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    folder: Path = tmp_path_factory.mktemp("slapd")
    started = Slapd.start(folder, place_of("slapd"), more=f'limits dn.exact="{READER}" size=unlimited', entries=TREE)
    yield started
    started.stop()


def reading() -> TrioLdapReading:
    return TrioLdapReading(directories())


def people_of(slapd: Slapd, **changes: str) -> LdapSite:
    asked = {"base_dn": PEOPLE, "person_filter": "(objectClass=inetOrgPerson)", **changes}
    return site(slapd.tls_port, ca=slapd.authority.pem, **asked)


async def people(at: LdapSite, since: LdapMarks | None = None) -> Sequence[LdapPerson]:
    return [one async for page in reading().people(at, NAMES, since) for one in page]


async def groups(at: LdapSite) -> dict[str, LdapGroup]:
    return {one.name: one for one in await reading().groups(at)}


async def test_everybody_comes_once_with_what_was_asked_for_and_no_credential(slapd: Slapd) -> None:
    at = people_of(slapd)
    found = await people(at)
    assert len({one.identity for one in found}) == len(found) == MANY + 3
    assert {one async for page in reading().identities(at) for one in page} == {one.identity for one in found}
    (found_zoe,) = [one for one in found if one.dn == uid("zoë")]
    assert found_zoe.values == {"mail": ["zoë@example.org"], "cn": ["zoë"], "uid": ["zoë"], "sn": ["zoë"]}


async def test_a_few_come_at_once_so_that_nobody_waits_for_a_page(slapd: Slapd) -> None:
    sizes = [len(page) async for page in reading().identities(people_of(slapd))]
    assert max(sizes) == 50
    assert len(sizes) == 401


async def test_changes_alone_are_read_and_who_is_disabled_says_so(slapd: Slapd) -> None:
    at = people_of(slapd)
    marks = await reading().marks(at)
    assert (marks.controller, marks.usn) == (None, None)
    assert marks.modified is not None
    later = LdapMarks(None, None, str(int(marks.modified[:-1]) + 1) + "Z")
    assert await people(at, later) == []
    slapd.change(f"dn: {uid('bob')}\nchangetype: modify\nadd: pwdAccountLockedTime\npwdAccountLockedTime: 000001010000Z\n")
    assert [one.is_disabled for one in await people(at) if one.dn == uid("bob")] == [True]
    found = {one.dn: one.is_disabled for one in await people(at, marks)}
    assert found[uid("bob")]
    # What was changed within the second of the marks comes again.
    assert len(found) <= MANY + 3
    slapd.change(f"dn: {uid('bob')}\nchangetype: modify\ndelete: pwdAccountLockedTime\n")


async def test_groups_are_walked_through_groups_that_stand_in_a_circle(slapd: Slapd) -> None:
    found = await groups(people_of(slapd, base_dn=SUFFIX))
    by_dn = {one.dn: one.identity for one in await people(people_of(slapd))}
    assert set(found) == {"sales", "europe", "unique", "everybody"}
    assert found["sales"].members == found["europe"].members == {by_dn[uid("ada")], by_dn[uid("bob")]}
    assert found["unique"].members == {by_dn[uid("zoë")]}
    assert (len(found["everybody"].members), found["everybody"].is_cut) == (MANY, False)
    assert len({one.identity for one in found.values()}) == 4


async def test_groups_outside_the_base_are_none_of_it_unless_people_name_them(slapd: Slapd) -> None:
    assert await groups(people_of(slapd)) == {}
    assert await groups(people_of(slapd, base_dn=SUFFIX, groups_attribute="")) == {}
    slapd.change(f"dn: {uid('ada')}\nchangetype: modify\nadd: seeAlso\nseeAlso: cn=unique,{GROUPS}\nseeAlso: cn=gone,{GROUPS}\n")
    found = await groups(people_of(slapd, groups_attribute="seeAlso"))
    assert set(found) == {"unique"}
    assert len(found["unique"].members) == 2


async def test_a_part_of_the_people_is_never_taken_for_all(tmp_path: Path) -> None:
    """OpenLDAP gives an account 500 entries unless somebody raises its limit, also in pages."""
    small = Slapd.start(tmp_path, place_of("slapd"), entries="".join(person(f"person{number:05d}") for number in range(600)))
    try:
        with pytest.raises(LdapFailed) as failed:
            await people(people_of(small))
    finally:
        small.stop()
    assert (failed.value.step, failed.value.fault) == (LdapStep.FILTER, LdapFault.CUT_SHORT)
    assert not failed.value.is_outage


async def test_an_identity_that_nobody_shows_is_no_empty_directory(slapd: Slapd) -> None:
    at = people_of(slapd, identity_attribute=LdapIdentity.NS_UNIQUE_ID)
    with pytest.raises(LdapFailed) as failed:
        await people(at)
    assert (failed.value.step, failed.value.fault) == (LdapStep.IDENTITY, LdapFault.NO_IDENTITY)
    with pytest.raises(LdapFailed):
        await anext(reading().identities(at))


async def test_whoever_stops_early_leaves_no_connection(slapd: Slapd) -> None:
    async for page in reading().identities(people_of(slapd)):
        assert page
        break
    assert await people(people_of(slapd, person_filter="(uid=ada)"))


async def seconds_for(at: LdapSite) -> float:
    """The processor time of one reading of all these people."""
    began = time.process_time()
    async for _ in reading().people(at, NAMES, None):
        pass
    return time.process_time() - began


async def test_twenty_thousand_people_cost_as_much_each_as_a_thousand_and_no_memory(slapd: Slapd) -> None:
    """What a person costs does not grow with the directory. How many seconds that is, a bench says."""
    at = people_of(slapd, base_dn=SUFFIX)
    await reading().marks(at)
    await reading().groups(at)
    few = people_of(slapd, base_dn=SUFFIX, person_filter="(uid=person00*)")
    # The dearest of three, since other processes make one dearer than another.
    dearest = max([await seconds_for(few) for _ in range(3)])
    assert await seconds_for(at) < 2 * (MANY / 1_000) * dearest
    tracemalloc.start()
    try:
        async for _ in reading().people(at, NAMES, None):
            pass
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
