"""The runs of a directory by LDAP in the console, and an owner's word about one that waits."""

from typing import Any, Final

from psycopg.types.json import Jsonb

from tests.http.pages.console.conftest import HOME, ConsoleScene

_COUNTS: Final = {"read": 9, "came": 2, "held_back": 1, "left_out": 1, "reasons": {"no_address": 1}}


async def _waiting(console: ConsoleScene, **settings: Any) -> tuple[str, str]:
    """A connection whose first plan waits. Only a reading of a real directory makes one."""
    await console.at("/directories/~new")
    await console.submit("/directories/~new", kind="openldap", name="Acme directory")
    kept = Jsonb({"keeps_in_step": True, **settings})
    console.people.change("update upstream_providers set state = 'active', enabled = true, ldap = ldap || %s", kept)
    (provider,) = console.people.rows("select id, org_id from upstream_providers")
    steps = console.postern.federation.directory_keeping
    (step,) = await steps.claim_due(10)
    run, digest = console.postern.foundation.ids.new(), (await console.postern.tenancy.upstream_providers.lookup.list(step.organization))[0]
    console.people.change(
        "insert into directory_runs (id, org_id, connection_id, kind, state, started_at, ended_at, counts, settings_digest, digest)"
        " values (%s, %s, %s, 'plan', 'waiting', now(), now(), %s, %s, %s)",
        *(run, provider["org_id"], provider["id"], Jsonb(_COUNTS), digest.digest, b"d" * 32),
    )
    for place, (what, reason, named) in enumerate((("end", "gone", "<b>bob</b>@acme.example"), ("left_out", "no_address", "uid=eve"))):
        console.people.change(
            "insert into directory_run_people (run_id, org_id, place, what, reason, named) values (%s, %s, %s, %s, %s, %s)",
            *(run, provider["org_id"], place, what, reason, named),
        )
    return f"/directories/{provider['id']}/runs", str(run)


async def test_a_run_that_waits_names_whom_it_would_end_and_goes_on_by_an_owners_press(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    listed = (await console.at(runs)).page.text
    assert "Waits for an owner" in listed
    shown = await console.at(f"{runs}/{run}")
    assert "Not in the directory any more" in shown.page.text
    assert "No address" in shown.page.text
    assert b"<b>bob" not in shown.shown.body
    asked = await console.at(f"{runs}/{run}/go-on")
    assert "acme.example" in asked.page.text
    done = await console.submit(f"{runs}/{run}/go-on")
    assert done.status == 200, done.shown.body
    assert console.people.rows("select state from directory_runs") == [{"state": "agreed"}]
    assert "Waits for an owner" not in (await console.at(f"{runs}/{run}")).page.text


async def test_an_owner_leaves_a_run_and_starts_another(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    await console.at(f"{runs}/{run}/leave")
    await console.submit(f"{runs}/{run}/leave")
    assert console.people.rows("select state from directory_runs") == [{"state": "left"}]
    assert "No run is planned" in (await console.at(f"{runs}/{run}")).page.text
    provider = runs.removesuffix("/runs")
    await console.at(provider)
    await console.submit(f"{provider}/run")
    assert console.people.rows("select wants_whole, next_at is not null as due from directory_steps") == [
        {"wants_whole": True, "due": True}
    ]


async def test_others_see_no_button_and_strangers_see_nothing(console: ConsoleScene) -> None:
    runs, run = await _waiting(console)
    admin = await console.colleague("admin").open(f"{HOME}{runs}/{run}")
    assert "Would end" in admin.page.text
    assert f"{HOME}{runs}/{run}/go-on" not in admin.shown.body.decode()
    _, stranger = console.stranger()
    assert (await stranger.open(f"{HOME}{runs}/{run}")).status in {403, 404}
    assert (await stranger.open(f"/ui/o/globex{runs}/{run}")).status == 404
