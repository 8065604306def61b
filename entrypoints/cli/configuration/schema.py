"""`postern config schema`: the JSON schema of configuration documents."""

import argparse
import json

from entrypoints.failures import OK
from entrypoints.http.routes.configuration.schema import schema


def run(_arguments: argparse.Namespace) -> int:
    print(json.dumps(schema(), indent=2))
    return OK
