"""A secret that is added to a stored class is shown nowhere: whoever shows fields lists them."""

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.places import ROOT

PLUGIN: Final = "tests.security.added_secrets.adding"
ACTS: Final = (
    "tests/security/added_secrets/documents.py",
    *(
        f"tests/http/connections/{one}"
        for one in (
            "test_settings.py::test_a_directory_is_described_by_its_product_its_metadata_or_by_hand",
            "test_settings.py::test_a_directory_is_connected_on_the_pages",
            "test_settings.py::test_a_provider_of_openid_connect_is_made_on_the_pages_and_asks_for_what_it_has",
            "test_owners_word.py::test_an_administrators_provider_waits_for_the_owner",
            "test_refreshes.py::test_our_key_pair_changes_without_an_outage",
            "test_refreshes.py::test_an_owner_approves_or_declines",
            "test_recorder.py",
            "test_identity_assertions.py::test_an_assertion_is_checked_and_nothing_is_issued",
            "test_identity_assertions.py::test_two_connections_with_one_issuer",
        )
    ),
    "tests/http/record/test_entry_receivers.py::test_each_row_says_what_its_receiver_wrote_down",
    "tests/http/configuration/test_directories_in_documents.py",
    "tests/http/configuration/test_providers_in_documents.py",
    "tests/http/ldap/test_keeping.py::test_the_first_run_is_a_plan_that_does_nothing_until_an_owner_lets_it_go_on",
    "tests/http/upstream/test_vouched_addresses.py::test_an_owner_names_a_successor_and_then_nothing_is_lost",
    *(
        f"tests/http/upstream/further/{one}"
        for one in (
            "test_administration.py::test_a_provider_is_added_listed_changed_and_deleted",
            "test_administration.py::test_the_presets_are_listed",
            "test_administration.py::test_deleting_disconnects_everybody_and_the_accounts_stay",
            "test_logos.py::test_a_logo_stands_on_the_buttons_until_it_is_removed",
        )
    ),
    *(
        f"tests/http/tenancy/test_mail_servers.py::{one}"
        for one in (
            "test_a_mail_server_is_set_shown_replaced_and_removed",
            "test_a_test_that_fails_says_why_in_words",
            "test_after_an_hour_the_installations_server_does_its_work_and_the_owners_are_told_once",
            "test_once_it_works_again_it_does_its_work_again",
        )
    ),
)
"""Tests that do each act of the three nouns over the API, and read what shows them."""


def test_an_added_secret_is_shown_nowhere(worker_id: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=--import-mode=importlib -p no:cacheprovider", "-p", PLUGIN, *ACTS]
    environment["TESTS_ADDED_SECRETS"] = f"added_{worker_id}"
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        pytest.fail(f"{run.stdout[-8000:]}\n{run.stderr[-2000:]}")
