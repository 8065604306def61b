"""Names forms of hashes that nobody reads here, by their beginnings, so that a report says which of them a file has. A text that is no hash
could be a password, so nothing of it is repeated but marks of this list.
"""

import re
from collections.abc import Sequence
from typing import Final

UNKNOWN: Final = "The hash has no form that Postern knows, or is malformed"
_UNREAD: Final[Sequence[tuple[str, str]]] = (
    (r"\*[0-9A-F]{40}\Z", "The hash is of MySQL, which is not read"),
    (r"[!*]", "There is no password: the text begins as one that was switched off"),
    (r"\$1\$", "The hash is $1$, md5-crypt, which is not read"),
    (r"\$apr1\$", "The hash is $apr1$, Apache's MD5, which is not read"),
    (r"\$md5[$,]", "The hash is $md5, Sun's MD5, which is not read"),
    (r"\$sha1\$", "The hash is $sha1$, NetBSD's crypt, which is not read"),
    (r"\$g?y\$", "The hash is $y$, yescrypt, which is not read"),
    (r"\$7\$", "The hash is $7$, scrypt's own crypt, which is not read"),
    (r"\$S\$", "The hash is $S$, Drupal 7, which is not read"),
    (r"\$3\$", "The hash is $3$, of Windows NT, which is not read"),
    (r"\$p5k2\$", "The hash is $p5k2$, PBKDF2 in Dwayne Litzenberger's form, which is not read"),
    (r"grub\.", "The hash is grub., PBKDF2 as GRUB has it, which is not read"),
    (r"\{FSHP", "The hash is {FSHP}, the Fairly Secure Hashed Password, which is not read"),
    (r"md5\$", "The hash is md5$, Django's MD5, which is not read"),
    (r"sha1\$", "The hash is sha1$, Django's SHA-1, which is not read"),
    (r"\{S?MD5\}", "The hash is {MD5} or {SMD5}, which is not read"),
    (r"\{SHA\}", "The hash is {SHA}, SHA-1 without a salt, which is not read"),
    (r"\{noop\}", "The text is {noop}, a password as it was typed, which is not read"),
    (r"[0-9A-Fa-f]{32}\Z", "The hash is 32 hexadecimal digits, as of MD5, which is not read"),
    (r"[0-9A-Fa-f]{40}\Z", "The hash is 40 hexadecimal digits, as of SHA-1 without a salt, which is not read"),
    (r"[0-9A-Fa-f]{64}\Z", "The hash is 64 hexadecimal digits, as of SHA-256 without a salt, which is not read"),
    (r"[0-9A-Fa-f]{128}\Z", "The hash is 128 hexadecimal digits: --hash says how it was made"),
    (r"[0-9A-Fa-f]{8,}[:.][0-9A-Fa-f]{8,}\Z", "The hash is two texts of hexadecimal digits: --hash says how they were made"),
)


def unread(text: str) -> str:
    """What a report says of a hash that has no form of ours."""
    return next((words for mark, words in _UNREAD if re.match(mark, text)), UNKNOWN)
