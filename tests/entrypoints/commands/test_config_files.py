"""The files of configuration documents: what they may say, where a fault in them is, and what hostile ones cost."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from entrypoints.cli.configuration import files
from entrypoints.cli.configuration.export import written
from entrypoints.cli.configuration.files import WrongFile, read_files
from tests.http.configuration.documents import WHOLE


def read(place: Path, *texts: str | bytes) -> Any:
    names = []
    for number, text in enumerate(texts):
        file = place / f"{number}.yaml"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        names.append(str(file))
    return read_files(names)


def refused(place: Path, *texts: str | bytes) -> str:
    with pytest.raises(WrongFile) as failure:
        read(place, *texts)
    message = str(failure.value)
    assert "\n" not in message
    return message.replace(f"{place}/", "")


def test_what_export_writes_and_json_are_read_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path, written(WHOLE)).tree == WHOLE
    assert read(tmp_path, json.dumps(WHOLE)).tree == WHOLE
    assert read(tmp_path, "").tree == {}


def test_words_and_numbers_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    text = "a: no\nb: on\nc: 012\nd: 1:30\ne: 2026-01-01\nf: ~\ng: 0x1F\nh: 1e3\ni: 'true'\nj: !!str 7\nk: True\nl: 1_000\nm: 0o17\nn:"
    assert read(tmp_path, text).tree == {
        "a": "no",
        "b": "on",
        "c": 12,
        "d": "1:30",
        "e": "2026-01-01",
        "f": None,
        "g": 31,
        "h": 1000.0,
        "i": "true",
        "j": "7",
        "k": True,
        "l": "1_000",
        "m": 15,
        "n": None,
    }


def test_comments_anchors_and_merged_maps_are_read_for_what_they_stand_for(tmp_path: Path) -> None:
    text = "# A comment\na: &base {x: 1, y: [2]}\nb: *base\nc:\n  <<: *base\n  x: 3\nd: {<<: [{x: 5}, {x: 6, z: 7}]}\n"
    base = {"x": 1, "y": [2]}
    assert read(tmp_path, text).tree == {"a": base, "b": base, "c": {"x": 3, "y": [2]}, "d": {"x": 5, "z": 7}}


HOSTILE: Final = {
    "a: 1\na: 2": "0.yaml:2:1: a is set twice",
    "a: !!python/object:os.system {}": "0.yaml:1:4: the tag tag:yaml.org,2002:python/object:os.system is not allowed",
    "a: !!binary aGk=": "0.yaml:1:4: the tag tag:yaml.org,2002:binary is not allowed",
    "a: *b": "0.yaml:1:4: there is no anchor &b before this alias",
    "a: &a [*a]": "0.yaml:1:8: there is no anchor &a before this alias",
    "- a": "0.yaml:1:1: a document is a map with `postern: 1`, and `platform` or `organizations`",
    "a: 1\n---\nb: 2": "0.yaml:2:1: a file must contain one document: remove the second ---",
    "? [a]\n: 1": "0.yaml:1:3: the name of an entry is a text",
    "a: '\\0'\nb: \"\\0\"": "0.yaml:2:4: a text has no NUL, and no half of a surrogate pair",
    "a: 1e999": "0.yaml:1:4: this number is too large",
    "<<: 1": "0.yaml:1:1: << must be a map, or a list of maps",
    "a: {b": "0.yaml:2:1: did not find expected ',' or '}'",
    "a: " + "[" * 60 + "]" * 60: "0.yaml:1:53: nested more than 50 levels deep",
}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_a_hostile_file_is_one_line_with_its_place(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text) == HOSTILE[text]


def test_bombs_are_counted_before_they_expand(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert refused(tmp_path, bomb) == "0.yaml:7:22: more than 5000000 values, including those of aliases"
    deep = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 60))
    assert "nested more than 50 levels deep" in refused(tmp_path, deep)


def test_a_file_of_two_gigabytes_is_refused_after_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as sparse:
        os.truncate(sparse.fileno(), 2 << 30)
    with pytest.raises(WrongFile, match="at most 64 MiB"):
        read_files([str(file)])
    with pytest.raises(WrongFile, match="No such file"):
        read_files([str(tmp_path / "none.yaml")])
    with pytest.raises(WrongFile, match="Is a directory"):
        read_files([str(tmp_path)])
    assert refused(tmp_path, b"\xff\xfe\xfa").startswith("0.yaml")


def test_several_files_are_one_document(tmp_path: Path) -> None:
    acme = "    name: Acme\n    roles: {a: {name: A}}\n    services: {shop: {name: Shop, plans: {p: {name: P}}}}\n"
    one = f"postern: 1\norganizations:\n  acme: &acme\n{acme}  twin: *acme\n"
    two = "postern: 1\norganizations: {acme: {roles: {b: {name: B}}, services: {shop: {plans: {q: {name: Q}}}, app: {name: App}}}}\n"
    tree = read(tmp_path, one, two).tree["organizations"]
    assert sorted(tree["acme"]["roles"]) == ["a", "b"]
    assert (sorted(tree["acme"]["services"]), sorted(tree["acme"]["services"]["shop"]["plans"])) == (["app", "shop"], ["p", "q"])
    assert sorted(tree["twin"]["roles"]) == ["a"], "an alias must not carry what another file adds"


def test_what_two_files_give_is_told_with_both_places(tmp_path: Path) -> None:
    one = "postern: 1\norganizations:\n  acme:\n    roles:\n      a: {name: A}\n"
    assert refused(tmp_path, one, "organizations:\n  acme:\n    roles: {a: {name: B}}\n") == (
        "1.yaml:3:13: organizations / acme / roles / a is set twice; first at 0.yaml:5:7"
    )
    assert "first at 0.yaml:1:1" in refused(tmp_path, "postern: 1\n", "postern: 2\n")
    rules = "organizations: {acme: {sign_in_rules: {sign_in_links: true}}}\n"
    assert "organizations / acme / sign_in_rules is set twice" in refused(tmp_path, rules, rules)


def test_a_place_is_found_again_as_far_as_the_file_goes(tmp_path: Path) -> None:
    read_back = read(tmp_path, "postern: 1\norganizations:\n  acme:\n    roles:\n      a: {name: A, wrong: 1}\n")
    steps = ("organizations", "acme", "roles", "a", "wrong"), ("organizations", "acme", "roles", "a", "permissions"), ("platform",)
    positions = [str(position).replace(f"{tmp_path}/", "") for position in map(read_back.positions(steps).__getitem__, steps)]
    assert positions == ["0.yaml:5:20", "0.yaml:5:7", "0.yaml:1:1"]
    assert files.DEEPEST == 50
