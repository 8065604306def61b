"""`/dev/mail` answers people who try Postern out on this machine, and nobody else."""

import shutil
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.daemon import http_settings
from entrypoints.http.application import build_application
from entrypoints.http.pages.development import mail_pages_directory, parts
from entrypoints.settings import Settings, read
from ops.browser.page_reader import PageReader
from tests.http.client import Client, Pairs, Received
from tests.http.conftest import SETTINGS

LIST = "/dev/mail"
OURS = (("host", "127.0.0.1:8000"),)
Build = Callable[..., Client]


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all tests: an application keeps its routes by this name, and making them takes 900 ms."""
    return tmp_path_factory.mktemp("mails") / "mail"


@pytest.fixture
def folder(one_folder: Path) -> Iterator[Path]:
    one_folder.mkdir()
    yield one_folder
    shutil.rmtree(one_folder, ignore_errors=True)


def write(folder: Path, name: str, subject: str = "Confirm", text: str = "x", to: str = "ada@example.org") -> None:
    (folder / f"{name}.eml").write_text(f"To: {to}\nSubject: {subject}\nDate: Sun, 01 Mar 2026 12:30:00 +0000\n\n{text}")


@pytest.fixture
def build(lonely_postern: Postern, folder: Path) -> Build:
    def build(address: str = "127.0.0.1") -> Client:
        return Client(build_application(lonely_postern, replace(SETTINGS, mail_directory=folder)), address)

    return build


def is_absent(answer: Received) -> bool:
    return answer.status == 404 and answer.error_code == "NOT_FOUND"


async def test_the_list_and_a_mail_are_pages_without_scripts(build: Build, folder: Path) -> None:
    client = build()
    assert b"No emails" in (await client.get(LIST, headers=OURS)).body
    write(folder, "id-1", "Old")
    write(folder, "id-2", "New", text="Follow\n\nhttp://127.0.0.1:8000/verify?token=a&b=c\n\nor http://x.example/y.\n")
    answer = await client.get(LIST, headers=OURS)
    page = answer.body.decode()
    assert page.index('<a href="/dev/mail/id-2"><bdi>New</bdi></a>') < page.index('<a href="/dev/mail/id-1"><bdi>Old</bdi></a>')
    assert "to ada@example.org , 2026-03-01 12:30:00 UTC" in PageReader(answer.body).text
    shown = await client.get(f"{LIST}/id-2", headers=OURS)
    link = "http://127.0.0.1:8000/verify?token=a&amp;b=c"
    assert f'<a href="{link}" rel="noreferrer noopener">{link}</a>\n\nor <a ' in shown.body.decode()
    assert ">http://x.example/y</a>.\n" in shown.body.decode()
    for one in (answer, shown):
        assert one.status == 200
        assert one.header("content-security-policy") == (
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert one.header("cache-control") == "no-store"
        assert one.header("referrer-policy") == "no-referrer"
        assert b"<script" not in one.body


async def test_the_words_of_a_mail_are_only_text(build: Build, folder: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    write(folder, "id-1", evil, text=f'{evil} javascript:alert(1) http://x/"onclick=alert(1)', to=evil)
    for path in (LIST, f"{LIST}/id-1"):
        page = (await build().get(path, headers=OURS)).body.decode()
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert 'href="javascript' not in page
        assert 'onclick=alert(1)"' not in page


def test_a_text_is_cut_at_its_links_and_nothing_is_lost() -> None:
    text = "a http://x.example/1, (https://y.example/?q=2) ftp://z http:// end https://w.example"
    found = list(parts(text))
    assert "".join(piece for piece, _ in found) == text
    assert [link for _, link in found if link] == ["http://x.example/1", "https://y.example/?q=2", "https://w.example"]


async def test_only_what_the_list_names_is_shown(build: Build, folder: Path) -> None:
    (folder.parent / "secret.eml").write_text("To: x\n\nsecret")
    for name in ("none", "..%2fsecret", "%2e%2e%2fsecret", "../secret", ".eml"):
        answer = await build().get(f"{LIST}/{name}", headers=OURS)
        assert is_absent(answer), name


async def test_a_directory_that_cannot_be_read_is_a_503(lonely_postern: Postern, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    client = Client(build_application(lonely_postern, replace(SETTINGS, mail_directory=tmp_path / "plain")), "127.0.0.1")
    assert (await client.get(LIST, headers=OURS)).status == 503


# Requests: the page answers only those that come from this machine, without a proxy.


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost", "LOCALHOST:80", "[::1]", "[::1]:8000", "127.8.9.10"])
async def test_this_machine_by_any_of_its_names(host: str, build: Build) -> None:
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert (await build(address).get(LIST, headers=[("host", host)])).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "id.example.org",
        "127.0.0.1.example.org",
        "localhost.example.org",
        "192.0.2.1",
        "[::2]",
        str(ip_address(0)),
        "evil@127.0.0.1",
        "127.0.0.1:x",
        "127.1",
    ],
)
async def test_another_host_is_told_nothing(host: str, build: Build, folder: Path) -> None:
    write(folder, "id-1")
    for path in (LIST, f"{LIST}/id-1"):
        assert is_absent(await build().get(path, headers=[("host", host)]))


@pytest.mark.parametrize("headers", [(), (*OURS, *OURS), (*OURS, ("host", "id.example.org"))])
async def test_exactly_one_host_is_believed(headers: Pairs, build: Build) -> None:
    assert is_absent(await build().get(LIST, headers=headers))


@pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.1", "::2", "::ffff:192.0.2.1", "fe80::1"])
async def test_another_machine_is_told_nothing(address: str, build: Build, folder: Path) -> None:
    write(folder, "id-1")
    for path in (LIST, f"{LIST}/id-1"):
        assert is_absent(await build(address).get(path, headers=OURS))


@pytest.mark.parametrize(
    "name",
    [
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded", "forwarded", "via"),
        *("x-real-ip", "true-client-ip", "x-client-ip", "cf-connecting-ip", "x-original-host", "x-envoy-external-address"),
    ],
)
async def test_a_caller_through_a_proxy_is_told_nothing(name: str, build: Build, folder: Path) -> None:
    write(folder, "id-1")
    for path in (LIST, f"{LIST}/id-1"):
        assert is_absent(await build().get(path, headers=[*OURS, (name, "127.0.0.1")]))


# Settings: the page exists only under some of them.


def settings(**changed: str) -> Settings:
    return read({"POSTERN_DATA_DIR": "/srv/x", **changed})


def test_on_a_developers_machine_the_page_is_there() -> None:
    assert mail_pages_directory(settings()) == Path("/srv/x/mail")
    for changed in (
        {"POSTERN_BIND": "[::1]:9000"},
        {"POSTERN_BIND": "localhost:9000"},
        {"POSTERN_BASE_URL": "http://localhost:8000"},
        {"POSTERN_MAIL": "file:/srv/x/mail"},
    ):
        assert mail_pages_directory(settings(**changed)) == Path("/srv/x/mail"), changed


@pytest.mark.parametrize(
    "changed",
    [
        {"POSTERN_MAIL": "console"},
        {"POSTERN_MAIL": "smtp://mail.example.org:25"},
        {"POSTERN_BIND": "0.0.0.0:8000", "POSTERN_BASE_URL": "http://127.0.0.1:8000"},
        {"POSTERN_BIND": "[::]:8000", "POSTERN_BASE_URL": "http://127.0.0.1:8000"},
        {"POSTERN_BIND": "192.0.2.1:8000", "POSTERN_BASE_URL": "http://127.0.0.1:8000"},
        {"POSTERN_BIND": "id.example.org:8000", "POSTERN_BASE_URL": "http://127.0.0.1:8000"},
        {"POSTERN_BIND": "unix:/run/postern.sock"},
        {"POSTERN_BASE_URL": "https://id.example.org"},
        {"POSTERN_TRUSTED_PROXIES": "127.0.0.1"},
    ],
    ids=str,
)
async def test_under_any_other_settings_there_is_no_such_page(changed: dict[str, str], lonely_postern: Postern, folder: Path) -> None:
    given = {"POSTERN_MAIL": f"file:{folder}", **changed}
    write(folder, "id-1")
    application = build_application(lonely_postern, http_settings(read(given), "1"))
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        answer = await Client(application, "127.0.0.1").request(method, LIST, headers=OURS)
        assert answer.status == 404, method
    assert is_absent(await Client(application, "127.0.0.1").get(f"{LIST}/id-1", headers=OURS))
