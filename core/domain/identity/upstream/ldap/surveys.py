"""What is read of a whole LDAP directory: by a sync run, as far as it has come, and by a test."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from core.domain.identity.upstream.connection_tests import CheckState, TestedCheck
from core.domain.identity.upstream.ldap.answers import (
    BindOutcome,
    LdapEntry,
    LdapFailed,
    LdapFault,
    LdapStep,
    NotRecognised,
    shown,
    subject_of,
)
from core.domain.identity.upstream.ldap.settings import LONGEST_WINDOW_SECONDS, LdapSettings, can_lock_anybody
from core.frozen import Frozen, replace

MOST_SURVEYED: Final = 1000
"""A test looks at so many people, and tells that there are more."""
_NAMES_SHOWN: Final = 3
# Whatever attribute an administrator names, a test shows values of it only where they look like addresses.
_ADDRESS: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_LONGEST_SHOWN: Final = 200


class LdapLockout(Frozen):
    threshold: int
    """0: nobody is ever locked."""
    seconds: int
    """The window in which wrong passwords are counted. 0: they are never forgotten."""


class LdapSurvey(Frozen, kw_only=True):
    hosts: Sequence[str]
    """Those that were asked; all of them let the account in."""
    base: str
    people: Sequence[LdapEntry]
    are_more: bool
    lockout: LdapLockout | None
    """None when no policy can be read."""


def strictest(read: Sequence[LdapLockout]) -> LdapLockout | None:
    """What holds for everybody, of the policies that could be read: nobody here knows whom each is for."""
    locking = [one for one in read if one.threshold]
    if not locking:
        return read[0] if read else None
    seconds = 0 if any(one.seconds == 0 for one in locking) else max(one.seconds for one in locking)
    return LdapLockout(min(one.threshold for one in locking), min(seconds, LONGEST_WINDOW_SECONDS))


_WORDS: Final = {
    LdapFault.NO_NAME: (
        "The host name cannot be resolved.",
        "Enter the host name as the name servers of Postern's network know it.",
    ),
    LdapFault.NOT_ALLOWED: (
        "The operator of this installation does not allow connections to this IP address.",
        "Ask the operator to allow the directory's network in POSTERN_OUTBOUND_NETWORKS.",
    ),
    LdapFault.NO_ANSWER: ("The host does not respond.", "Check the host and port, and allow connections from Postern in the firewall."),
    LdapFault.TOO_SLOW: ("The directory did not respond in time.", "Check the load of the directory, or list another host first."),
    LdapFault.CUT_OFF: (
        "The directory closed the connection.",
        "Check the directory's log for the reason. If this port does not use TLS, enter another port: 636 is for ldaps://.",
    ),
    LdapFault.NO_TLS: (
        "The server does not use TLS.",
        "Port 636 is for ldaps://; for ldap://, turn on StartTLS. A domain controller of Active Directory needs a certificate first.",
    ),
    LdapFault.START_TLS_REFUSED: ("The directory rejected StartTLS.", "Install a certificate on the directory, or use ldaps://."),
    LdapFault.BYTES_BEHIND: (
        "The server sent unencrypted data after its StartTLS response. An attacker on the network path may have injected it.",
        "Use ldaps:// instead of StartTLS, and check the network path between Postern and the directory.",
    ),
    LdapFault.OTHER_HOST: (
        "The certificate was issued for another host name.",
        "Enter the host name from the certificate, not the IP address.",
    ),
    LdapFault.EXPIRED: ("The certificate has expired.", "Renew the directory's certificate."),
    LdapFault.OTHER_AUTHORITY: (
        "The certificate was issued by an unknown certificate authority (CA).",
        "Paste the authority's certificate in PEM format as the CA of this identity provider.",
    ),
    LdapFault.UNTRUSTED: ("The certificate is not trusted.", "Check the directory's certificate and its chain."),
    LdapFault.NO_AUTHORITY: (
        "The CA of this identity provider is not a valid certificate.",
        "Paste the authority's certificate in PEM format.",
    ),
    LdapFault.BIND_REFUSED: (
        "The directory rejected the bind account.",
        "Compare the bind DN with the directory, and enter the bind password again.",
    ),
    LdapFault.NO_PASSWORD: (
        "The bind password is missing: Postern deletes it when the hosts, TLS, CA or bind DN change.",
        "Enter the bind password again.",
    ),
    LdapFault.NO_BASE: (
        "The base DN does not exist.",
        "Copy the base DN from the directory, or leave it empty to use the naming context of the directory.",
    ),
    LdapFault.REFERRED: (
        "The directory returned a referral to another directory. Postern does not follow referrals.",
        "Enter a host that holds the base DN itself; for Active Directory, a domain controller of that domain.",
    ),
    LdapFault.SEARCH_REFUSED: ("The directory rejected the search.", "Allow the bind account to read people below the base DN."),
    LdapFault.MALFORMED: ("The server's response is not valid LDAP.", "Check the host and port."),
    LdapFault.SURVEYED: ("Another test of this directory is running.", "Wait until it is complete, then run the test again."),
    LdapFault.BUSY: ("The directory is busy.", "Check the load of the directory, or list another host first."),
    LdapFault.CUT_SHORT: (
        "The directory returns only some of the entries to the bind account.",
        'Raise the size limit for the bind account; OpenLDAP: limits dn.exact="…" size=unlimited.',
    ),
    LdapFault.NO_IDENTITY: (
        "No person has exactly one value in the identity attribute.",
        "Allow the bind account to read this attribute, or select the attribute that your directory uses.",
    ),
    LdapFault.TOO_LONG: ("The response of the directory is too large.", "Use a narrower base DN or filter."),
}
_TO_CERTIFICATE: Final = (LdapStep.NAME, LdapStep.CONNECTION, LdapStep.START_TLS, LdapStep.CERTIFICATE, LdapStep.BIND)
_BEFORE_PEOPLE: Final = (*_TO_CERTIFICATE, LdapStep.BASE, LdapStep.FILTER)
_PASSED: Final = {
    LdapStep.NAME: "The host name can be resolved.",
    LdapStep.CONNECTION: "The directory responds.",
    LdapStep.START_TLS: "The connection uses TLS (StartTLS).",
    LdapStep.CERTIFICATE: "The certificate is valid for this host.",
    LdapStep.BIND: "The directory accepted the bind account.",
}


def words_of(fault: LdapFault) -> tuple[str, str]:
    """What happened, and the change that helps."""
    return _WORDS[fault]


def lines_of_failure(settings: LdapSettings, failed: LdapFailed) -> Sequence[TestedCheck]:
    """The steps up to the one that failed."""
    told, mend = words_of(failed.fault)
    gone = takewhile(lambda step: step is not failed.step, _BEFORE_PEOPLE)
    lines = [_passed(step, _PASSED[step]) for step in gone if step in _PASSED and (step is not LdapStep.START_TLS or settings.start_tls)]
    host = f"{failed.host}: " if failed.host else ""
    came = f"{host}{failed.came}".rstrip(": ")
    expected = settings.bind_dn if failed.step is LdapStep.BIND else settings.base_dn if failed.step is LdapStep.BASE else ""
    return [*lines, _failed(failed.step, told, mend, came=came, expected=expected)]


def lines_of_survey(settings: LdapSettings, found: LdapSurvey, domains: frozenset[str]) -> Sequence[TestedCheck]:
    """Every line but the sign-in. `domains` are those that the organization has proved."""
    hosts = ", ".join(found.hosts)
    return [
        *(_passed(step, _PASSED[step], came=hosts) for step in _TO_CERTIFICATE if step is not LdapStep.START_TLS or settings.start_tls),
        _passed(LdapStep.BASE, "Postern searches for people below this base DN.", came=found.base),
        _people(found),
        _identities(settings, found),
        _addresses(settings, found, domains),
        _groups(settings, found),
        _lockout(settings, found.lockout),
    ]


def line_of_sign_in(outcome: BindOutcome, told: str = "", *, found: int = 1, dns: str = "") -> TestedCheck:
    if found == 0:
        return _failed(LdapStep.SIGN_IN, "No person with this name was found.", "Check the name, the sign-in attributes and the filter.")
    if found > 1:
        return _failed(
            LdapStep.SIGN_IN, "Several people have this name.", "Use sign-in attributes that are unique in the directory.", came=dns
        )
    if outcome is BindOutcome.RIGHT:
        return _passed(LdapStep.SIGN_IN, "The directory accepted this person's password.", came=dns)
    return _failed(
        LdapStep.SIGN_IN,
        f"The directory rejected this person: {outcome.value.replace('_', ' ')}.",
        "Enter the name and password of a person who can sign in.",
        came=told,
    )


def _people(found: LdapSurvey) -> TestedCheck:
    if not found.people:
        return _failed(
            LdapStep.FILTER,
            "The filter finds no people.",
            "Compare the filter and base DN with the directory.",
            came="0",
            expected="1 or more",
        )
    number = f"more than {len(found.people)}" if found.are_more else str(len(found.people))
    names = "; ".join(one.dn for one in found.people[:_NAMES_SHOWN])
    return _passed(LdapStep.FILTER, f"The filter finds {number} people.", came=names)


def _identities(settings: LdapSettings, found: LdapSurvey) -> TestedCheck:
    attribute, without, subjects = settings.identity_attribute, [], Counter[str]()
    for one in found.people:
        try:
            subjects[subject_of(one, attribute)] += 1
        except NotRecognised:
            without.append(one.dn)
    if without:
        return _failed(
            LdapStep.IDENTITY,
            f"{len(without)} of {len(found.people)} people do not have exactly one value of {attribute.value}.",
            "Allow the bind account to read this attribute, or select the attribute that your directory uses.",
            came="; ".join(without[:_NAMES_SHOWN]),
            expected=attribute.value,
        )
    twice = [subject for subject, times in subjects.items() if times > 1]
    if twice:
        return _failed(
            LdapStep.IDENTITY,
            "Several people have the same identity.",
            f"Fix {attribute.value} in the directory: it must be unique for each person.",
            came=", ".join(twice[:_NAMES_SHOWN]),
        )
    return _passed(LdapStep.IDENTITY, f"{attribute.value} is unique for each person.")


def _addresses(settings: LdapSettings, found: LdapSurvey, domains: frozenset[str]) -> TestedCheck:
    without, outside = 0, []
    for one in found.people:
        address = next(iter(one.texts(settings.address_attribute)), "")
        if not address:
            without += 1
        elif address.rpartition("@")[2].lower() not in domains:
            outside.append(address)
    addresses = ", ".join([one for one in outside if _ADDRESS.fullmatch(one)][:_NAMES_SHOWN])
    within = len(found.people) - without - len(outside)
    told = f"{within} email addresses are in verified domains, {len(outside)} are not, and {without} people have no email address."
    if not domains:
        return replace(
            _passed(LdapStep.ADDRESSES, "No email domain is verified. No one can sign in through this identity provider until one is."),
            mend="Add the email domain of your people to your organization, and verify it.",
        )
    if found.people and not within:
        return _failed(
            LdapStep.ADDRESSES,
            told,
            "Verify the email domain of your people, or enter the attribute that contains their email address.",
            came=addresses,
            expected=", ".join(sorted(domains)),
        )
    return _passed(LdapStep.ADDRESSES, told, came=addresses)


def _groups(settings: LdapSettings, found: LdapSurvey) -> TestedCheck:
    """Never fails: groups sign nobody in."""
    if not settings.groups_attribute:
        return _passed(LdapStep.GROUPS, "Groups are not read.")
    groups = Counter(group for one in found.people for group in one.texts(settings.groups_attribute))
    names = "; ".join(name for name, _ in groups.most_common(_NAMES_SHOWN))
    return _passed(LdapStep.GROUPS, f"{settings.groups_attribute} contains {len(groups)} groups.", came=names)


def _lockout(settings: LdapSettings, read: LdapLockout | None) -> TestedCheck:
    if read is None:
        told = f"No lockout policy can be read. The configured lockout threshold applies: {settings.lockout_threshold}."
        return _passed(LdapStep.LOCKOUT, told)
    if read.threshold == 0:
        told = f"The directory locks no accounts. The configured lockout threshold applies: {settings.lockout_threshold}."
        return _passed(LdapStep.LOCKOUT, told)
    came = f"{read.threshold} in {read.seconds // 60} min" if read.seconds else f"{read.threshold}, without a time limit"
    if can_lock_anybody(read.threshold) and not settings.accepts_lockouts:
        return _failed(
            LdapStep.LOCKOUT,
            "The directory locks accounts after so few wrong passwords that a stranger can lock any account.",
            "Raise the threshold in the directory, or accept this with accepts_lockouts.",
            came=came,
            expected="3 or more",
        )
    return _passed(LdapStep.LOCKOUT, "Postern stops before the directory locks an account.", came=came)


def _passed(step: LdapStep, told: str, *, came: str = "") -> TestedCheck:
    return TestedCheck(name=step.value, state=CheckState.PASSED, told=told, came=shown(came, _LONGEST_SHOWN))


def _failed(step: LdapStep, told: str, mend: str, *, came: str = "", expected: str = "") -> TestedCheck:
    return TestedCheck(
        name=step.value,
        state=CheckState.FAILED,
        told=told,
        mend=mend,
        came=shown(came, _LONGEST_SHOWN),
        expected=shown(expected, _LONGEST_SHOWN),
    )


MODIFIED: Final = "modifyTimestamp"
MOST_PEOPLE: Final = 100_000
"""So many people a directory may have here, and so many members a group."""
# The shortest time, as directories write it.
_TIME: Final = "20261127000000Z"


class LdapMarks(Frozen):
    """The state of a sync run."""

    controller: str | None
    """Active Directory: the controller's `invocationId`."""
    usn: int | None
    """Its `highestCommittedUSN` at the start of the run."""
    modified: str | None
    """Elsewhere: the greatest `modifyTimestamp` seen, as the server writes it."""


class LdapPerson(Frozen):
    identity: bytes
    """The value of the attribute of identity: 16 bytes of a GUID, otherwise the text in lower case. `subject_from` makes the subject."""
    dn: str
    is_disabled: bool
    values: Mapping[str, Sequence[str]]
    """Of the asked attributes, by their names in lower case. What is no text, or holds a credential, is left out."""


class LdapGroup(Frozen):
    identity: bytes
    dn: str
    name: str
    members: frozenset[bytes]
    """Identities of people, also of those in groups of the group."""
    is_cut: bool
    """There are more members than are read of a group."""


def later_marks(marks: LdapMarks, people: Sequence[LdapPerson]) -> LdapMarks:
    """The marks after these people were read with `MODIFIED`."""
    times = [value for one in people for value in one.values.get(MODIFIED.lower(), ())[:1] if len(value) >= len(_TIME)]
    return replace(marks, modified=max([*([] if marks.modified is None else [marks.modified]), *times], key=_comparable, default=None))


def _comparable(time: str) -> str:
    """Without the letter of the zone, which would come after a fraction of a second."""
    return time.rstrip("Z")
