"""A directory that wants to hurt whoever reads all of it, or to have a part of it taken for the whole."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from adapters.ldap import connection
from adapters.ldap import groups as group_adapter
from adapters.ldap import reading as adapter
from adapters.ldap.messages import ENUMERATED, SEQUENCE, Elements, MessageBounds, encoded, integer, octets
from adapters.ldap.reading import TrioLdapReading
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault
from core.domain.identity.upstream.ldap.settings import LdapIdentity
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapPerson
from tests.adapters.ldap.reaching import HOST, directories, site
from tests.ldap.authority import Authority
from tests.ldap.fake import BASE, FakeLdap, control, entry, result

AUTHORITY = Authority.make()
PAGED = b"1.2.840.113556.1.4.319"
SID = bytes.fromhex("010500000000000515000000010000000200000003000000")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[FakeLdap]:
    with FakeLdap(AUTHORITY.server_context(tmp_path, HOST)) as running:
        running.add("ada")
        yield running


def reading() -> TrioLdapReading:
    return TrioLdapReading(directories())


async def people(directory: FakeLdap, **changes: LdapIdentity) -> Sequence[LdapPerson]:
    at = site(directory.port, ca=AUTHORITY.pem, **changes)
    return [one async for page in reading().people(at, ("mail", "uid"), None) for one in page]


async def fault(directory: FakeLdap) -> LdapFault:
    with pytest.raises(LdapFailed) as failed:
        await people(directory)
    return failed.value.fault


def searches(answer: Callable[[int], bytes | None]) -> Callable[[int, int, bytes], bytes | None]:
    return lambda number, operation, _: answer(number) if operation == 0x63 else None


def person(number: int, at: int, **more: Sequence[bytes]) -> bytes:
    return entry(number, f"uid=p{at},{BASE}", {"entryUUID": [f"{at:036d}".encode()], "mail": [b"p@example.org"], **more})


def page_end(number: int, cookie: bytes) -> bytes:
    return result(0x65, number, controls=control(PAGED, encoded(SEQUENCE, integer(0), octets(cookie))))


async def test_pages_that_all_have_one_cookie_end_with_the_people(directory: FakeLdap) -> None:
    """389 names the pages of one search so."""
    pages = iter(range(3))

    def page(number: int) -> bytes:
        at = next(pages)
        return person(number, at) + page_end(number, b"0" if at < 2 else b"")

    directory.answers = searches(page)
    assert [one.identity for one in await people(directory)] == [f"{at:036d}".encode() for at in range(3)]


@pytest.mark.parametrize("is_same", [True, False])
async def test_a_page_cookie_that_never_ends(directory: FakeLdap, is_same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_PAGES", 20)
    pages = iter(range(1_000_000))
    directory.answers = searches(lambda number: page_end(number, b"same" if is_same else str(next(pages)).encode()))
    assert await fault(directory) is LdapFault.TOO_LONG
    assert next(pages) < 30


async def test_a_cookie_of_a_megabyte_is_none(directory: FakeLdap) -> None:
    directory.answers = searches(lambda number: page_end(number, bytes(1 << 20)))
    assert await fault(directory) is LdapFault.TOO_LONG


async def test_people_without_end_are_too_many(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_PEOPLE", 1000)
    directory.answers = searches(lambda number: person(number, 1) * 1001 + result(0x65, number))
    assert await fault(directory) is LdapFault.TOO_LONG
    directory.answers = searches(lambda number: person(number, 1) * 1000 + result(0x65, number))
    # A directory that knows no pages is read as it comes.
    assert len(await people(directory)) == 1000


async def test_a_gigabyte_ends_early_and_never_stays_in_memory(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_BYTES", 8 << 20)
    directory.answers = searches(lambda number: person(number, 1, description=[bytes(1 << 20)]) * 20 + result(0x65, number))
    sizes: list[int] = []

    async def read() -> None:
        async for page in reading().people(site(directory.port, ca=AUTHORITY.pem), ("mail",), None):
            sizes.append(len(page))  # noqa: PERF401 - what had come before the failure is looked at

    with pytest.raises(LdapFailed) as failed:
        await read()
    assert failed.value.fault is LdapFault.TOO_LONG
    assert sizes == [1] * 7


async def test_references_without_end_are_too_many(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_BYTES", 1 << 20)
    one = octets(b"ldaps://dc2.example.org/")
    directory.answers = searches(lambda number: encoded(SEQUENCE, integer(number), encoded(0x73, one)) * 20_000)
    assert await fault(directory) is LdapFault.TOO_LONG


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"\x30\x84\x80\x00\x00\x00" + bytes(64), LdapFault.TOO_LONG),
        (b"\x30\x80" + bytes(64), LdapFault.MALFORMED),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", LdapFault.MALFORMED),
    ],
)
async def test_lengths_and_forms_that_are_none(directory: FakeLdap, said: bytes, expected: LdapFault) -> None:
    directory.answers = searches(lambda number: person(number, 1) + said)
    assert await fault(directory) is expected


@pytest.mark.parametrize("limit", ["_PIECE_WITHIN", "_READ_WITHIN"])
async def test_an_answer_that_never_ends_ends_with_the_time(directory: FakeLdap, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, limit, 0.3)
    directory.answers = searches(lambda number: person(number, 1) + b"\x30")
    assert await fault(directory) is LdapFault.TOO_SLOW


@pytest.mark.parametrize("code", [3, 4, 11])
async def test_a_directory_that_ends_early_has_not_told_all(directory: FakeLdap, code: int) -> None:
    directory.answers = searches(lambda number: person(number, 1) + result(0x65, number, code))
    assert await fault(directory) is LdapFault.CUT_SHORT


@pytest.mark.parametrize(("code", "expected"), [(10, LdapFault.REFERRED), (32, LdapFault.NO_BASE), (50, LdapFault.SEARCH_REFUSED)])
async def test_a_refusal_is_no_empty_directory(directory: FakeLdap, code: int, expected: LdapFault) -> None:
    directory.answers = searches(lambda number: result(0x65, number, code))
    assert await fault(directory) is expected


async def test_a_hang_up_between_pages_is_no_end(directory: FakeLdap) -> None:
    pages = iter(range(10))
    notice = encoded(SEQUENCE, integer(0), encoded(0x78, integer(52, 0x0A), octets(b""), octets(b"")))
    directory.answers = searches(lambda number: notice if next(pages) else person(number, 1) + page_end(number, b"more"))
    assert await fault(directory) is LdapFault.CUT_OFF


async def test_a_search_answered_by_a_bind_is_no_answer(directory: FakeLdap) -> None:
    directory.answers = searches(lambda number: result(0x61, number))
    assert await fault(directory) is LdapFault.MALFORMED


async def test_the_next_host_is_read_when_one_is_away(directory: FakeLdap) -> None:
    with FakeLdap(directory.context) as dead:
        dead.is_away = True
        at = site(dead.port, directory.port, ca=AUTHORITY.pem)
        assert [one async for page in reading().identities(at) for one in page] == [b"00000000-0000-4000-8000-000000000000"]


async def test_a_credential_that_nobody_asked_for_goes_nowhere(directory: FakeLdap) -> None:
    directory.answers = searches(lambda number: person(number, 1, userPassword=[b"hers"], uid=[b"p"]) + result(0x65, number))
    at = site(directory.port, ca=AUTHORITY.pem)
    (page,) = [page async for page in reading().people(at, ("uid", "userPassword", "userpassword;binary"), None)]
    assert [dict(one.values) for one in page] == [{"uid": ["p"]}]


async def test_two_people_of_one_identity_are_two(directory: FakeLdap) -> None:
    """What that means is the run's to say."""
    directory.answers = searches(lambda number: person(number, 1) + person(number, 1) + entry(number, "uid=x", {}) + result(0x65, number))
    assert len(await people(directory)) == 2


