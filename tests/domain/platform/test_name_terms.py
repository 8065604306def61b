"""What is looked for among names, of words that somebody has typed."""

from core.domain.platform.searches import MOST_NAME_WORDS, name_terms


def said(*words: str) -> set[tuple[str, bool]]:
    return {(one.said, one.is_whole) for one in name_terms(words)}


def test_words_two_together_and_the_beginning_at_the_end_are_looked_for() -> None:
    assert said("bob") == {("bob", True), ("bob", False)}
    assert said("tom", "beck") == {("tom beck", True), ("tom", True), ("beck", True), ("tom beck", False), ("beck", False)}
    # Of "toms", Tom is meant, too. Two letters are no name, and two bytes of another script are one letter.
    assert said("toms", "id") == {("toms id", True), ("toms", True), ("tom", True)}
    assert ("李", True) in said("李")
    assert said("an", "é") == {("an é", True)}
    assert said() == set()


def test_two_words_together_weigh_more_than_both_alone() -> None:
    weights = {(one.said, one.is_whole): one.weight for one in name_terms(["tom", "becker"])}
    assert weights["tom becker", True] >= weights["tom", True] + weights["becker", True]
    assert weights["becker", True] > weights["becker", False]


def test_a_long_text_and_long_words_are_few_short_terms() -> None:
    terms = name_terms(["long" * 100] * 5 + [f"word{number}" for number in range(500)])
    assert len(terms) <= 3 * MOST_NAME_WORDS + 2
    assert max(len(one.said) for one in terms) <= 60
