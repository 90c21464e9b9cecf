"""Settings are read and checked once, and a bad one is named with its fix."""

from __future__ import annotations

import contextlib
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.settings import Settings

from dedup_middleware.base.errors import OptionsError, named_as_given
from dedup_middleware.base.options import Options
from dedup_middleware.base.settingfields import hide_password, setting_name
from dedup_middleware.core.fingerprinter import Fingerprinter
from dedup_middleware.index.redis.servers import _TLS_OPTIONS
from dedup_middleware.plugin.settings import options_from_settings
from dedup_middleware.text import trie


def test_defaults_are_usable() -> None:
    """Options without arguments are valid."""
    assert Options().method == "content"


def test_options_are_frozen() -> None:
    """Options of an open index can't be changed."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Options().threshold = 0.1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0.0),
        ("threshold", 1.5),
        ("threshold", math.nan),
        ("index_url", "mysql://x"),
        ("index_url", "sqlite:"),
        ("method", "guess"),
        ("namespace", "a{b}"),
        ("namespace", ""),
        ("num_perm", 300),
        ("lease", 0),
        ("bands", 65),
        ("segmenter", "x"),
        ("shingle_width", 0),
        ("shingle_width", 17),
        ("max_chars", 99),
        ("on_error", "explode"),
        ("text_field", " "),
        ("text_field", None),
        ("namespace", 5),
        ("namespace", "a\tb"),
        ("namespace", "a\0b"),
        ("namespace", "a\x7f"),
        ("namespace", "a\ud800"),
        ("metrics_host", b"localhost"),
        ("journal", 7),
        ("distance", 2.5),
        ("min_features", True),
        ("shards", 2.0),
        ("window", "x"),
        ("enabled", "no"),
    ],
)
def test_unusable_value_names_setting_value_and_fix(field: str, value: object) -> None:
    """The message holds the setting's name, the value found and what to write instead."""
    with pytest.raises(OptionsError) as caught:
        Options(**{field: value})  # type: ignore[arg-type]
    assert caught.value.setting == setting_name(field)
    assert setting_name(field) in str(caught.value)
    assert repr(value) in str(caught.value)
    assert len(caught.value.fix) > 8


