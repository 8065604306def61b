"""`postern config export`: what is set, as a document."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import trio
import yaml

from core.domain.errors import NotFound
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.cli.opening import opened_postern
from entrypoints.failures import OK
from entrypoints.http.routes.configuration.exporting import exported, wholly
from entrypoints.settings import Settings

_HEAD = """\
# Made by `postern config export`. Secrets are never in it: where an object that is not there yet needs one, write env:NAME or file:/path.
"""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    tree = trio.run(_export, arguments, settings)
    if arguments.whole:
        tree = wholly(tree)
    if arguments.json:
        print(json.dumps(tree, indent=2))
    else:
        print(_HEAD + written(tree), end="")
    return OK


async def _export(arguments: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    async with opened_postern(settings) as postern:
        slugs = await postern.platform.configurations.slugs()
        if arguments.organization is not None:
            if arguments.organization not in slugs:
                raise NotFound("Organization not found")
            return await exported(DocumentOperator(postern, {}), [arguments.organization], with_platform=False)
        return await exported(DocumentOperator(postern, {}), slugs, with_platform=True, are_all=True)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # with libyaml or without
    """Writes every value where it stands: no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def written(tree: Mapping[str, Any]) -> str:
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=False)
    return text
