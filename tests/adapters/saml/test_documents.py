"""The two libraries, when they are loaded, and the threads that use them."""

import subprocess
import sys
import threading
import zlib
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest
import trio
import trio.testing
import xmlsec
from lxml import etree

from adapters.saml.documents import XmlDocuments, XmlThreads
from core.domain.errors import Overloaded
from core.domain.saml import Envelope, MessageRefused, SamlBinding
from ops.stand_ins.saml import pair

T = TypeVar("T")


def test_the_two_libraries_have_one_libxml2() -> None:
    """They pass nodes to each other. With two versions, that would corrupt memory."""
    versions = {
        etree.LIBXML_VERSION,
        etree.LIBXML_COMPILED_VERSION,
        xmlsec.get_libxml_version(),
        xmlsec.get_libxml_compiled_version(),
    }
    assert len(versions) == 1


def test_nobody_pays_for_them_who_does_not_use_saml() -> None:
    code = "import sys, entrypoints.daemon, entrypoints.http.application; print({'lxml', 'xmlsec'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


class _Counting(XmlThreads):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.runs += 1
        return await super().run(work)


def _request(more: str = "") -> Envelope:
    document = (
        '<p:AuthnRequest xmlns:p="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:a="urn:oasis:names:tc:SAML:2.0:assertion" ID="_1">'
        f"<a:Issuer>somebody</a:Issuer>{more}</p:AuthnRequest>"
    )
    packing = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packing.compress(document.encode()) + packing.flush()
    return Envelope(binding=SamlBinding.REDIRECT, packed=b64encode(packed).decode())


async def test_a_short_message_with_nothing_to_check_is_read_at_once() -> None:
    """After the first one, which brings the libraries."""
    documents = XmlDocuments(threads := _Counting(), trio.lowlevel.checkpoint)
    assert (await documents.read_authn_request(_request(), ())).head.issuer == "somebody"
    assert threads.runs == 1
    assert (await documents.read_authn_request(_request(), ())).head.issuer == "somebody"
    with pytest.raises(MessageRefused, match="it is no LogoutRequest"):
        await documents.read_logout_request(_request(), ())
    with pytest.raises(MessageRefused, match="not base64"):
        await documents.read_authn_request(Envelope(binding=SamlBinding.REDIRECT, packed="%"), ())
    assert threads.runs == 1
    # Signatures, and what is long when it is unpacked.
    for envelope, certificates in ((_request(), (pair().certificate,)), (_request(" " * 5000), ()), (_request(" " * 100_000), ())):
        before = threads.runs
        with suppress(MessageRefused):
            assert (await documents.read_authn_request(envelope, certificates)).head.issuer == "somebody"
        assert threads.runs == before + 1


async def test_the_work_is_bounded() -> None:
    threads = XmlThreads(threads=1, most_waiting=1)
    begun, go_on = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait()
        return threading.current_thread().name

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, work)
        await trio.to_thread.run_sync(begun.wait)
        nursery.start_soon(threads.run, work)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Overloaded):
            await threads.run(work)
        go_on.set()
    assert await threads.run(lambda: 1) == 1
