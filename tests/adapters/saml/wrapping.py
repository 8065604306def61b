"""Signature wrapping: the signed part of a good answer survives somewhere, and the attacker's part stands where a reader looks. The eight
classic forms are among them, and more places to hide the signed part in.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

from lxml import etree

from ops.stand_ins.saml import DS, SAML, SAMLP, assertion, directory, document, name_id, response, sign, signed_assertion, written
from tests.adapters.saml.answering import answer, encrypted, signed_response

EVIL: Final = "p-666"
_NAMES: Final = {"a": SAML, "p": SAMLP, "ds": DS}
Hide = Callable[[Any, Any], None]
"""Puts the signed element (second) somewhere into the attacker's document (first)."""


def _new(parent: Any, name: str, namespace: str = SAML, place: int | None = None) -> Any:
    made = etree.Element(f"{{{namespace}}}{name}")
    parent.insert(len(parent) if place is None else place, made)
    return made


def _at(path: str) -> Callable[[Any], Any]:
    return lambda root: root.find(path, _NAMES)


def _into(path: str, *names: str, namespace: str = SAML, place: int | None = None) -> Hide:
    """Into the element at this path, within new elements of these names."""

    def hide(root: Any, original: Any) -> None:
        parent = root if path == "." else root.find(path, _NAMES)
        for name in names:
            parent = _new(parent, name, namespace, place)
        parent.insert(len(parent) if place is None or names else place, original)

    return hide


def _beside(path: str, *, before: bool) -> Hide:
    def hide(root: Any, original: Any) -> None:
        found = root.find(path, _NAMES)
        (found.addprevious if before else found.addnext)(original)

    return hide


_EVERYWHERE: Final[dict[str, Hide]] = {
    "in Extensions": _into(".", "Extensions", namespace=SAMLP, place=1),
    "in StatusDetail": _into("p:Status", "StatusDetail", namespace=SAMLP),
    "in StatusMessage": _into("p:Status", "StatusMessage", namespace=SAMLP),
    "as the first child": _into(".", place=0),
    "as the last child": _into("."),
    "in the attacker's assertion": _into("a:Assertion"),
    "first in the attacker's assertion": _into("a:Assertion", place=0),
    "in Advice": _into("a:Assertion", "Advice"),
    "in Issuer": _into("a:Assertion/a:Issuer"),
    "in NameID": _into("a:Assertion/a:Subject/a:NameID"),
    "in SubjectConfirmationData": _into("a:Assertion/a:Subject/a:SubjectConfirmation/a:SubjectConfirmationData"),
    "in Conditions": _into("a:Assertion/a:Conditions"),
    "in AuthnContextDecl": _into("a:Assertion/a:AuthnStatement/a:AuthnContext", "AuthnContextDecl"),
    "in AttributeValue": _into("a:Assertion/a:AttributeStatement/a:Attribute/a:AttributeValue"),
    "in an EncryptedAssertion": _into(".", "EncryptedAssertion"),
    "in another Response": _into(".", "Response", namespace=SAMLP),
}
_BESIDE: Final[dict[str, Hide]] = {
    "before the attacker's": _beside("a:Assertion", before=True),
    "behind the attacker's": _beside("a:Assertion", before=False),
}


def _in_signature(path: str, *names: str) -> Hide:
    return _into(path, *names, namespace=DS)


_MOVED: Final[dict[str, tuple[str, ...]]] = {"in ds:Object": ("Object",), "in the signature": (), "in KeyInfo": ("KeyInfo",)}


def _attackers(*, same_id: bool, of_assertion: bool) -> Any:
    """An unsigned answer for another person."""
    ids = ("_a1", "_r1") if same_id else ("_a666", "_r666")
    text = response(assertion(name=name_id(EVIL), ID=ids[0] if of_assertion else "_a666"), ID="_r1" if of_assertion else ids[1])
    return document(text)


