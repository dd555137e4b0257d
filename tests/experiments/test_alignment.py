import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.data.alignment import RULES, align, missing_words, stem

IN_A_ROW, IN_ORDER, ANY_ORDER, STEMS_IN_A_ROW, STEMS_IN_ORDER, STEMS_IN_ANY_ORDER = RULES


def found(phrase, text, nth=0):
    alignment = align(phrase, text, nth)
    return alignment and (alignment.rule, [text[start:end] for start, end in alignment.fragments])


@pytest.mark.parametrize(
    "phrase, text, rule, fragments",
    [
        ("Knee Swelling", "pain and knee swelling", IN_A_ROW, ["knee swelling"]),
        # Punctuation between the words is part of the fragment, and none at its ends.
        (
            "jaw clenching, grinding",
            "bad (jaw-clenching / grinding).",
            IN_A_ROW,
            ["jaw-clenching / grinding"],
        ),
        ("don’t care", "I dont care", IN_A_ROW, ["dont care"]),
        # A word is never found inside another one.
        ("ache", "toothache, no ache", IN_A_ROW, ["ache"]),
        ("pain in knee", "pain and swelling in knee", IN_ORDER, ["pain", "in knee"]),
        # The second "loss" is nearer to what follows.
        ("loss of libido", "loss, and loss of all libido", IN_ORDER, ["loss of", "libido"]),
        (
            "gain of weight",
            "gain, weight of others: gain of some weight",
            IN_ORDER,
            ["gain of", "weight"],
        ),
        ("infrequent orgasm", "the orgasm was infrequent", ANY_ORDER, ["orgasm", "infrequent"]),
        # In order comes first, though the words the other way round are nearer to each other.
        ("a b", "b a x x b", IN_ORDER, ["a", "b"]),
        ("sad sad day", "sad x day, day x sad sad", ANY_ORDER, ["day", "sad sad"]),
        ("headache", "bad headaches", STEMS_IN_A_ROW, ["headaches"]),
        (
            "suicidal attempt",
            "suicidal thoughts and attempts",
            STEMS_IN_ORDER,
            ["suicidal", "attempts"],
        ),
        ("attempts at driving", "drove, at driven, attempt", None, None),
        ("swings of mood", "moods: swing of them", STEMS_IN_ANY_ORDER, ["moods: swing of"]),
        ("one\ntwo", "one\ntwo", IN_A_ROW, ["one", "two"]),
        ("?!", "what?!", None, None),
        ("", "text", None, None),
        ("word", "", None, None),
        ("very very bad", "very bad", None, None),
    ],
)
def test_phrases_are_aligned_by_the_first_matching_rule(phrase, text, rule, fragments):
    assert found(phrase, text) == (rule and (rule, fragments))


def test_the_nth_occurrence_is_aligned():
    text = "anxiety, then Anxiety"
    assert [align("anxiety", text, nth).fragments for nth in range(3)] == [
        ((0, 7),),
        ((14, 21),),
        ((14, 21),),
    ]


@pytest.mark.parametrize(
    "word, expected",
    [
        ("headaches", "headach"), ("headache", "headach"), ("stopped", "stop"),
        ("anxieties", "anxieti"),
        ("anxiety", "anxieti"), ("loss", "los"), ("gas", "gas"), ("red", "red"), ("ring", "ring"),
        ("", ""),
    ],
)  # fmt: skip
def test_words_are_stemmed(word, expected):
    assert stem(word) == expected


def test_missing_words_are_listed():
    assert missing_words("Very very bad headaches", "a headache, very sad") == ["very", "bad"]
    assert missing_words("don't", "dont") == []


words = st.lists(
    st.sampled_from(["pain", "in", "Knee", "knees", "swelling", "it's"]), min_size=1, max_size=9
)
gaps = st.sampled_from([" ", ", ", "-", "  ", "\n"])


@given(words, st.data())
def test_words_in_order_are_always_aligned(text_words, data):
    """A choice of a text's words, in order, is found in as many words; its fragments are in order,
    and never touch."""
    text = "".join(word + data.draw(gaps) for word in text_words)
    chosen = data.draw(st.lists(st.integers(0, len(text_words) - 1), min_size=1, unique=True))
    phrase = " ".join(text_words[i] for i in sorted(chosen))
    alignment = align(phrase.upper(), text)
    assert alignment is not None and alignment.rule in (IN_A_ROW, IN_ORDER)
    edges = [edge for fragment in alignment.fragments for edge in fragment]
    assert edges == sorted(set(edges)) and 0 <= edges[0] and edges[-1] <= len(text)
    covered = " ".join(text[start:end] for start, end in alignment.fragments)
    for gap in ("-", ","):
        covered = covered.replace(gap, " ")
    assert covered.casefold().split() == phrase.casefold().split()
    assert missing_words(phrase, text) == []


@given(st.text(max_size=30), st.text(max_size=60), st.integers(0, 3))
def test_arbitrary_phrases_align_inside_the_text_or_have_missing_words(phrase, text, nth):
    alignment = align(phrase, text, nth)
    for start, end in alignment.fragments if alignment else ():
        assert 0 <= start < end <= len(text)
    if alignment is None and any(char.isalnum() for char in phrase):
        assert missing_words(phrase, text)
    assert alignment is None or not missing_words(phrase, text)
