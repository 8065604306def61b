"""Writes entrypoints/cli/verbs/verbs.jsonl: the words, the help and the options of the verbs, as the endpoints declare them.

    .venv/bin/python -m ops.written.verbs

Run it after you have changed the declaration of an endpoint of an organization.
"""

import json
from collections.abc import Iterator

from entrypoints.cli.verbs.deriving import all_verbs, table_of
from entrypoints.cli.verbs.offering import TABLE


def lines() -> Iterator[str]:
    return (json.dumps(verb, ensure_ascii=False) for verb in table_of(all_verbs()))


def main() -> None:
    TABLE.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")


if __name__ == "__main__":
    main()
