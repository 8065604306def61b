"""Reads the groups of an LDAP directory."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from adapters.ldap.connection import LdapConnection, PagedSearch
from adapters.ldap.directories import ANYBODY, SCOPES, base_of, entry_of, in_time, root_of
from adapters.ldap.messages import ORDINARY, MessageBounds, SearchScope
from core.domain.identity.upstream.ldap.answers import LdapEntry, LdapFailed, LdapFault, LdapStep, NotRecognised, identity_of
from core.domain.identity.upstream.ldap.entries import (
    GroupMembers,
    folded_dn,
    group_name,
    is_below,
    person_of,
    primary_group,
    resolved,
    sid_of,
)
from core.domain.identity.upstream.ldap.filters import LdapFilter, read_filter
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.ldap.surveys import MOST_PEOPLE, LdapGroup
from core.frozen import Frozen

MOST_GROUPS: Final = 10_000
MOST_LOOKS: Final = 2_000_000
"""At members, while groups in groups are walked."""
MOST_MEMBERSHIPS: Final = 1_000_000
"""Over all groups. 20 000 people who are in 25 groups each come to half of that."""
_GROUPS: Final = read_filter(
    "(|(objectClass=group)(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=groupOfMembers)(objectClass=posixGroup))"
)
_MEMBERS: Final = ("member", "uniqueMember", "memberUid")
_RANGED: Final = re.compile(r"member;range=([0-9]{1,9})-([0-9]{1,9}|\*)")
# A group of 100 000 comes in one message, unless the directory knows ranges.
_LARGE: Final = MessageBounds(24 << 20, MOST_PEOPLE, cuts=True)
_MOST_NAMED_ELSEWHERE: Final = 1000
_MOST_RANGES: Final = 1000
# Of names that are kept while the groups are read. 20 000 people take 2 MiB.
_MOST_CHARACTERS: Final = 32 << 20


class _Known(Frozen):
    dn: str
    name: str
    identity: bytes | None


class GroupReader:
    """One reading of the groups by one connection.

    It reads the people first, then the names of all groups, then the members of each. A group is a member of another one by its name, so
    that nested groups are resolved, whatever product it is.
    """

    def __init__(self, connection: LdapConnection, settings: LdapSettings, piece_within: float) -> None:
        self._connection = connection
        self._settings = settings
        self._piece_within = piece_within
        self._people: dict[str, bytes] = {}
        """By their folded names."""
        self._by_uid: dict[str, bytes | None] = {}
        """None for a `uid` that several people have."""
        self._named: dict[str, set[bytes]] = {}
        """Whom the attribute of groups has in the group of this name."""
        self._written: dict[str, str] = {}
        """How people write the name."""
        self._primary: dict[tuple[bytes, int], set[bytes]] = {}
        self._known: dict[str, _Known] = {}
        self._sids: dict[tuple[bytes, int], str] = {}
        self._members: dict[str, GroupMembers] = {}
        self._ranged: list[tuple[str, int]] = []
        self._left = MOST_MEMBERSHIPS
        self._left_characters = _MOST_CHARACTERS

    async def read(self) -> Sequence[LdapGroup]:
        """Raises `LdapFailed`."""
        settings = self._settings
        base = await base_of(self._connection, settings)
        identity = settings.identity_attribute.value
        people = (identity, settings.groups_attribute, "uid", "primaryGroupID", "objectSid")
        await self._each(base, SCOPES[settings.search_scope], read_filter(settings.person_filter), people, self._person)
        root = await self._root(base)
        names = (identity, "cn", "objectSid")
        await self._each(root, SearchScope.SUBTREE, _GROUPS, names, self._group)
        elsewhere = [one for one in self._named if one not in self._known][:_MOST_NAMED_ELSEWHERE]
        for one in elsewhere:
            entry = await self._one(self._written[one], names)
            if entry is not None:
                self._group(entry)
        self._members = {one: GroupMembers() for one in self._known}
        await self._each(root, SearchScope.SUBTREE, _GROUPS, _MEMBERS, self._take, bounds=_LARGE)
        for one in elsewhere:
            entry = await self._one(self._written[one], _MEMBERS) if one in self._known else None
            if entry is not None:
                self._take(entry)
        for folded, begins in self._ranged:
            await self._further(folded, begins)
        self._by_people()
        return await self._resolved(folded_dn(base))

    async def _root(self, base: str) -> str:
        """Where groups are looked for, since those that are in others may stand outside the base. The base, where nobody may look."""
        root = await root_of(self._connection, base)
        try:
            with in_time(LdapStep.GROUPS, self._piece_within, ""):
                await self._connection.search(root, SearchScope.BASE, ANYBODY, ("1.1",), most=1, step=LdapStep.GROUPS)
        except LdapFailed as failed:
            if failed.fault in {LdapFault.NO_BASE, LdapFault.SEARCH_REFUSED}:
                return base
            raise
        return root

    async def _each(
        self,
        base: str,
        scope: SearchScope,
        wanted: LdapFilter,
        attributes: Sequence[str],
        take: Callable[[LdapEntry], None],
        *,
        bounds: MessageBounds = ORDINARY,
    ) -> None:
        search = PagedSearch(self._connection, base, scope, wanted, attributes, step=LdapStep.GROUPS, bounds=bounds)
        while True:
            with in_time(LdapStep.GROUPS, self._piece_within, ""):
                entries = await search.next()
            if not entries:
                return
            for one in entries:
                take(entry_of(one))
                if one.is_cut:
                    self._members[folded_dn(one.dn)].is_cut = True

    async def _one(self, dn: str, attributes: Sequence[str]) -> LdapEntry | None:
        """None when the directory has no such entry, or does not show it."""
        found: list[LdapEntry] = []
        try:
            await self._each(dn, SearchScope.BASE, ANYBODY, attributes, found.append, bounds=_LARGE)
        except LdapFailed as failed:
            if failed.fault in {LdapFault.NO_BASE, LdapFault.SEARCH_REFUSED, LdapFault.REFERRED}:
                return None
            raise
        return found[0] if found else None

    def _person(self, entry: LdapEntry) -> None:
        settings = self._settings
        person = person_of(entry, settings.identity_attribute, ())
        if person is None:
            return
        folded, identity = self._kept(entry.dn), person.identity
        self._people[folded] = identity
        for uid in entry.texts("uid")[:1]:
            self._by_uid[uid] = None if uid in self._by_uid else identity
        primary = primary_group(entry)
        if primary is not None:
            self._count(self._primary.setdefault(primary, set()), identity)
        for named in entry.texts(settings.groups_attribute):
            if "=" in named:
                at = folded_dn(named)
                if at not in self._written:
                    self._written[self._kept(named)] = named
                self._count(self._named.setdefault(at, set()), identity)

    def _group(self, entry: LdapEntry) -> None:
        if len(self._known) >= MOST_GROUPS:
            raise LdapFailed(LdapStep.GROUPS, LdapFault.TOO_LONG)
        folded = self._kept(entry.dn)
        try:
            identity = identity_of(entry, self._settings.identity_attribute)
        except NotRecognised:
            identity = None
        self._known[folded] = _Known(entry.dn, group_name(entry), identity)
        sid = sid_of(entry)
        if sid is not None:
            self._sids[sid] = folded

    def _take(self, entry: LdapEntry) -> None:
        folded = folded_dn(entry.dn)
        members = self._members.get(folded)
        if members is None:
            # It came after the names were read. The next run knows it.
            return
        self._ranged += [(folded, ends + 1) for ends in self._ranges(members, entry).values()]
        for name in ("member", "uniquemember"):
            self._names(members, entry, name)
        for uid in entry.texts("memberUid"):
            identity = self._by_uid.get(uid)
            if identity is not None:
                self._count_in(members, identity)

    def _ranges(self, members: GroupMembers, entry: LdapEntry) -> Mapping[int, int]:
        """Where each range of members that is not the last one begins and ends."""
        found = {}
        for name in entry.attributes:
            ranged = _RANGED.fullmatch(name)
            if ranged is not None:
                self._names(members, entry, name)
                if ranged[2] != "*":
                    found[int(ranged[1])] = int(ranged[2])
        return found

    def _names(self, members: GroupMembers, entry: LdapEntry, attribute: str) -> None:
        for one in entry.texts(attribute):
            folded = folded_dn(one)
            identity = self._people.get(folded)
            if identity is not None:
                self._count_in(members, identity)
            elif folded in self._known:
                self._count(members.groups, folded)

    async def _further(self, folded: str, begins: int) -> None:
        """The rest of a group whose members come in ranges, as Active Directory has them."""
        members, dn = self._members[folded], self._known[folded].dn
        for _ in range(_MOST_RANGES):
            if members.is_full:
                members.is_cut = True
                return
            entry = await self._one(dn, (f"member;range={begins}-*",))
            ends = None if entry is None else self._ranges(members, entry).get(begins)
            if ends is None:
                return
            if ends < begins:
                raise LdapFailed(LdapStep.GROUPS, LdapFault.MALFORMED)
            begins = ends + 1
        raise LdapFailed(LdapStep.GROUPS, LdapFault.TOO_LONG)

    def _by_people(self) -> None:
        """Memberships that stand with the people, not with the group."""
        for folded, identities in self._named.items():
            if folded in self._members:
                self._members[folded].people |= identities
        for sid, identities in self._primary.items():
            group = self._sids.get(sid)
            if group is not None:
                self._members[group].people |= identities

    async def _resolved(self, base: str) -> Sequence[LdapGroup]:
        groups, left = [], MOST_LOOKS
        for folded, known in self._known.items():
            if known.identity is None or not (is_below(folded, base) or folded in self._named):
                continue
            people, is_cut, looked = resolved(self._members, folded)
            left -= looked
            if left < 0:
                raise LdapFailed(LdapStep.GROUPS, LdapFault.TOO_LONG)
            groups.append(LdapGroup(known.identity, known.dn, known.name, people, is_cut))
            await trio.lowlevel.checkpoint()
        return groups

    def _kept(self, dn: str) -> str:
        """The folded name, which stays in memory."""
        self._left_characters -= len(dn)
        if self._left_characters < 0:
            raise LdapFailed(LdapStep.GROUPS, LdapFault.TOO_LONG)
        return folded_dn(dn)

    def _count_in(self, members: GroupMembers, identity: bytes) -> None:
        if members.is_full:
            members.is_cut = True
            return
        self._count(members.people, identity)

    def _count(self, those: "set[bytes] | set[str]", one: "bytes | str") -> None:
        if one not in those:
            self._left -= 1
            if self._left < 0:
                raise LdapFailed(LdapStep.GROUPS, LdapFault.TOO_LONG)
            those.add(one)  # type: ignore[arg-type]