@pytest.mark.parametrize("field", ["index_url", "former_index_url", "hash_key"])
def test_of_a_secret_of_another_type_only_the_type_is_shown(field: str) -> None:
    """The value may be a password."""
    value = b"redis://:secret@host"
    for made in (
        lambda: Options(**{field: value}),  # type: ignore[arg-type]
        lambda: Options.from_mapping({setting_name(field): value}),
    ):
        with pytest.raises(OptionsError, match="use a text") as caught:
            made()
        assert "secret" not in str(caught.value)
        assert "bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("DEDUP_TEXT_FIELD", ["body"], "use a text"),
        ("DEDUP_HTML_FIELD", b"html", "use a text"),
        ("DEDUP_KEY_FIELD", len, "use a text"),
        ("DEDUP_LEASE", True, "use a number"),
        ("DEDUP_BANDS", True, "use a whole number"),
        ("DEDUP_RESET", b"no", "use True or False"),
        ("DEDUP_ENABLED", math.nan, "use True or False"),
        ("DEDUP_THRESHOLD", np.True_, "use a number"),
        ("DEDUP_THRESHOLD", b"0.9", "use a number"),
        ("DEDUP_BANDS", np.True_, "use a whole number"),
        ("DEDUP_BANDS", b"3", "use a whole number"),
        ("DEDUP_BANDS", np.float32(3.7), "use a whole number"),
        ("DEDUP_BANDS", Decimal("3.7"), "use a whole number"),
        ("DEDUP_BANDS", Fraction(7, 2), "use a whole number"),
    ],
)
def test_values_that_only_look_like_others(name: str, value: object, fix: str) -> None:
    """They were read as fields named "['body']" and "<built-in ...", as one second, and as True."""
    with pytest.raises(OptionsError, match=fix) as caught:
        Options.from_mapping({name: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("three", [3.0, np.int64(3), np.float32(3), Decimal(3), Fraction(3), " 3 "])
def test_whole_numbers_of_other_types(three: object) -> None:
    """A number without a fraction is whole, whatever computed it."""
    assert Options.from_mapping({"DEDUP_BANDS": three}).bands == 3


@pytest.mark.parametrize("name", [1, None, b"DEDUP_LEASE"])
def test_names_that_are_no_texts(name: Any) -> None:
    """They are refused as other unknown names are."""
    with pytest.raises(OptionsError, match="no such setting") as caught:
        Options.from_mapping({name: 2})
    assert caught.value.setting == str(name)


def test_minhash_needs_bands() -> None:
    """Without them it found no page, not even one of the same text."""
    with pytest.raises(OptionsError, match=r"DEDUP_BANDS=0 can't be used: .* use 1 or more"):
        Options(method="minhash", bands=0)
    assert Options(method="content", bands=0).band_count == 0


def test_options_of_an_address_that_are_shown() -> None:
    """Those that an address may have, but no password of the key of a certificate."""
    for name in _TLS_OPTIONS:
        assert hide_password(f"rediss://h/0?{name}=x") == f"rediss://h/0?{name}=x"
    hidden = "rediss://h/0?ssl_keyfile=k&ssl_password=***"
    assert hide_password("rediss://h/0?ssl_keyfile=k&ssl_password=hunter2") == hidden


def test_a_path_may_be_given_as_one() -> None:
    """As a `Path` in Python."""
    path = Path("words.txt")
    assert Options(user_dictionary=path).user_dictionary == str(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [100, 300, 2048])
def test_numbers_of_permutations_are_listed(number: int) -> None:
    """A number below, between or above the possible ones is refused with a list of these."""
    with pytest.raises(OptionsError, match="use 128, 256, 512 or 1024"):
        Options(num_perm=number)


def test_more_minima_than_permutations() -> None:
    """Bands that need more minima than there are permutations are refused."""
    with pytest.raises(OptionsError, match="need 160 permutations"):
        Options(num_perm=128, bands=32, rows=5)


def test_strings_of_a_command_line_are_converted() -> None:
    """`-s DEDUP_THRESHOLD=0.9` gives a number, `-s DEDUP_ENABLED=no` a truth value."""
    options = Options.from_mapping(
        {"DEDUP_THRESHOLD": "0.9", "DEDUP_BANDS": "4", "DEDUP_ENABLED": "no"}
    )
    assert (options.threshold, options.bands, options.enabled) == (0.9, 4, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEDUP_BANDS", "many"),
        ("DEDUP_BANDS", True),
        ("DEDUP_BANDS", 2.5),
        ("DEDUP_THRESHOLD", "high"),
        ("DEDUP_ENABLED", "perhaps"),
        ("DEDUP_TRESHOLD", 0.8),
    ],
)
def test_wrong_type_or_unknown_name(name: str, value: object) -> None:
    """A value of the wrong type and a misspelt name are refused by name."""
    with pytest.raises(OptionsError, match=name):
        Options.from_mapping({name: value})


def test_settings_of_a_crawl() -> None:
    """`DEDUP_*` settings become options; the index is a file in the project's data directory."""
    options = options_from_settings(Settings({"DEDUP_THRESHOLD": 0.7, "LOG_LEVEL": "INFO"}))
    assert options.threshold == 0.7
    assert options.index_url.startswith("sqlite:")
    assert options.index_url.endswith("dedup/index.db")


@given(st.text(min_size=1), st.text(min_size=1))
def test_password_never_shows(user: str, password: str) -> None:
    """Whatever the password is, the address for log lines does not hold it."""
    secret = f"<{password}>"
    assert secret not in hide_password(f"redis://{user}:{secret}@host:6379/0")


def test_refused_address_hides_its_password() -> None:
    """The message about a bad address does not give the password away."""
    with pytest.raises(OptionsError) as caught:
        Options(index_url="http://user:secret@host/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_unusable_user_dictionary_is_named(content: bytes | None, tmp_path: Path) -> None:
    """A dictionary that is missing or broken is an error of the setting that names it."""
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionsError, match="DEDUP_USER_DICTIONARY") as caught:
        Fingerprinter(Options(user_dictionary=str(path)))
    assert "user_dictionary=" not in str(caught.value)


@pytest.mark.parametrize("path", [".", "..", "./", "a/..", "a/"])
def test_an_index_file_needs_a_name(path: str) -> None:
    """A folder is refused where the setting is read."""
    with pytest.raises(OptionsError, match="name a file in the folder"):
        Options(index_url=f"sqlite:{path}")


def test_missing_dictionary_is_no_error_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a dictionary of the user's own the setting of the segmenter is named."""

    def missing(name: str) -> Path:
        raise FileNotFoundError(f"jieba's {name} is missing")

    monkeypatch.setattr(trie, "jieba_file", missing)
    with pytest.raises(OptionsError, match=r"DEDUP_SEGMENTER='jieba'.*dict\.txt is missing"):
        Fingerprinter(Options(), 0xD1C7)


def test_words_of_the_user_are_known(tmp_path: Path) -> None:
    """A user's dictionary changes the segmentation, and with it the parameters of an index."""
    path = tmp_path / "words.txt"
    path.write_text("云泊晨报社 9000\n", encoding="utf-8")
    with_words = Fingerprinter(Options(user_dictionary=str(path)))
    assert with_words.parameters != Fingerprinter(Options()).parameters


def test_an_error_can_be_sent_to_another_process() -> None:
    """As those of workers are, with the names of the command line if it has them."""
    error = OptionsError("DEDUP_BANDS", 0, "use 1 to 64")
    with contextlib.suppress(OptionsError), named_as_given({"DEDUP_BANDS": "--bands"}):
        raise error
    sent = pickle.loads(pickle.dumps(error))
    assert type(sent) is OptionsError
    assert (str(sent), vars(sent)) == (str(error), vars(error))
    assert str(sent).startswith("--bands=0 ")


@pytest.mark.parametrize("value", ["None", "none", " ", ""])
def test_the_default_of_a_method_can_be_given_as_text(value: str) -> None:
    """A project's setting can be undone on the command line, where all values are texts."""
    options = Options.from_mapping({"DEDUP_THRESHOLD": value, "DEDUP_BANDS": value})
    assert (options.threshold, options.bands) == (None, None)