class Windows:
    """Answers as Active Directory does: marks, ranges of members, and a first group."""

    def __init__(self, controller: int = 1, usn: int = 41) -> None:
        self.controller, self.usn = controller, usn
        self.number = 3500
        self.step = 1500
        self.cheats: Callable[[int], str] | None = None
        self.asked: list[bytes] = []
        self.searches = 0

    def people(self, number: int) -> bytes:
        return b"".join(
            entry(
                number,
                f"CN=p{at},{BASE}",
                {"objectGUID": [at.to_bytes(16, "big")], "objectSid": [SID + at.to_bytes(4, "little")], "primaryGroupID": [b"513"]},
            )
            for at in range(self.number)
        )

    def groups(self, number: int, wanted: Sequence[str]) -> bytes:
        def one(name: str, rid: int, more: Mapping[str, Sequence[bytes]]) -> bytes:
            named = {"cn": [name.encode()], "objectGUID": [rid.to_bytes(16, "big")], "objectSid": [SID + rid.to_bytes(4, "little")]}
            return entry(number, f"CN={name},{BASE}", more if "member" in wanted else named)

        return one("Domain Users", 513, {}) + one("Sales", 20_001, {"member": [], **self.members(0)})

    def members(self, begins: int) -> dict[str, Sequence[bytes]]:
        ends = min(begins + self.step, self.number)
        last = "*" if ends == self.number else str(ends - 1)
        name = f"member;range={begins}-{last}" if self.cheats is None or begins == 0 else self.cheats(begins)
        return {name: [f"cn=P{at},{BASE}".encode() for at in range(begins, ends)]}

    def __call__(self, number: int, operation: int, body: bytes) -> bytes | None:  # noqa: PLR0911 - one for each search
        if operation != 0x63:
            return None
        self.searches += 1
        elements = Elements(body)
        base, _ = elements.text(), elements.number(ENUMERATED)
        elements.number(ENUMERATED), elements.number(), elements.number(), elements.take()
        self.asked.append(elements.take())
        listed, wanted = Elements(elements.take(SEQUENCE)), list[str]()
        while not listed.is_over:
            wanted.append(listed.text())
        done = result(0x65, number)
        if "dsServiceName" in wanted:
            root = {"dsServiceName": [b"CN=NTDS"], "highestCommittedUSN": [str(self.usn).encode()]}
            return entry(number, "", root) + done
        if base == "CN=NTDS":
            return entry(number, base, {"invocationId": [self.controller.to_bytes(16, "big")]}) + done
        if "namingContexts" in wanted:
            return entry(number, "", {"defaultNamingContext": [BASE.encode()]}) + done
        if wanted[0].startswith("member;range="):
            return entry(number, base, self.members(int(wanted[0].removeprefix("member;range=").removesuffix("-*")))) + done
        if wanted == ["1.1"]:
            return entry(number, base, {}) + done
        if "cn" in wanted or "member" in wanted:
            return self.groups(number, wanted) + done
        return self.people(number) + done


