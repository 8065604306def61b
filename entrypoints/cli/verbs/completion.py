"""`postern completion bash|zsh|fish`: a script with which a shell completes commands, options and their values. The script is made from the
parser of the command line, with all verbs.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from core.frozen import Frozen
from entrypoints.cli.verbs.offering import Commands, offer
from entrypoints.failures import OK


class CommandPlace(Frozen):
    """What may follow the words of a command, each with its help."""

    words: Mapping[str, str]
    flags: Mapping[str, str]
    options: Mapping[str, str]
    """Options with a value."""
    values: Mapping[str, tuple[str, ...]]
    """The values of those options that have only some."""


def run(given: argparse.Namespace) -> int:
    offer(given.commands)
    print(_SCRIPTS[given.shell](dict(places("postern", given.commands))))
    return OK


def places(path: str, commands: Commands) -> Iterator[tuple[str, CommandPlace]]:
    helps = {one.dest: one.help or "" for one in commands._choices_actions}  # noqa: SLF001 - argparse has no public name for it
    yield path, CommandPlace({name: helps.get(name, "") for name in commands.choices}, {}, {}, {})
    for name, parser in commands.choices.items():
        yield from _places(f"{path} {name}", parser)


def _places(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, CommandPlace]]:
    flags: dict[str, str] = {}
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:  # noqa: SLF001 - as above
        for option in action.option_strings:
            if option.startswith("--") and action.help != argparse.SUPPRESS:
                (flags if action.nargs == 0 else options)[option] = action.help or ""
                if among := _among(action):
                    values[option] = among
    here = CommandPlace({}, flags, options, values)
    for group in parser._actions:  # noqa: SLF001 - as above
        if isinstance(group, argparse._SubParsersAction):  # noqa: SLF001 - as above
            (_, inner), *others = places(path, group)
            here = CommandPlace(inner.words, flags, options, values)
            yield from others
    yield path, here


def _among(action: argparse.Action) -> tuple[str, ...]:
    """The only values of an option, such as `yes|no`."""
    if action.choices:
        return tuple(map(str, action.choices))
    words = action.metavar if isinstance(action.metavar, str) else ""
    return tuple(words.split("|")) if "|" in words else ()


def bash(known: Mapping[str, CommandPlace]) -> str:
    return _BASH.format(known=_known(known))


def zsh(known: Mapping[str, CommandPlace]) -> str:
    return _ZSH.format(known=_known(known))


def fish(known: Mapping[str, CommandPlace]) -> str:
    lines = []
    for path, place in known.items():
        here = f"complete -c postern -n '__postern_at {path}'"
        lines += [f"{here} -f -a {name} -d {_quoted(text)}" for name, text in place.words.items()]
        lines += [f"{here} -l {flag[2:]} -d {_quoted(text)}" for flag, text in place.flags.items()]
        for option, text in place.options.items():
            among = f" -x -a '{' '.join(place.values[option])}'" if option in place.values else " -r"
            lines.append(f"{here} -l {option[2:]}{among} -d {_quoted(text)}")
    return _FISH.format(lines="\n".join(lines))


def _known(known: Mapping[str, CommandPlace]) -> str:
    """The arms of a `case` over the words of a command and the word before the cursor. The first that fits counts."""
    arms = []
    for path, place in known.items():
        arms += [f'  "{path}:"{option}) words="{" ".join(values)}" ;;' for option, values in place.values.items()]
        free = "|".join(f'"{path}:"{option}' for option in place.options if option not in place.values)
        arms += [f'  {free}) words="" ;;'] if free else []
        arms.append(f'  "{path}:"*) words="{" ".join([*place.words, *place.flags, *place.options])}" ;;')
    return "\n".join(arms)


def _quoted(text: str) -> str:
    first = text.replace("%%", "%").partition(". ")[0].removesuffix(".")
    return "'" + first.replace("\\", "\\\\").replace("'", "\\'") + "'"


# Without a word of ours, the shell completes names of files.
_BASH: Final = """\
# Completion of postern for bash. In ~/.bashrc: source <(postern completion bash)
_postern() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" path=postern words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in -*) break ;; esac
    path="$path $word"
  done
  case "$path:$before" in
{known}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _postern postern"""
_ZSH: Final = """\
#compdef postern
# Completion of postern for zsh. In ~/.zshrc, after compinit: source <(postern completion zsh)
_postern() {{
  local before="${{words[CURRENT-1]}}" path=postern offered="" word
  local -a given=("${{(@)words[2,CURRENT-1]}}")
  for word in $given; do
    case "$word" in -*) break ;; esac
    path="$path $word"
  done
  offered="$(_postern_words "$path:$before")"
  if [[ -n "$offered" ]]; then compadd -- ${{=offered}}; else _files; fi
}}
_postern_words() {{
  local words=""
  case "$1" in
{known}
  esac
  print -r -- "$words"
}}
compdef _postern postern"""
_FISH: Final = """\
# Completion of postern for fish. In ~/.config/fish/config.fish: postern completion fish | source
function __postern_at
  set -l given
  for word in (commandline -opc)
    string match -q -- '-*' $word; and break
    set -a given (path basename -- $word)
  end
  test "$given" = "$argv"
end
{lines}"""
_SCRIPTS: Final = {"bash": bash, "zsh": zsh, "fish": fish}
