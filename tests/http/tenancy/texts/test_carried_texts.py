"""Which words a mail of an organization carries, by the server that sends it."""

from datetime import timedelta

import pytest

from core.domain.identifiers import JobId, OrganizationId
from core.domain.languages import Language
from core.domain.mail import Mail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB, OrganizationMail
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.inviting import Inviting
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenancy.texts.written_texts import write_texts

_LEASE = timedelta(minutes=1)


class _Installation:
    """The installation's server."""

    def __init__(self, sent: list[Mail]) -> None:
        self._sent = sent

    async def send(self, mail: Mail, _id: JobId) -> None:
        self._sent.append(mail)


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> Inviting:
    made = Inviting(postern, people, unlimited(postern), log)
    write_texts(people, "acme", {"en": {"mail_invitation.subject": "Own {organization}", "own.footer": "Own foot"}})
    return made


def with_server(scene: Inviting) -> None:
    scene.people.change(
        "insert into mail_servers (id, org_id, host, port, username, sealed_password, from_email, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'mail.acme.example', 465, 'acme', '', 'hello@acme.example', now(), now())",
        scene.acme.id,
    )


async def test_an_invitation_by_the_installations_server_says_it_in_our_words(scene: Inviting) -> None:
    await scene.invite()
    (mail,) = await scene.postbox.empty()
    assert mail.subject == "Invitation to Acme"
    assert "Own foot" not in mail.text + mail.html


async def test_an_invitation_by_the_organizations_own_server_carries_its_words(scene: Inviting, monkeypatch: pytest.MonkeyPatch) -> None:
    with_server(scene)
    await scene.invite()
    (job,) = await scene.postern.foundation.jobs.claim([ORGANIZATION_MAIL_JOB], 10, _LEASE)
    wanted = OrganizationMail.of_job(job.payload)
    assert wanted.by_own_server is not None
    assert (wanted.mail.subject, wanted.by_own_server.subject) == ("Invitation to Acme", "Own Acme")
    assert "Own foot" in wanted.by_own_server.html
    sent: list[Mail] = []
    monkeypatch.setattr(scene.postern.tenancy.mail_servers, "_installation", _Installation(sent))
    # Its server has failed for an hour: ours sends, and never the words that nobody has said yes to.
    scene.people.change(
        "update mail_servers"
        " set failing_since = now() - interval '2 hours', fallen_back_at = now(), rests_until = now() + interval '1 hour'"
    )
    await scene.postern.tenancy.mail_servers.deliver(wanted, JobId(job.id))
    assert [mail.subject for mail in sent] == ["Invitation to Acme"]


async def test_approved_words_are_the_same_by_both_servers(scene: Inviting) -> None:
    scene.people.change("update all_organizations set approved_texts = texts_digest")
    with_server(scene)
    await scene.invite()
    (job,) = await scene.postern.foundation.jobs.claim([ORGANIZATION_MAIL_JOB], 10, _LEASE)
    wanted = OrganizationMail.of_job(job.payload)
    assert (wanted.mail.subject, wanted.by_own_server) == ("Own Acme", None)


async def test_owners_whose_address_nobody_has_proved_have_no_own_tie(scene: Inviting) -> None:
    """Else a directory could give its owner a stranger's address, and have them written to in the organization's words."""
    scene.people.change("update memberships set own_since = now()")
    scene.people.change("update users set email_verified_at = now()")

    async def ties() -> set[bool]:
        async with scene.postern.foundation.unit_of_work() as uow:
            return {one.is_own for one in await uow.webhooks.owners(OrganizationId(scene.acme.id))}

    assert await ties() == {True}
    scene.people.change("update users set email_verified_at = null")
    assert await ties() == {False}


async def test_links_of_the_organizations_choice_reach_strangers_by_its_own_server_alone(scene: Inviting) -> None:
    """They lead anywhere, and a yes to its texts says nothing about them."""
    scene.people.change("delete from organization_texts")
    scene.people.change("update all_organizations set texts_digest = null, help_url = 'https://evil.example/help' where slug = 'acme'")
    await scene.invite("first@example.org")
    (mail,) = await scene.postbox.empty()
    assert "evil.example" not in mail.text + mail.html
    scene.people.change("update all_organizations set texts_digest = repeat('a', 64), approved_texts = repeat('a', 64) where slug = 'acme'")
    await scene.invite("second@example.org")
    (mail,) = await scene.postbox.empty()
    assert "evil.example" not in mail.text + mail.html
    with_server(scene)
    await scene.invite("third@example.org")
    (job,) = await scene.postern.foundation.jobs.claim([ORGANIZATION_MAIL_JOB], 10, _LEASE)
    wanted = OrganizationMail.of_job(job.payload)
    assert wanted.by_own_server is not None
    assert ("evil.example" in wanted.mail.html, "evil.example" in wanted.by_own_server.html) == (False, True)


async def test_an_invitation_wears_the_organizations_looks_in_its_language(scene: Inviting) -> None:
    scene.people.change("update all_organizations set approved_texts = texts_digest, languages = 'de,en', primary_color = '#a01040'")
    write_texts(scene.people, "acme", {"de": {"mail_invitation.subject": "Komm zu {organization}", "own.footer": "Eigener Fuß"}})
    scene.people.change("update all_organizations set approved_texts = texts_digest")
    await scene.invite()
    (mail,) = await scene.postbox.empty()
    assert (mail.subject, mail.language) == ("Komm zu Acme", Language.GERMAN)
    assert "Eigener Fuß" in mail.text
    assert "Eigener Fuß" in mail.html
    assert "#a01040" in mail.html


async def test_the_organizations_server_does_not_learn_what_language_a_stranger_has_chosen(scene: Inviting) -> None:
    """Nor that there is an account: its operator reads the mail."""
    scene.people.add("ola@example.org")
    scene.people.change("update users set language = 'pl' where email = 'ola@example.org'")
    await scene.invite("ola@example.org")
    (mail,) = await scene.postbox.empty()
    assert mail.language is Language.POLISH
    scene.people.change("delete from invitations")
    with_server(scene)
    languages = set()
    for to in ("ola@example.org", "nobody@example.org"):
        await scene.invite(to)
        (job,) = await scene.postern.foundation.jobs.claim([ORGANIZATION_MAIL_JOB], 10, _LEASE)
        wanted = OrganizationMail.of_job(job.payload)
        languages |= {one.language for one in (wanted.mail, wanted.by_own_server) if one is not None}
        scene.people.change("delete from jobs")
    assert languages == {Language.ENGLISH}
