"""Writes `docs/metrics.md` from the declarations: `python -m entrypoints.metrics_page > docs/metrics.md`. A test keeps it current."""

import sys
from typing import Final

from adapters.metrics import every_metric

_HEAD: Final = """\
# Metrics

<!-- Made by `python -m entrypoints.metrics_page > docs/metrics.md`; a test compares. Change adapters/metrics.py instead. -->

`/metrics` serves these to Prometheus ([who may read it](operations/install.md#who-may-read-the-metrics)).
[What to watch](operations/monitoring.md) has the rules and the dashboard that read them. One scrape covers all
processes of one instance. Metrics of the database, such as the queue and the sizes, are the same on every instance: take
their `max`, not their `sum`. A histogram has `_bucket`, `_sum` and `_count` behind its name. Beside these stand the
`process_…` metrics that Prometheus knows of every program: processor time, memory, descriptors, the start.

| metric | kind | labels | what |
|---|---|---|---|
"""


def render() -> str:
    return _HEAD + "".join(
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text.replace('|', chr(92) + '|')} |\n"
        for name, kind, labels, text in every_metric()
    )


if __name__ == "__main__":
    sys.stdout.write(render())
