"""Functions of the schema that stores call, made of the parts that statements share."""

import re
from collections.abc import Container, Iterable, Mapping
from textwrap import fill, indent
from typing import Final, LiteralString, NamedTuple

from adapters.postgres.migrating.schema import NotReplaceable

_PARAMETER: Final = re.compile(r"%\((\w+)\)s|%%")
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n)+")
_WIDTH: Final = 130
_BEGINS: Final = "-- Written by `python -m ops.written.functions`: from here on, change the parts in Python that a function is made of.\n"
_FUNCTION: Final = re.compile(r"(?:^--[^\n]*\n)*^create or replace function (?P<name>\w+)\(.*?^end \$\$;\n", re.MULTILINE | re.DOTALL)


class Function(NamedTuple):
    """A statement sets up all of its parts at each run, used or not. A function of small statements runs the parts that a call needs. It is
    a last resort, for the few statements that are long and that many requests need (docs/decisions/0229).

    The body is in Python beside the store that calls it, and `python -m ops.written.functions` writes the function into the file of views
    and functions. So statements and functions share one rule, and a test finds a change that is not in the file.

    A part names its parameters as in a statement, `%(at)s`. A part reads `users.id` or `services.is_agent` from a table of this name, or
    from a variable of this name where the small statement has no such table.
    """

    name: LiteralString
    """It ends with the edition of the file in which the function last changed. A process of the release before goes on calling the older
    function, so a changed function has a new name.
    """
    about: LiteralString
    """What it does, for a reader of the file, in one line."""
    arguments: Mapping[LiteralString, LiteralString]
    """The type of each parameter that the parts name."""
    result: Mapping[LiteralString, LiteralString]
    """The type of each column, in their order."""
    variables: Mapping[LiteralString, LiteralString]
    body: LiteralString

    def call(self, columns: LiteralString, *, without: Container[str] = ()) -> LiteralString:
        """The statement that calls the function, with a parameter for each argument. Those in `without` are null."""
        arguments: list[LiteralString] = [
            f"null::{kind}" if name in without else f"%({name})s::{kind}" for name, kind in self.arguments.items()
        ]
        listed: LiteralString = ", ".join(arguments)
        return f"select {columns} from {self.name}({listed})"

    def text(self) -> str:
        """The statement that makes the function."""
        arguments = _listed(f"{_given(name)} {kind}" for name, kind in self.arguments.items())
        result = _listed(f"{name} {kind}" for name, kind in self.result.items())
        variables = "".join(f"    {name} {kind};\n" for name, kind in self.variables.items())
        text = (
            f"-- {self.about}\n"
            f"create or replace function {self.name}({arguments})\n"
            f"    returns table ({result})\n"
            "    language plpgsql volatile security invoker\n"
            "    set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$\n"
            "#variable_conflict use_column\n"
            f"declare\n{variables}begin\n{_of_arguments(self.body, self.arguments)}\nend $$;\n"
        )
        return "".join(f"{line.rstrip()}\n" for line in _BLANK_LINES.sub("\n", text).splitlines())


def _listed(items: Iterable[str]) -> str:
    return f"\n{indent(fill(', '.join(items), _WIDTH), ' ' * 8)}\n    "


def _given(argument: str) -> str:
    """No column has such a name, so an argument is never taken for one."""
    return f"given_{argument}"


def _of_arguments(body: str, arguments: Mapping[LiteralString, LiteralString]) -> str:
    """Raises `KeyError` for a parameter that is no argument."""
    named: Mapping[str, str] = {name: _given(name) for name in arguments}
    return _PARAMETER.sub(lambda found: "%" if found[1] is None else named[found[1]], body)


def written(file: str, *functions: Function) -> str:
    """The file of views and functions with these functions at its end. A function that stands there under another name is the one that
    processes of the release before call: it moves before the written part, and leaves the file one release later. Raises `NotReplaceable`.
    """
    by_hand, _, before = file.partition(_BEGINS)
    if _FUNCTION.sub("", before).strip():
        raise NotReplaceable("have something in their written part that is no function")
    names = {one.name for one in functions}
    former = [one[0] for one in _FUNCTION.finditer(before) if one["name"] not in names]
    return "\n".join([f"{by_hand.rstrip()}\n", *former, _BEGINS, *(one.text() for one in functions)])
