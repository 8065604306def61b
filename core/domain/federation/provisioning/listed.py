"""Those whom the list of the other system names, in a few bytes each: the list is as long as that system likes."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final

from core.domain.federation.provisioning.people import RemoteIdentity

MOST_BYTES_LISTED: Final = 8 << 20
"""Of one run, for all whom we have not sent. A list of more does not end: an id of 36 characters makes 92 bytes of a person."""
_DIGEST: Final = 16
# In a word of 64 bits: the beginning of a digest, and the number of a person.
_NUMBER: Final = 24
_BEGINNING: Final = (64 - _NUMBER) // 8
_NOTHING: Final = bytes(_DIGEST)
# Two are as ambiguous as a hundred thousand with the same name.
_MOST_ALIKE: Final = 2


def _digest(text: str | None) -> bytes:
    """Zeros for whoever has none."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest() if text else _NOTHING


class SeenThere:
    """Whom the list has named, a word of 64 bits each. It says the same in every process."""

    def __init__(self, words: bytes = b"") -> None:
        self.words = array("Q", words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, far_id: str) -> bool:
        word = self._word(far_id)
        at = bisect_left(self.words, word)
        return at < len(self.words) and self.words[at] == word

    def add(self, far_id: str) -> bool:
        """Returns whether the list names this one for the first time."""
        word = self._word(far_id)
        at = bisect_left(self.words, word)
        if at < len(self.words) and self.words[at] == word:
            return False
        self.words.insert(at, word)
        return True

    @staticmethod
    def _word(far_id: str) -> int:
        return int.from_bytes(_digest(far_id)[:8])


class StrangersThere:
    """Whom we have not sent: of each the id, and two digests, of `userName` without letter case and of `externalId`."""

    def __init__(self, blobs: Sequence[bytes] = (b"",) * 5) -> None:
        """Of what `blobs` has given. Raises `ValueError` for anything else."""
        ids, starts, digests, names, externals = blobs
        self._ids, self._digests = bytearray(ids), bytearray(digests)
        self._starts, self._names, self._externals = array("I", starts), array("Q", names), array("Q", externals)
        if len(self._digests) != 2 * _DIGEST * len(self._starts):
            raise ValueError

    def blobs(self) -> Sequence["bytearray | array[int]"]:
        return (self._ids, self._starts, self._digests, self._names, self._externals)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(one) * (one.itemsize if isinstance(one, array) else 1) for one in self.blobs())

    def add(self, identity: RemoteIdentity) -> None:
        name, external = _digest((identity.user_name or "").casefold()), _digest(identity.external_id)
        number = len(self._starts)
        self._starts.append(len(self._ids))
        self._ids += identity.far_id.encode("utf-8", "surrogatepass")
        self._digests += name + external
        for words, digest in ((self._names, name), (self._externals, external)):
            if digest != _NOTHING:
                insort(words, self._word(digest) | number)

    def like(self, external_id: str, user_name: str) -> Sequence[RemoteIdentity]:
        """Those with this `externalId`, or else with this name. Of an `externalId` that is another it is known only that there is one: it
        is `OTHER`. Two at most: more are no less ambiguous.
        """
        external, name = _digest(external_id), _digest(user_name.casefold())
        found = list(islice(self._with(self._externals, external, _DIGEST), _MOST_ALIKE))
        found = found or list(islice(self._with(self._names, name, 0), _MOST_ALIKE))
        return [self._identity(one, (external, external_id), (name, user_name)) for one in found]

    def _with(self, words: "array[int]", digest: bytes, place: int) -> Iterator[int]:
        if digest == _NOTHING:
            return
        wanted = self._word(digest)
        at = bisect_left(words, wanted)
        while at < len(words) and words[at] >> _NUMBER == wanted >> _NUMBER:
            number = words[at] & ((1 << _NUMBER) - 1)
            if self._digest_of(number, place) == digest:
                yield number
            at += 1

    def _identity(self, number: int, external: tuple[bytes, str], name: tuple[bytes, str]) -> RemoteIdentity:
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self._ids)
        theirs = self._digest_of(number, _DIGEST)
        return RemoteIdentity(
            far_id=self._ids[self._starts[number] : end].decode("utf-8", "surrogatepass"),
            external_id=external[1] if theirs == external[0] else None if theirs == _NOTHING else OTHER,
            user_name=name[1] if self._digest_of(number, 0) == name[0] else None,
        )

    def _digest_of(self, number: int, place: int) -> bytes:
        at = 2 * _DIGEST * number + place
        return bytes(self._digests[at : at + _DIGEST])

    @staticmethod
    def _word(digest: bytes) -> int:
        return int.from_bytes(digest[:_BEGINNING]) << _NUMBER


OTHER: Final = "\0another"
"""Stands for an `externalId` that is known by its digest alone."""
