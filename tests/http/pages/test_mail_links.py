"""The page "Invitations sent" leads to the mails in files where `/dev/mail` exists for this very request, and nowhere else."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from actors.job_worker import Workplace
from actors.mailers import mailer
from adapters.mail.local import MailFolder
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client, Pairs, Received
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People
from tests.http.signing_in import PASSWORD, UNLIMITED, unlimited
from tests.http.tenants import Tenants
from tests.patience import PATIENCE

HERE = "http://127.0.0.1:8000"
_LINK = "/dev/mail"
_INVITATION = re.compile(r"http://127\.0\.0\.1:8000/\S+token=\S+")


class _Behind(Client):
    """A client whose requests have these headers, too."""

    more: Pairs = ()

    async def request(self, method: str, target: str, *, headers: Pairs = (), **given: Any) -> Received:
        return await super().request(method, target, headers=[*headers, *self.more], **given)


@pytest.fixture
async def base_url() -> str:
    return HERE


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, base_url: str) -> AsyncIterator[Postern]:
    (tmp_path / "mail").mkdir()
    more = {"POSTERN_BASE_URL": base_url, "POSTERN_MAIL": f"file:{tmp_path / 'mail'}"}
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody sends the mails, a page waits for them in vain."""
    monkeypatch.setattr("entrypoints.http.pages.development._ARRIVE_WITHIN", 0.1)


async def _sent(postern: Postern, people: People, base_url: str, address: str, *headers: tuple[str, str]) -> Tab:
    tenants = Tenants(postern, people)
    owner = tenants.join(await people.with_password(PASSWORD), tenants.add("acme"), "owner")
    client = _Behind(unlimited(postern, replace(UNLIMITED, base_url=base_url), address).application, address)
    client.more = headers
    tab = await Tabs(client).tab().open("/ui/sign-in")
    await (await tab.send(email=owner.email)).send(password=PASSWORD)
    await tab.open("/ui/o/acme/people/invitations/~new")
    form = next(number for number, form in enumerate(tab.page.forms) if "emails" in form.fields)
    await tab.send(form, emails="ada@example.org")
    assert tab.status == 200, tab.page.text
    assert "ada@example.org" in tab.page.text
    # The link of the invitation is in the mail alone.
    assert "token" not in tab.page.text
    assert not [link for link in tab.page.links if "token=" in link]
    return tab


async def test_the_mail_is_one_click_away_on_this_machine(postern: Postern, people: People, base_url: str) -> None:
    tab = await _sent(postern, people, base_url, "127.0.0.1", ("host", "127.0.0.1:8000"))
    assert _LINK in tab.page.links


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip", "cf-connecting-ip"])
async def test_whoever_comes_by_a_proxy_gets_no_link(postern: Postern, people: People, base_url: str, header: str) -> None:
    tab = await _sent(postern, people, base_url, "127.0.0.1", ("host", "127.0.0.1:8000"), (header, "203.0.113.7"))
    assert _LINK not in tab.page.links


async def test_another_machine_gets_no_link(postern: Postern, people: People, base_url: str) -> None:
    tab = await _sent(postern, people, base_url, "192.0.2.1", ("host", "127.0.0.1:8000"))
    assert _LINK not in tab.page.links


@pytest.mark.parametrize("base_url", ["https://id.example.org"])
async def test_an_installation_with_a_real_address_has_none(postern: Postern, people: People, base_url: str) -> None:
    tab = await _sent(postern, people, base_url, "127.0.0.1", ("host", "127.0.0.1:8000"))
    assert _LINK not in tab.page.links


async def test_the_link_can_be_copied_on_this_machine_and_leads_back(
    postern: Postern, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody tries Postern alone: nobody reads the mail, and the link is what they came for."""
    monkeypatch.setattr("entrypoints.http.pages.development._ARRIVE_WITHIN", PATIENCE)
    tenants = Tenants(postern, people)
    acme = tenants.add("acme")
    owner = tenants.join(await people.with_password(PASSWORD), acme, "owner")
    board = tenants.service(acme, "board")
    client = _Behind(unlimited(postern, replace(UNLIMITED, base_url=HERE), "127.0.0.1").application, "127.0.0.1")
    client.more = [("host", "127.0.0.1:8000")]
    tab = await Tabs(client).tab().open("/ui/sign-in")
    await (await tab.send(email=owner.email)).send(password=PASSWORD)
    foundation = postern.foundation
    workplace = Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, foundation.secrets.spread)
    async with trio.open_nursery() as nursery:
        await nursery.start(mailer(foundation.mail, workplace).run)
        await tab.open(f"/ui/o/acme/people/invitations/~new?application={board.slug}")
        form = next(number for number, form in enumerate(tab.page.forms) if "emails" in form.fields)
        await tab.send(form, emails="ada@example.org\nbob@example.org")
        nursery.cancel_scope.cancel()
    links = _INVITATION.findall(tab.page.text)
    assert len(set(links)) == 2, tab.page.text
    assert f"/ui/o/acme/applications/{board.slug}" in tab.page.links
    # Each is the link of that mail.
    mails = {mail.to: mail.links for mail in MailFolder(Path(urlsplit(postern.settings.mail_url).path)).mails()}
    assert [mails[email][0] for email in ("ada@example.org", "bob@example.org")] == links


async def test_an_application_of_somebody_else_leads_nowhere(postern: Postern, people: People) -> None:
    tenants = Tenants(postern, people)
    tenants.service(tenants.add("globex"), "theirs")
    tab = await _sent(postern, people, HERE, "127.0.0.1", ("host", "127.0.0.1:8000"))
    await tab.open("/ui/o/acme/people/invitations/~new?application=theirs")
    form = next(number for number, form in enumerate(tab.page.forms) if "emails" in form.fields)
    await tab.send(form, emails="bob@example.org")
    assert tab.status == 200
    assert not [link for link in tab.page.links if "theirs" in link]