async def groups(directory: FakeLdap) -> dict[str, LdapGroup]:
    at = site(directory.port, ca=AUTHORITY.pem, identity_attribute=LdapIdentity.OBJECT_GUID)
    return {one.name: one for one in await reading().groups(at)}


async def test_ranges_of_members_are_read_to_the_last_and_first_groups_count(directory: FakeLdap) -> None:
    directory.answers = windows = Windows()
    found = await groups(directory)
    everybody = {at.to_bytes(16, "big") for at in range(windows.number)}
    assert found["Sales"].members == found["Domain Users"].members == everybody
    assert not found["Sales"].is_cut


@pytest.mark.parametrize(
    ("cheats", "expected"),
    [
        (lambda begins: f"member;range={begins}-{begins - 1}", LdapFault.MALFORMED),
        (lambda begins: f"member;range={begins}-{begins}", LdapFault.TOO_LONG),
    ],
)
async def test_ranges_that_never_end(
    directory: FakeLdap, cheats: Callable[[int], str], expected: LdapFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_adapter, "_MOST_RANGES", 20)
    directory.answers = windows = Windows()
    windows.cheats = cheats
    with pytest.raises(LdapFailed) as failed:
        await groups(directory)
    assert failed.value.fault is expected
    assert windows.searches < 40


async def test_changes_are_read_at_the_same_controller_alone(directory: FakeLdap) -> None:
    directory.answers = windows = Windows()
    at = site(directory.port, ca=AUTHORITY.pem, identity_attribute=LdapIdentity.OBJECT_GUID)
    marks = await reading().marks(at)
    assert (marks.usn, marks.modified) == (41, None)
    for controller, is_narrow in ((1, True), (2, False)):
        windows.controller = controller
        async for _ in reading().people(at, ("mail",), marks):
            pass
        assert (b"uSNChanged" in windows.asked[-1] and b"42" in windows.asked[-1]) is is_narrow


async def test_a_group_of_more_than_a_hundred_thousand_is_cut(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_adapter, "_LARGE", MessageBounds(24 << 20, 2000, cuts=True))
    directory.answers = windows = Windows()
    windows.step = windows.number
    found = await groups(directory)
    assert (len(found["Sales"].members), found["Sales"].is_cut) == (2000, True)


@pytest.mark.parametrize("bound", ["MOST_GROUPS", "MOST_MEMBERSHIPS", "_MOST_CHARACTERS"])
async def test_groups_and_memberships_have_bounds(directory: FakeLdap, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_adapter, bound, 1)
    directory.answers = Windows()
    with pytest.raises(LdapFailed) as failed:
        await groups(directory)
    assert failed.value.fault is LdapFault.TOO_LONG


async def test_ten_thousand_groups_in_each_other_end(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a group is looked at, the looks have a bound."""
    monkeypatch.setattr(group_adapter, "MOST_LOOKS", 1000)
    directory.answers = Windows()
    with pytest.raises(LdapFailed) as failed:
        await groups(directory)
    assert failed.value.fault is LdapFault.TOO_LONG