def wrapped() -> Iterator[tuple[str, str]]:
    """Each with its name."""
    for what in ("assertion", "response"):
        of_assertion = what == "assertion"
        places = _EVERYWHERE | _BESIDE if of_assertion else _EVERYWHERE
        where = "a:Assertion/ds:Signature" if of_assertion else "ds:Signature"
        for same_id in (False, True):
            said = ", under the same ID" if same_id else ""
            for place, hide in places.items():
                yield f"a signed {what} {place}{said}", _made(hide, of_assertion=of_assertion, same_id=same_id, moved=False)
                yield (
                    f"a signed {what} {place}, its signature moved{said}",
                    _made(hide, of_assertion=of_assertion, same_id=same_id, moved=True),
                )
            for place, names in _MOVED.items():
                hide = _in_signature(where, *names)
                yield f"a signed {what} {place}{said}", _made(hide, of_assertion=of_assertion, same_id=same_id, moved=True)


def _made(hide: Hide, *, of_assertion: bool, same_id: bool, moved: bool) -> str:
    root = _attackers(same_id=same_id, of_assertion=of_assertion)
    if of_assertion:
        original = document(signed_assertion())
        target = root.find("a:Assertion", _NAMES)
    else:
        original = document(signed_response(response()))
        target = root
    if moved:
        target.insert(1, original.find("ds:Signature", _NAMES))
    hide(root, original)
    return written(root)


def within_encryption() -> Iterator[tuple[str, str]]:
    """The same beneath encryption, which anybody can do with our certificate."""
    evil, good = document(assertion(name=name_id(EVIL), ID="_a666")), document(signed_assertion())
    nested = deepcopy(evil)
    nested.append(deepcopy(good))
    moved = deepcopy(evil)
    moved.insert(1, deepcopy(good.find("ds:Signature", _NAMES)))
    hidden = deepcopy(moved)
    stripped = deepcopy(good)
    stripped.remove(stripped.find("ds:Signature", _NAMES))
    _new(hidden.find("ds:Signature", _NAMES), "Object", DS).append(stripped)
    yield "encrypted: the attacker's around the signed", response(encrypted(written(nested)))
    yield "encrypted: the signature moved", response(encrypted(written(moved)))
    yield "encrypted: the signed in ds:Object", response(encrypted(written(hidden)))
    yield "encrypted: two assertions", response(encrypted(written(evil) + written(good)))
    yield "encrypted: two assertions, the signed first", response(encrypted(written(good) + written(evil)))
    yield "encrypted: the attacker's, beside the signed in plain", response(encrypted(written(evil)) + written(good))
    yield "encrypted: the signed, beside the attacker's in plain", response(written(evil) + encrypted(written(good)))
    yield "encrypted: twice", response(encrypted(encrypted(written(good))))
    yield "encrypted: a whole answer", response(encrypted(answer()))
    yield "encrypted: text around the assertion", response(encrypted(f"x{written(good)}"))
    yield "encrypted: a way out of what is around", response(encrypted(f"{written(good)}</around><around>"))
    signed_shell = document(response(encrypted(written(evil))))
    shell = signed_shell.find("a:EncryptedAssertion", _NAMES)
    shell.set("ID", "_a1")
    shell.insert(0, deepcopy(good.find("ds:Signature", _NAMES)))
    yield "encrypted: a signature beside the ciphertext", written(signed_shell)


def of_both() -> Iterator[tuple[str, str]]:
    """Answers with two signatures, of which one is not good."""
    stranger = document(answer())
    sign(stranger, directory())
    changed = deepcopy(stranger)
    changed.find(".//a:NameID", _NAMES).text = EVIL
    yield "changed under both signatures", written(changed)
    resigned = document(response(written(document(signed_assertion()))))
    resigned.find(".//a:NameID", _NAMES).text = EVIL
    sign(resigned, directory())
    yield "the response signed over a changed assertion", written(resigned)
    twice = deepcopy(stranger)
    twice.append(deepcopy(twice.find("ds:Signature", _NAMES)))
    yield "the signature of the response twice", written(twice)
    swapped = deepcopy(stranger)
    inner, outer = swapped.find("a:Assertion/ds:Signature", _NAMES), swapped.find("ds:Signature", _NAMES)
    place = swapped.find("a:Assertion", _NAMES)
    swapped.insert(1, inner)
    place.insert(1, outer)
    yield "the two signatures swapped", written(swapped)
