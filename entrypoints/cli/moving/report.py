"""What the commands that move an organization print at their end."""

from collections.abc import Sequence

from core.domain.platform.moving import ArrivedOrganization, DepartedOrganization, NamedPerson
from entrypoints.cli.output.printing import print_json, printable


def say_departed(departed: DepartedOrganization, *, as_json: bool) -> None:
    if as_json:
        print_json(departed)
        return
    _print_table([("part", "rows"), *((one.name, str(one.rows)) for one in departed.tables)])
    print(f"{departed.slug} is in {departed.file}, with {departed.people} people, sealed for {departed.sealed_for}.")
    print(f"digest      {departed.digest}")
    print(f"audit head  {departed.audit.head}")
    if departed.audit.faults:
        print(f"The audit log has {departed.audit.faults} faults, which `postern audit verify` lists. The file lists them at its end, too.")
    if departed.was_open:
        print("The organization was active during the export: later changes are not in the file. To move permanently, suspend it first.")


def say_arrived(arrived: ArrivedOrganization, *, as_json: bool) -> None:
    if as_json:
        print_json(arrived)
        return
    _print_table([("table", "in the file", "taken"), *((one.table, str(one.rows), str(one.taken)) for one in arrived.tables)])
    for one in arrived.tables:
        if one.sentence and one.rows != one.taken:
            print(f"{one.table}: {one.sentence}.")
    people = arrived.people
    print(f"{people.new} people are new here, {people.known} have an account here, {people.renamed} have a different ID here.")
    _print_named(arrived.named)
    for old, new in arrived.changed_ids.items():
        print(f"  {old} -> {new}")
    if len(arrived.changed_ids) < people.renamed:
        print("  … and more: --report writes all of them to a file")
    if arrived.trusted and people.without_password:
        print(f"{people.without_password} of the trusted people have no password here, and choose one by a magic link.")
    print(f"digest      {arrived.digest}")
    print(
        f"audit head  {printable(arrived.audit.head, 100)}, {arrived.audit.entries} entries, {arrived.audit.faults} faults "
        "found at the source"
    )
    source = printable(arrived.source, 200)
    if arrived.planned:
        print(f"{arrived.slug} of {source} would arrive with the tier {arrived.tier}. Nothing was written.")
        return
    print(f"{arrived.slug} of {source} has arrived with the tier {arrived.tier}, and is {arrived.status}.")
    opens = "approve" if arrived.status == "pending" else "activate"
    print(f"Next: check it, then run `postern organization {opens} --organization {arrived.slug}`.")


def _print_named(named: Sequence[NamedPerson]) -> None:
    """Whoever has had an account here has been asked nothing, so the operator may want to ask them first."""
    for one in named:
        email = printable(one.email, 320)
        if one.owns:
            print(f"{email} has an account here and becomes the owner. The person can decline.")
        if one.keys:
            print(f"{email} has an account here and answers for {one.keys} management API keys. No owner has adopted these keys here.")


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        print("  ".join([name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))]))
