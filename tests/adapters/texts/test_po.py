"""Files of translators: what is written is read again, and what cannot be read is named by its line."""

import pytest

from adapters.texts.po import Translation, UnreadablePo, read, written

HEADERS = {"Language": "pl", "X-Version": "1"}


def test_what_is_written_is_read_again() -> None:
    messages = [
        Translation("sign_in.title", "Sign in", 'Say "hi" \\ there', ("sign_in: title",)),
        Translation("own.footer", "(nothing)", "One\n\nTwo\tthree\r\n", ("a", "b")),
        Translation("empty", "Sign in", ""),
    ]
    text = written(HEADERS, messages)
    assert text.startswith('msgid ""\nmsgstr ""\n"Language: pl\\n"\n"X-Version: 1\\n"\n\n#. sign_in: title\nmsgctxt "sign_in.title"\n')
    file = read(text)
    assert file.headers == HEADERS
    assert [(one.context, one.id, one.text, one.line) for one in file.messages] == [
        ("sign_in.title", "Sign in", messages[0].text, 7),
        ("own.footer", "(nothing)", messages[1].text, 13),
        ("empty", "Sign in", "", 20),
    ]


def test_it_is_read_as_other_programs_write_it() -> None:
    file = read(
        "\ufeff# By hand\r\n"
        'msgid ""\r\nmsgstr "Language: de\\n"\r\n'
        '#, fuzzy, c-format\r\n#| msgid "before"\r\nmsgctxt "a"\r\nmsgid "A"\r\nmsgstr ""\r\n"one "\r\n"two"\r\n'
        'msgid "B"\nmsgstr "b"\n'
        'msgctxt "c"\nmsgid "C"\nmsgstr "c"\n\n#~ msgid "old"\n#~ msgstr "alt"\n'
    )
    assert file.headers == {"Language": "de"}
    assert [(one.context, one.id, one.text, one.is_fuzzy) for one in file.messages] == [
        ("a", "A", "one two", True),
        ("", "B", "b", False),
        ("c", "C", "c", False),
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('msgid "a"\nmsgid_plural "b"\n', "Line 2: a text that a number decides about is not open"),
        ('msgid "a"\nmsgstr[0] "b"\n', "Line 2: a text that a number"),
        ("msgid a\n", "Line 1: neither a comment"),
        ('"a"\n', "Line 1: neither a comment"),
        ('msgid "a\n', "Line 1: neither a comment"),
        ('msgid "a"\nmsgstr "\\x41"\n', "Line 2: there is no \\x"),
        ('\nmsgctxt "a"\nmsgid "b"\n\nmsgctxt "c"\n', "Line 2: a text needs a msgid and a msgstr"),
        ('msgstr "b"\n', "Line 1: a text needs"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(source: str, said: str) -> None:
    with pytest.raises(UnreadablePo) as fault:
        read(source)
    assert str(fault.value).startswith(said)


def test_a_file_without_a_head_has_no_headers() -> None:
    assert read("").headers == {}
    assert read('msgctxt "a"\nmsgid "b"\nmsgstr "c"').messages[0].text == "c"
