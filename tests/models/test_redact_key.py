"""A server's text is cleared of the key however it is spelled, in time linear in both."""

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.backends.key_redaction import redact_key, without_key
from harness.models.backends.openai_http import retry_after

SIGNS = "-_."
keys = st.text(string.ascii_letters + string.digits + SIGNS, min_size=8, max_size=80).filter(
    lambda key: len(letters(key)) >= 8
)
SPELLINGS = {
    "whole": lambda char: char,
    "JSON": lambda char: f"\\u{ord(char):04x}",
    "JSON twice": lambda char: f"\\\\u{ord(char):04X}",
    "Python": lambda char: f"\\x{ord(char):02x}",
    "an address": lambda char: f"%{ord(char):02X}",
    "HTML": lambda char: f"&#{ord(char)};",
    "HTML in hexadecimal": lambda char: f"&#x0{ord(char):x};",
    "capitals": str.upper,
    "small": str.lower,
}


def letters(text):
    return "".join(char for char in text.casefold() if char.isascii() and char.isalnum())


@given(keys, st.data())
def test_no_half_of_a_key_is_left_however_it_is_spelled(key, data):
    half = -(-len(key) // 2)
    start = data.draw(st.integers(0, len(key) - half))
    end = data.draw(st.integers(start + half, len(key)))
    part = key[start:end]
    if len(letters(part)) < 7:
        return
    spellings = data.draw(
        st.lists(st.sampled_from(sorted(SPELLINGS)), min_size=len(part), max_size=len(part))
    )
    apart = data.draw(st.sampled_from(["", " ", "\n", "-", '", "', "…"]))
    written = apart.join(
        SPELLINGS[spelling](char) for spelling, char in zip(spellings, part, strict=True)
    )
    clean = redact_key(f"«{written}»", key)
    assert "***" in clean and clean.startswith("«") and clean.endswith("»")
    assert len(clean) <= 5 + 6 * (len(SIGNS) + len(key))


@given(keys, st.text("#+=?! äöü\n" + "\ud800", max_size=60))
def test_a_text_without_the_key_stays_as_it_is(key, text):
    assert redact_key(text, key) == text
    assert without_key({"a": [text, 1, None]}, key) == {"a": [text, 1, None]}


def test_what_is_around_the_key_stays():
    key = "sk-Abc123_defGHI456"
    text = f"Bearer {key}, 100 %41 \\u0041 and {key[:12]} again; {key.lower()}."
    clean = redact_key(text, key)
    assert clean == "Bearer ***, 100 %41 \\u0041 and *** again; ***."


@pytest.mark.parametrize("length", [164, 1_000, 20_000])
@pytest.mark.parametrize("kind", ["nothing", "the key", "its blocks", "spellings"])
def test_long_keys_and_answers_take_linear_time(length, kind):
    """Ten seconds are far above what any machine takes, and far below what squares would."""
    drawn = random.Random(length)
    alphabet = string.ascii_letters + string.digits + SIGNS
    key = "".join(drawn.choices(alphabet, k=length))
    part = {
        "nothing": "".join(drawn.choices(alphabet, k=1_000)),
        "the key": f"a{key}b",
        "its blocks": key[: length // 4 + 3],
        "spellings": "%41\\u0042&#67;",
    }[kind]
    began = time.perf_counter()
    clean = redact_key(part * (2_000_000 // len(part)), key)
    assert time.perf_counter() - began < 10
    assert (kind == "the key") == ("***" in clean) and key not in clean


@pytest.mark.parametrize(
    "value",
    [
        "Thu, 01 Jan 2024 00:00:00 +9999999999999999999999",
        "Thu, 01 Jan 99999 00:00:00 GMT",
        "Thu, 99 Jan 2024 00:00:00 GMT",
        "1" * 5_000,
        "1e999",
        "nan",
        "-",
        "",
        "soon",
        ", ".join(["Thu"] * 2_000),
    ],
)
def test_no_retry_after_raises(value):
    assert retry_after(value) is None


def test_a_retry_after_of_the_past_is_now():
    assert retry_after("-5") == retry_after("Mon, 01 Jan 0001 00:00:00 +2359") == 0.0
