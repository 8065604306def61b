"""The two libraries, when they are loaded, and the threads that use them."""

import subprocess
import sys
import threading

import pytest
import trio
import trio.testing
import xmlsec
from lxml import etree

from adapters.saml.threads import XmlThreads
from core.domain.errors import Overloaded


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
