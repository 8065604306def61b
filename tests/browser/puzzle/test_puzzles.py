"""Pages that ask for a puzzle, in a browser: its script computes beside the page, and people without scripts read how to go on."""

from typing import Any, Final

from core.domain.identity.guards.puzzles import Puzzle, is_solved
from entrypoints.bootstrap import Postern
from ops.browser.page import Page
from tests.browser.checks import enter, require_keyboard, require_sound
from tests.http.pages.test_puzzles import make_mails_busy, make_sign_ins_busy
from tests.http.people import BASE_URL, People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD

# Where Chromium comes from.
HERE: Final = "127.0.0.1"
CHECKED: Final = "Check complete."


async def test_the_script_computes_while_somebody_fills_the_form_in(scripted_page: Page, postern: Postern, people: People) -> None:
    page = scripted_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    await require_sound(page)
    await require_keyboard(page)
    await enter(page, {"Email address": "bob@example.org", "Choose a password": PASSWORD})
    assert "A verification link was sent to bob@example.org" in await page.text()
    assert len(people.rows("select from users")) == 1


async def test_a_form_without_fields_is_sent_by_the_script(scripted_page: Page, postern: Postern, people: People) -> None:
    page = scripted_page
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_mails_busy(postern, HERE)
    await page.open("/ui/sign-in")
    await enter(page, {"Email address": ada.email})
    await page.click("Email me a sign-in link instead")
    await page.arrived(f"{BASE_URL}/ui/check-mail")
    assert len(await Postbox(postern).empty()) == 1


async def test_a_sign_in_after_many_failures_by_keyboard(scripted_page: Page, postern: Postern, people: People) -> None:
    page = scripted_page
    ada = await people.with_password(PASSWORD, "ada@example.org")
    await make_sign_ins_busy(postern, HERE)
    await page.open("/ui/sign-in")
    await enter(page, {"Email address": ada.email})
    await enter(page, {"Password": "mistyped"})
    assert await page.described("Password") == "The password is incorrect. Try again, or reset it."
    await enter(page, {"Password": PASSWORD})
    assert await page.place() == f"{BASE_URL}/ui"


async def test_without_scripts_the_page_says_how_long_to_wait(plain_page: Page, postern: Postern) -> None:
    page = plain_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    assert "wait one hour. You can then send this form once without the check." in await page.text()
    assert CHECKED not in await page.text()
    await require_sound(page)
    await require_keyboard(page)


async def test_the_script_finds_what_the_server_takes(scripted_page: Page, postern: Postern) -> None:
    # The browser of the tests runs without a compiler for scripts, so the twenty bits of docs/operations/people.md would take it half a
    # minute.
    page = scripted_page
    await make_mails_busy(postern, HERE)
    await page.open("/ui/register")
    puzzle = Puzzle("of this test", 14)
    solution: Any = await page.evaluate(f"""(async () => {{
        const worker = new Worker(document.querySelector("script[src*=puzzle]").src);
        const numbers = [];
        return await new Promise(done => {{
            worker.onmessage = ({{ data }}) => {{
                numbers.push(data);
                if (numbers.length === {puzzle.parts}) done(numbers.join("."));
            }};
            worker.postMessage({{ prefix: "{puzzle.prefix}", bits: {puzzle.part_bits}, parts: {puzzle.parts} }});
        }});
    }})()""")
    assert is_solved(puzzle.challenge, puzzle.bits, solution)
