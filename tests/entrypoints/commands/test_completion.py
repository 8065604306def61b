"""`postern completion`: the scripts, and what shells make of them."""

import subprocess
from pathlib import Path

import pytest

from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.verbs.completion import bash, fish, places, zsh
from entrypoints.cli.verbs.offering import offer, subcommands
from tests.tools import place_of

# The words before the cursor, what has been typed of the next one, and what the shell offers.
CASES = [
    (["mig"], {"migrate"}),
    (["service", "s"], {"show", "set", "secret"}),
    (["service", "set", "--tr"], {"--trusted"}),
    (["service", "set", "--trusted", ""], {"yes", "no"}),
    (["service", "set", "--organization", "acme", "--sign-in-policy", "m"], {"members"}),
    (["config", "e"], {"export"}),
    (["config", "--j"], {"--json"}),
    (["team", "dele"], {"delete"}),
    (["organization", "l"], {"list"}),
    (["completion", "x"], set[str]()),
    (["service", "set", "--name", "no-such-file"], set[str]()),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    commands = subcommands(command_line())
    offer(commands)
    known = dict(places("postern", commands))
    for name, text in (("bash", bash(known)), ("zsh", zsh(known)), ("fish", fish(known))):
        (folder / name).write_text(f"{text}\n")
    return folder


def _said(shell: str, script: str) -> str:
    return subprocess.run([place_of(shell), "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_bash_completes_commands_options_and_values(typed: list[str], offered: set[str], scripts: Path) -> None:
    words = " ".join(f"'{one}'" for one in ("postern", *typed))
    said = _said("bash", f"source {scripts}/bash; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _postern; echo ${{COMPREPLY[@]}}")
    assert set(said.split()) == offered


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_fish_completes_commands_options_and_values(typed: list[str], offered: set[str], scripts: Path) -> None:
    said = _said("fish", f"source {scripts}/fish; complete -C 'postern {' '.join(typed)}'")
    assert {line.partition("\t")[0] for line in said.splitlines()} >= offered


def test_zsh_reads_the_script_and_knows_the_words(scripts: Path) -> None:
    said = _said("zsh", f"compdef() {{ :; }}; source {scripts}/zsh; _postern_words 'postern service set:--trusted'")
    assert said.split() == ["yes", "no"]


def test_the_scripts_of_zsh_and_fish_name_what_there_is(scripts: Path) -> None:
    in_zsh, in_fish = (scripts / "zsh").read_text(), (scripts / "fish").read_text()
    assert in_zsh.startswith("#compdef postern\n")
    assert '  "postern service set:"--trusted) words="yes no" ;;' in in_zsh
    assert "complete -c postern -n '__postern_at postern service' -f -a set -d 'change a service'" in in_fish
    assert "complete -c postern -n '__postern_at postern service set' -l trusted -x -a 'yes no' -d 'Whether members of" in in_fish
    assert "complete -c postern -n '__postern_at postern team delete' -l yes -d 'do not ask for confirmation'" in in_fish
    # A quote in a text would end the text.
    for line in in_fish.splitlines():
        assert line.replace("\\'", "").count("'") % 2 == 0


def test_every_command_has_a_place(scripts: Path) -> None:
    script = (scripts / "bash").read_text()
    for words in ("migrate", "backup restore", "config plan", "service list", "upstream-provider approve-certificate", "completion"):
        assert f'  "postern {words}:"*) words="' in script
