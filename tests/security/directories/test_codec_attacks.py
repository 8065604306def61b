"""A directory that wants to hurt whoever asks it: by its bytes, by its pages, by its pace, and by where it sends us."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
import trio

from adapters.ldap import directories as adapter
from adapters.ldap.messages import SEQUENCE, encoded, integer, octets
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.ldap.answers import BindOutcome, LdapFailed, LdapFault, LdapStep
from core.domain.secrets import Secret
from tests.adapters.ldap.reaching import HOST, NAMES, PROVIDER, directories, site
from tests.ldap.authority import Authority
from tests.ldap.fake import BASE, FakeLdap, control, entry, result

AUTHORITY = Authority.make()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[FakeLdap]:
    with FakeLdap(AUTHORITY.server_context(tmp_path, HOST)) as running:
        running.add("ada")
        yield running


def searches(answer: Callable[[int], bytes]) -> Callable[[int, int, bytes], bytes | None]:
    """Answers searches in its own way, and everything else honestly."""
    return lambda number, operation, _: answer(number) if operation == 0x63 else None


async def fault(directory: FakeLdap, *, survey: bool = False, within: float = 5.0) -> LdapFailed:
    at, asked = directories(within), site(directory.port, ca=AUTHORITY.pem)
    with pytest.raises(LdapFailed) as failed:
        await (at.survey(PROVIDER, asked, NAMES) if survey else at.search(asked, "ada", NAMES))
    return failed.value


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"\x30\x84\x80\x00\x00\x00" + bytes(64), LdapFault.TOO_LONG),
        (b"\x30\x84\x3f\xff\xff\xff" + bytes(64), LdapFault.TOO_LONG),
        (b"\x30\x85\x01\x00\x00\x00\x00", LdapFault.MALFORMED),
        (b"\x30\x80" + bytes(64), LdapFault.MALFORMED),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", LdapFault.MALFORMED),
        (b"\x30" * 10_000, LdapFault.MALFORMED),
    ],
)
async def test_lengths_and_forms_that_are_none(directory: FakeLdap, said: bytes, expected: LdapFault) -> None:
    directory.answers = searches(lambda _: said)
    assert (await fault(directory)).fault is expected


async def test_ten_thousand_levels_are_never_entered(directory: FakeLdap) -> None:
    nested = b""
    for _ in range(10_000):
        nested = encoded(0xA0, nested)
    directory.answers = searches(
        lambda number: encoded(SEQUENCE, integer(number), encoded(0x64, octets(b"dc=x"), encoded(SEQUENCE, nested)))
    )
    assert (await fault(directory)).fault is LdapFault.MALFORMED


async def test_an_answer_of_a_gigabyte_ends_early(directory: FakeLdap) -> None:
    big = {"description": [bytes(1 << 20)]}
    directory.answers = searches(lambda number: entry(number, f"uid=ada,{BASE}", big) * 64)
    assert (await fault(directory, survey=True)).fault is LdapFault.TOO_LONG


@pytest.mark.parametrize("values", [[b"x" * 1_900_000], [b"x"] * 9_000])
async def test_an_answer_has_one_budget_over_all_pages(directory: FakeLdap, values: list[bytes]) -> None:
    """A page of a few entries fits; a hundred such pages do not, and no number of short values."""
    pages = iter(range(1_000_000))
    one = entry(1, f"uid=ada,{BASE}", {"description": values})

    def page(number: int) -> bytes:
        cookie = control(b"1.2.840.113556.1.4.319", encoded(SEQUENCE, integer(0), octets(str(next(pages)).encode())))
        return one.replace(integer(1), integer(number), 1) * 2 + result(0x65, number, controls=cookie)

    directory.answers = lambda number, operation, _: page(number) if operation == 0x63 else None
    assert (await fault(directory, survey=True)).fault is LdapFault.TOO_LONG
    assert 3 <= next(pages) < 25


async def test_ten_thousand_values_are_all_that_a_message_has(directory: FakeLdap) -> None:
    many = {f"attribute{at}": [b"x"] * 3_000 for at in range(4)}
    directory.answers = searches(lambda number: entry(number, f"uid=ada,{BASE}", many) + result(0x65, number))
    assert (await fault(directory)).fault is LdapFault.MALFORMED


async def test_a_connection_has_one_survey_at_a_time(directory: FakeLdap) -> None:
    at, asked, release = directories(), site(directory.port, ca=AUTHORITY.pem), threading.Event()

    def waits(_number: int, operation: int, _body: bytes) -> None:
        if operation == 0x63:
            release.wait(10)

    directory.answers = waits
    async with trio.open_nursery() as nursery:
        nursery.start_soon(at.survey, PROVIDER, asked, NAMES)
        while directory.binds == []:
            await trio.sleep(0.01)
        with pytest.raises(LdapFailed) as failed:
            await at.survey(PROVIDER, asked, NAMES)
        assert (failed.value.fault, failed.value.is_outage, directory.connections) == (LdapFault.SURVEYED, False, 1)
        release.set()
        assert (await at.survey(UpstreamProviderId(UUID(int=2)), asked, NAMES)).people
    assert (await at.survey(PROVIDER, asked, NAMES)).people


async def test_more_entries_than_were_asked_for_are_several_people(directory: FakeLdap) -> None:
    """A stranger may have typed what they have in common. Nobody reads on."""
    directory.answers = searches(lambda number: entry(number, f"uid=ada,{BASE}", {}) * 5000 + result(0x65, number))
    found = await directories().search(site(directory.port, ca=AUTHORITY.pem), "ada", NAMES)
    assert (len(found.entries), found.is_more) == (2, True)
    directory.answers = searches(lambda number: entry(number, f"uid=ada,{BASE}", {}) * 5000 + result(0x65, number))
    assert (await fault(directory, survey=True)).fault is LdapFault.TOO_LONG


async def test_what_breaks_off_behind_an_entry_is_no_outage(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "TALKED_WITHIN", 0.3)
    one = {"description": [b"x"]}
    directory.answers = searches(lambda number: entry(number, f"uid=ada,{BASE}", one))
    late = await fault(directory)
    assert (late.fault, late.is_outage) == (LdapFault.TOO_SLOW, False)
    directory.answers = searches(lambda _: b"\x30")
    slow = await fault(directory)
    assert (slow.fault, slow.is_outage) == (LdapFault.TOO_SLOW, True)


@pytest.mark.parametrize("operation", [0x60, 0x63])
async def test_who_says_busy_is_away(directory: FakeLdap, operation: int) -> None:
    directory.answers = lambda number, came, _: (
        result(operation + 1 if operation == 0x60 else 0x65, number, 52) if came == operation else None
    )
    busy = await fault(directory)
    assert (busy.fault, busy.is_outage) == (LdapFault.BUSY, True)


async def test_who_hangs_up_instead_of_tls_is_away(directory: FakeLdap) -> None:
    directory.is_away = True
    cut = await fault(directory)
    assert (cut.fault, cut.is_outage) == (LdapFault.CUT_OFF, True)


async def test_a_page_cookie_that_never_ends(directory: FakeLdap) -> None:
    counted = iter(range(1_000_000))

    def page(number: int) -> bytes:
        cookie = control(b"1.2.840.113556.1.4.319", encoded(SEQUENCE, integer(0), octets(str(next(counted)).encode())))
        return result(0x65, number, controls=cookie)

    directory.answers = searches(page)
    assert (await fault(directory, survey=True)).fault is LdapFault.TOO_LONG
    assert next(counted) < 20


async def test_an_answer_that_never_ends_ends_with_the_time(directory: FakeLdap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "TALKED_WITHIN", 0.3)
    directory.answers = searches(lambda _: b"\x30")
    assert (await fault(directory)).fault is LdapFault.TOO_SLOW


@pytest.mark.parametrize("step", [0x60, 0x63])
async def test_a_hang_up_at_any_step(directory: FakeLdap, step: int) -> None:
    notice = encoded(SEQUENCE, integer(0), encoded(0x78, integer(52, 0x0A), octets(b""), octets(b"")))
    directory.answers = lambda _, operation, __: notice if operation == step else None
    assert (await fault(directory)).fault is LdapFault.CUT_OFF


async def test_an_answer_to_another_request_counts_for_nothing(directory: FakeLdap) -> None:
    directory.answers = searches(lambda number: entry(number + 7, f"uid=ada,{BASE}", {}) + result(0x65, number + 7))
    assert (await fault(directory)).fault is LdapFault.MALFORMED


async def test_a_search_answered_by_a_bind_is_no_answer(directory: FakeLdap) -> None:
    directory.answers = searches(lambda number: result(0x61, number))
    assert (await fault(directory)).fault is LdapFault.MALFORMED


async def test_no_referral_and_no_reference_is_followed(directory: FakeLdap, tmp_path: Path) -> None:
    with FakeLdap(AUTHORITY.server_context(tmp_path, "dc2.example.org")) as elsewhere:
        address = octets(f"ldaps://dc2.example.org:{elsewhere.port}/".encode())

        def reference(number: int) -> bytes:
            return encoded(SEQUENCE, integer(number), encoded(0x73, address)) + result(0x65, number)

        directory.answers = searches(reference)
        found = await directories().search(site(directory.port, ca=AUTHORITY.pem), "ada", NAMES)
        assert found.entries == []
        directory.answers = searches(
            lambda number: encoded(
                SEQUENCE, integer(number), encoded(0x65, integer(10, 0x0A), octets(b""), octets(b""), encoded(0xA3, address))
            )
        )
        assert (await fault(directory)).fault is LdapFault.REFERRED
        assert elsewhere.connections == 0


async def test_references_without_end_are_too_many(directory: FakeLdap) -> None:
    one = octets(b"ldaps://dc2.example.org/" + bytes(1 << 20))
    directory.answers = searches(lambda number: encoded(SEQUENCE, integer(number), encoded(0x73, one)) * 64)
    assert (await fault(directory)).fault is LdapFault.TOO_LONG


async def test_bytes_behind_the_start_tls_answer_end_it(directory: FakeLdap) -> None:
    directory.in_clear = True
    asked = site(directory.port, ca=AUTHORITY.pem, start_tls=True)
    assert (await directories().search(asked, "ada", NAMES)).entries
    directory.binds.clear()
    directory.start_tls_with = result(0x61, 2)
    with pytest.raises(LdapFailed) as failed:
        await directories().search(asked, "ada", NAMES)
    assert (failed.value.step, failed.value.fault) == (LdapStep.START_TLS, LdapFault.BYTES_BEHIND)
    assert directory.binds == []


async def test_who_refuses_start_tls_gets_nothing(directory: FakeLdap) -> None:
    directory.in_clear = True
    directory.answers = lambda number, operation, _: result(0x78, number, 52) if operation == 0x77 else None
    with pytest.raises(LdapFailed) as failed:
        await directories().search(site(directory.port, ca=AUTHORITY.pem, start_tls=True), "ada", NAMES)
    assert failed.value.fault is LdapFault.START_TLS_REFUSED
    assert directory.binds == []


async def test_who_speaks_in_clear_where_tls_is_wanted_gets_nothing(directory: FakeLdap) -> None:
    directory.in_clear = True
    # Whoever does not understand the first bytes of TLS hangs up.
    assert (await fault(directory)).fault is LdapFault.CUT_OFF
    assert directory.binds == []


async def test_who_answers_tls_with_something_else_gets_nothing() -> None:
    def answer(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(65536)
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            accepted.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        with pytest.raises(LdapFailed) as failed:
            await directories().search(site(listener.getsockname()[1], ca=AUTHORITY.pem), "ada", NAMES)
    assert (failed.value.fault, failed.value.is_outage) == (LdapFault.NO_TLS, False)


@pytest.mark.parametrize(
    ("names", "expired", "other", "expected"),
    [
        (("dc2.example.org",), False, False, LdapFault.OTHER_HOST),
        (("*.org",), False, False, LdapFault.OTHER_HOST),
        ((HOST,), True, False, LdapFault.EXPIRED),
        ((HOST,), False, True, LdapFault.OTHER_AUTHORITY),
    ],
)
async def test_a_certificate_that_does_not_count_gets_nothing(
    tmp_path: Path, names: tuple[str, ...], expired: bool, other: bool, expected: LdapFault
) -> None:
    issuer = Authority.make() if other else AUTHORITY
    with FakeLdap(issuer.server_context(tmp_path, *names, expired=expired)) as hostile:
        hostile.add("ada")
        found = await fault(hostile)
        assert (found.step, found.fault) == (LdapStep.CERTIFICATE, expected)
        assert hostile.binds == []


async def test_a_ca_that_is_none_trusts_nobody(directory: FakeLdap) -> None:
    with pytest.raises(LdapFailed) as failed:
        await directories().search(site(directory.port, ca="no certificate"), "ada", NAMES)
    assert failed.value.fault is LdapFault.NO_AUTHORITY


async def test_a_bind_of_nobody_is_never_sent(directory: FakeLdap) -> None:
    """The directory answers a bind without a password, or without a name, with success."""
    asked = site(directory.port, ca=AUTHORITY.pem)
    for dn, password in (("", "x"), (f"uid=ada,{BASE}", "")):
        assert (await directories().prove(asked, asked.settings.hosts[0], dn, Secret(password))).outcome is BindOutcome.WRONG
    with pytest.raises(LdapFailed) as failed:
        await directories().search(site(directory.port, ca=AUTHORITY.pem, password=""), "ada", NAMES)
    assert failed.value.fault is LdapFault.NO_PASSWORD
    assert directory.binds == []


async def test_the_next_host_answers_within_the_time(directory: FakeLdap) -> None:
    with FakeLdap(directory.context) as dead:
        dead.is_away = True
        began = trio.current_time()
        found = await directories().search(site(dead.port, directory.port, ca=AUTHORITY.pem), "ada", NAMES)
        assert found.host.endswith(str(directory.port))
        assert trio.current_time() - began < 5
        await directories().look(site(dead.port, directory.port, ca=AUTHORITY.pem))
        with pytest.raises(LdapFailed):
            await directories().look(site(dead.port, dead.port, ca=AUTHORITY.pem))
