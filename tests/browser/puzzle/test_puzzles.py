"""Pages that ask for a puzzle, in a browser: its script computes beside the page, and people without scripts read how to go on."""

from typing import Any, Final

import pytest

from core.domain.identity.guards.puzzles import Puzzle, is_solved
from entrypoints.bootstrap import Postern
from tests.browser.checks import enter, require_keyboard, require_sound
from tests.browser.page import Page
from tests.http.pages.test_puzzles import make_mails_busy, make_sign_ins_busy
from tests.http.people import BASE_URL, People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD

# Where Chromium comes from.
HERE: Final = "127.0.0.1"
CHECKED: Final = "The check is done."
# The hashes in a second of one task of the browser, and how often the operator's bar throttles it.
SPEED: Final = """(async () => {
    const text = await (await fetch(document.querySelector("script[src*=puzzle]").src)).text();
    const hash = new Function(`${text.split("function solved")[0]}; return hashing;`)()(new Int32Array(8), 0);
    for (let number = 0; number < 20000; number += 1) hash(number);
    const began = performance.now();
    for (let number = 0; number < 200000; number += 1) hash(number);
    return 200000 / (performance.now() - began) * 1000;
})()"""


async def processor_time(page: Page) -> float:
    """In seconds, of all that draws pages and runs scripts."""
    known = await page.chromium.ask("SystemInfo.getProcessInfo")
    return float(sum(one["cpuTime"] for one in known["processInfo"] if one["type"] == "renderer"))


async def test_the_script_computes_while_somebody_fills_the_form_in(scripted_page: Page, postern: Postern, people: People) -> None:
    page = scripted_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    await require_sound(page)
    await require_keyboard(page)
    await enter(page, {"E-mail address": "bob@example.org", "Choose a password": PASSWORD})
    assert "We sent a link to bob@example.org" in await page.text()
    assert len(people.rows("select from users")) == 1


async def test_a_form_without_fields_is_sent_by_the_script(scripted_page: Page, postern: Postern, people: People) -> None:
    page = scripted_page
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_mails_busy(postern, HERE)
    await page.open("/ui/sign-in")
    await enter(page, {"E-mail address": ada.email})
    await page.click("Mail me a sign-in link instead")
    await page.arrived(f"{BASE_URL}/ui/check-mail")
    assert len(await Postbox(postern).empty()) == 1


async def test_a_sign_in_after_many_failures_by_keyboard(scripted_page: Page, postern: Postern, people: People) -> None:
    page = scripted_page
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_sign_ins_busy(postern, HERE)
    await page.open("/ui/sign-in")
    await enter(page, {"E-mail address": ada.email})
    await enter(page, {"Password": "mistyped"})
    assert await page.described("Password") == "That password is not right. Try again, or reset it."
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui"


async def test_without_scripts_the_page_says_how_long_to_wait(plain_page: Page, postern: Postern) -> None:
    page = plain_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    assert "Wait an hour: then you can send this form once without the check." in await page.text()
    assert CHECKED not in await page.text()
    await require_sound(page)
    await require_keyboard(page)


@pytest.mark.parametrize("throttled", [1, 6])
async def test_how_fast_a_browser_computes(scripted_page: Page, postern: Postern, throttled: int) -> None:
    """Prints what docs/operations.md says of it: `pytest -s`. No bar of time, since the machine may be busy."""
    page = scripted_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    await page.chromium.ask("Emulation.setCPUThrottlingRate", page.session, rate=throttled)
    await page.chromium.ask("Page.setBypassCSP", page.session, enabled=True)
    await page.reload()
    speed: Any = await page.evaluate(SPEED)
    print(f"throttled {throttled} times: {speed:.0f} hashes a second, a puzzle of 20 bits in {2**20 / speed:.1f} s")  # noqa: T201
    assert speed > 0


async def test_a_puzzle_of_twenty_bits(scripted_page: Page, postern: Postern) -> None:
    page = scripted_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    before = await processor_time(page)
    puzzle = Puzzle("of this test", 20)
    found = await page.evaluate(f"""(async () => {{
        const worker = new Worker(document.querySelector("script[src*=puzzle]").src);
        const numbers = [];
        const began = performance.now();
        return await new Promise(done => {{
            worker.onmessage = ({{ data }}) => {{
                numbers.push(data);
                if (numbers.length === {puzzle.parts}) done([numbers.join("."), (performance.now() - began) / 1000]);
            }};
            worker.postMessage({{ prefix: "{puzzle.prefix}", bits: {puzzle.part_bits}, parts: {puzzle.parts} }});
        }});
    }})()""")
    solution, seconds = found
    used = await processor_time(page) - before
    print(f"a puzzle of 20 bits in {seconds:.1f} s, {used:.2f} s of the processor")  # noqa: T201
    assert is_solved(puzzle.challenge, puzzle.bits, solution)
