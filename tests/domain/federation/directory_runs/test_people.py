"""What a run does with each person whom a directory names."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.federation.directory_runs.people import (
    KnownPerson,
    MetAccount,
    PersonDecision,
    PersonFate,
    PersonInDirectory,
    ReasonForEnd,
    WhyLeftOut,
    decided,
    decided_together,
    is_unchanged,
    named_person,
    run_attributes,
)
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.upstream.ldap.settings import LdapIdentity, LdapSettings
from core.domain.identity.upstream.ldap.surveys import LdapMarks, LdapPerson, later_marks
from core.domain.mail import Email
from core.frozen import replace

NOW: Final = datetime(2026, 11, 27, tzinfo=UTC)
ACME: Final = OrganizationId(UUID(int=1))
GLOBEX: Final = OrganizationId(UUID(int=2))
DOMAINS: Final = frozenset({"example.org"})
SETTINGS: Final = LdapSettings()


def person(name: str = "ada", **more: Any) -> PersonInDirectory:
    given: dict[str, Any] = {
        "external_id": name.encode(),
        "dn": f"uid={name}",
        "email": f"{name}@example.org",
        "given_name": None,
        "family_name": None,
        "display_name": None,
        "fields": {},
        "is_disabled": False,
    }
    return PersonInDirectory(**{**given, **more})


def account(name: str = "ada", **more: Any) -> Account:
    given: dict[str, Any] = {"is_platform_owner": False, "email_verified_at": None, "deactivated_at": None, "created_at": NOW}
    return Account(UserId(UUID(bytes=name.encode().ljust(16))), Email(f"{name}@example.org"), **{**given, **more})


def met(name: str = "ada", **more: Any) -> MetAccount:
    given: dict[str, Any] = {
        "external_id": name.encode(),
        "account": account(name),
        "listed_as": None,
        "was_active": False,
        "is_scims": False,
        "is_anothers": False,
        "has_other_identity": False,
        "may_more": False,
        "is_own": True,
        "is_movable": True,
        "is_member": False,
        "is_kept": False,
        "address_is_taken": False,
    }
    return MetAccount(**{**given, **more})


def listed(name: str = "ada", **more: Any) -> MetAccount:
    return met(name, listed_as=name.encode(), **{"was_active": True, "is_member": True, **more})


def told(decision: PersonDecision) -> tuple[PersonFate, WhyLeftOut | None]:
    return decision.fate, decision.left_out


@pytest.mark.parametrize(
    ("named", "found", "fate", "left_out"),
    [
        (person(), None, PersonFate.COMES, None),
        (person(), met(), PersonFate.COMES, None),
        (person(is_disabled=True), None, PersonFate.STAYS, None),
        (person(email=""), None, PersonFate.STAYS, WhyLeftOut.NO_ADDRESS),
        (person(email="ada@elsewhere.org"), None, PersonFate.STAYS, WhyLeftOut.OTHER_DOMAIN),
        (person(), met(listed_as=b"bob"), PersonFate.STAYS, WhyLeftOut.ADDRESS_OF_ANOTHER),
        (person(), met(is_scims=True), PersonFate.STAYS, WhyLeftOut.LISTED_BY_SCIM),
        (person(), met(is_anothers=True), PersonFate.STAYS, WhyLeftOut.LISTED_BY_ANOTHER),
        (person(), met(account=account(is_platform_owner=True)), PersonFate.STAYS, WhyLeftOut.NOT_FOR_ACCOUNT),
        (person(), met(has_other_identity=True), PersonFate.STAYS, WhyLeftOut.OTHER_IDENTITY),
        # What others have done with the account is none of the organization's business.
        (person(), met(account=account(deactivated_at=NOW)), PersonFate.COMES, None),
        (person(), met(account=account(deactivated_at=NOW, deactivated_by=ACME)), PersonFate.COMES, None),
        (person(), listed(), PersonFate.CHANGES, None),
        (person(is_disabled=True), listed(), PersonFate.ENDS, None),
        (person(is_disabled=True), listed(was_active=False), PersonFate.STAYS, None),
        (person(), listed(was_active=False), PersonFate.RETURNS, None),
        (person(email="ada@elsewhere.org"), listed(), PersonFate.CHANGES, WhyLeftOut.OTHER_DOMAIN),
        (person(email="ada2@example.org"), listed(), PersonFate.CHANGES, None),
        (person(email="ada2@example.org"), listed(address_is_taken=True), PersonFate.CHANGES, WhyLeftOut.ADDRESS_OF_ANOTHER),
        (person(email="ada2@example.org"), listed(is_movable=False), PersonFate.CHANGES, WhyLeftOut.ADDRESS_STAYS),
        (person(email=""), listed(was_active=False), PersonFate.STAYS, WhyLeftOut.NO_ADDRESS),
        (person(), listed(was_active=False, account=account(deactivated_at=NOW)), PersonFate.RETURNS, None),
        (person(), listed(was_active=False, is_anothers=True), PersonFate.STAYS, WhyLeftOut.LISTED_BY_ANOTHER),
    ],
)
def test_each_person_has_one_fate(
    named: PersonInDirectory, found: MetAccount | None, fate: PersonFate, left_out: WhyLeftOut | None
) -> None:
    assert told(decided(named, found, DOMAINS)) == (fate, left_out)


def test_only_an_account_of_the_directorys_own_moves_to_another_address() -> None:
    assert decided(person(email="ada2@example.org"), listed(), DOMAINS).moves
    assert not decided(person(email="ADA@example.org"), listed(), DOMAINS).moves
    assert decided(person(is_disabled=True), listed(), DOMAINS).why is ReasonForEnd.DISABLED


def test_of_two_people_with_one_address_one_comes() -> None:
    both = [person("ada"), person("bob", email="ADA@example.org")]
    assert [told(one) for one in decided_together(both, {}, DOMAINS, 10)] == [
        (PersonFate.COMES, None),
        (PersonFate.STAYS, WhyLeftOut.ADDRESS_OF_ANOTHER),
    ]


def test_of_two_people_who_lead_to_one_account_one_comes() -> None:
    both = [person("ada"), person("bob", email="ada@example.org")]
    found = {b"ada": met("ada"), b"bob": met("bob", account=account("ada"))}
    assert [one.left_out for one in decided_together(both, found, DOMAINS, 10)] == [None, WhyLeftOut.ADDRESS_OF_ANOTHER]


def test_nobody_moves_to_the_address_of_somebody_who_comes() -> None:
    both = [person("bob"), person("ada", email="bob@example.org")]
    decisions = decided_together(both, {b"ada": listed("ada")}, DOMAINS, 10)
    assert [told(one) for one in decisions] == [(PersonFate.COMES, None), (PersonFate.STAYS, WhyLeftOut.ADDRESS_OF_ANOTHER)]


def test_nobody_comes_without_room_and_members_need_none() -> None:
    three = [person("ada"), person("bob"), person("eve")]
    found = {b"eve": met("eve", is_member=True)}
    assert [one.left_out for one in decided_together(three, found, DOMAINS, 1)] == [None, WhyLeftOut.NO_ROOM, None]


@pytest.mark.parametrize(
    ("now", "changes", "unchanged"),
    [
        (person(), {}, True),
        (person(display_name="Ada"), {}, False),
        (person(is_disabled=True), {}, False),
        (person(is_disabled=True), {"is_active": False}, True),
        (person(), {"is_active": False}, False),
        (person(), {"email_key": "other@example.org"}, False),
    ],
)
def test_only_who_has_changed_is_looked_at_again(now: PersonInDirectory, changes: dict[str, Any], *, unchanged: bool) -> None:
    known = KnownPerson(external_id=b"ada", email_key="ada@example.org", digest=person().digest, is_active=True)
    assert is_unchanged(now, replace(known, **changes)) is unchanged


def test_what_is_read_of_a_person() -> None:
    values = {"mail": [" ada@example.org "], "givenname": ["Ada"], "sn": ["\0"], "title": ["Chief"], "phones": ["1", "2"]}
    read = LdapPerson(identity=b"7", dn="uid=ada", is_disabled=False, values=values)
    named = named_person(SETTINGS, {"title": "job", "phones": "phones", "room": "room", "userPassword": "secret"}, read)
    assert (named.email, named.given_name, named.family_name, named.display_name) == ("ada@example.org", "Ada", None, None)
    assert named.fields == {"job": "Chief", "phones": ["1", "2"], "room": None}
    assert (named.subject, named.named) == ("7", "ada@example.org")
    nameless = named_person(SETTINGS, {}, LdapPerson(identity=b"7", dn="uid=ada", is_disabled=False, values={"mail": ["ada"]}))
    assert (nameless.email, nameless.named) == ("", "uid=ada")
    assert list(run_attributes(SETTINGS, {"title": "job"})) == ["entryUUID", "mail", "title", "givenName", "sn", "displayName"]


def test_the_identity_is_the_one_of_a_sign_in() -> None:
    guid = UUID("00112233-4455-6677-8899-aabbccddeeff")
    settings = LdapSettings(identity_attribute=LdapIdentity.OBJECT_GUID)
    read = LdapPerson(identity=guid.bytes_le, dn="cn=ada", is_disabled=False, values={})
    assert named_person(settings, {}, read).subject == str(guid)


def test_the_greatest_time_seen_is_where_the_next_run_begins() -> None:
    def at(*times: str) -> list[LdapPerson]:
        return [LdapPerson(identity=b"7", dn="", is_disabled=False, values={"modifytimestamp": [one]}) for one in times]

    marks = LdapMarks(None, None, "20261127100000Z")
    assert later_marks(marks, at("20261127090000Z", "20261127100000.5Z")).modified == "20261127100000.5Z"
    assert later_marks(marks, at("x")).modified == "20261127100000Z"
    assert later_marks(LdapMarks(None, None, None), []).modified is None
