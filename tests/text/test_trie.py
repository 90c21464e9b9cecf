from __future__ import annotations

from math import inf, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_middleware.base import cachefolder
from dedup_middleware.text import trie as dictionary
from dedup_middleware.text.names import GIVEN, KIND_BITS, kind_of
from dedup_middleware.text.trie import (
    BASE_BITS,
    KIND_SHIFT,
    LABEL_SHIFT,
    NO_LABEL,
    VALUE_SHIFT,
    Dictionary,
    Trie,
    build_arrays,
)
from tests.text.oracles import load_trie


def node_of(trie: Trie, word: str) -> int | None:
    """Walk the double array: the node of `word`, None if there is none."""
    node = int(trie.roots[ord(word[0])]) if ord(word[0]) < trie.roots.size else 0
    for character in word[1:]:
        root = int(trie.roots[ord(character)]) if ord(character) < trie.roots.size else 0
        label = root >> LABEL_SHIFT & NO_LABEL
        child = int(trie.nodes[(node & (1 << BASE_BITS) - 1) + label])
        if not label or child >> LABEL_SHIFT & NO_LABEL != label:
            return None
        node = child
    return node


def weight(trie: Trie, word: str) -> float | None:
    """The weight of `word`, None if there is no such node."""
    node = node_of(trie, word)
    return None if node is None else float(trie.values[node >> VALUE_SHIFT])


def kind(trie: Trie, word: str) -> int:
    """Whether `word` is a name or a part of one."""
    return (node_of(trie, word) or 0) >> KIND_SHIFT & (1 << KIND_BITS) - 1


def made(words: dict[str, int]) -> Trie:
    """A trie in memory."""
    arrays = build_arrays(Dictionary(words, sum(words.values())))
    return Trie(**arrays)


alphabets = st.text("abcé中国人民一\U0001f600\U00020bb7\uffff", min_size=1, max_size=6)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(alphabets, st.integers(1, 50), min_size=1), st.lists(alphabets))
def test_the_trie_holds_the_words_and_no_others(words: dict[str, int], others: list[str]) -> None:
    """Every word has its weight, every prefix -inf, and nothing else has a node."""
    trie = made(words)
    total = sum(words.values())
    prefixes = {word[:end] for word in words for end in range(1, len(word) + 1)}
    for text in {*words, *others, *prefixes, *(word + "a" for word in words)}:
        if text in words:
            assert weight(trie, text) == log(words[text]) - log(total)
        else:
            assert weight(trie, text) in (-inf, None)
            assert len(text) == 1 or (weight(trie, text) is None) == (text not in prefixes)


def test_jiebas_dictionary() -> None:
    """Each of the 349,046 words is found under its exact weight."""
    words = dictionary.parse(dictionary.jieba_file("dict.txt").read_bytes())
    trie = load_trie()
    for word, count in list(words.frequencies.items())[::7]:
        assert weight(trie, word) == log(count) - log(words.total)


@pytest.mark.slow
def test_kinds_of_jiebas_words() -> None:
    """Each node says whether its word is a name; a character that is no word may be part of one."""
    words = dictionary.parse(dictionary.jieba_file("dict.txt").read_bytes())
    trie = load_trie()
    for word, count in list(words.frequencies.items())[::7]:
        assert kind(trie, word) == kind_of(word, count, words.tags.get(word, ""))
    assert words.frequencies.keys().isdisjoint({"譯", "囍"})
    assert kind(trie, "譯") == kind(trie, "囍") == GIVEN


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    directory = tmp_path / "cache"
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cachefolder.cache_directory.cache_clear()
    cachefolder.cache_directory()
    return directory


@pytest.fixture(autouse=True)
def _forget_the_directory() -> object:
    yield
    cachefolder.cache_directory.cache_clear()


def test_built_once(empty_cache: Path, tmp_path: Path) -> None:
    """The second load maps the file of the first and does not build."""
    path = tmp_path / "dict.txt"
    path.write_text("中国 5 ns\n人民 3\n", encoding="utf-8")
    first = load_trie(main=path)
    (file,) = empty_cache.glob("trie-*.bin")
    written = file.stat().st_mtime_ns
    second = load_trie(main=path)
    assert file.stat().st_mtime_ns == written
    assert not second.nodes.flags.writeable
    assert second.nodes.tolist() == first.nodes.tolist()
    path.write_text("中国 6 ns\n人民 3\n", encoding="utf-8")
    assert load_trie(main=path).values.tolist() != first.values.tolist()
    assert len(list(empty_cache.glob("trie-*.bin"))) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text", "header"])
def test_damaged_files_are_rebuilt(empty_cache: Path, damage: str) -> None:
    """A file that is cut off or altered is never used; a good one takes its place."""
    arrays = {"a": np.arange(1000, dtype=np.int64)}
    cachefolder.load_or_build("table.bin", lambda: arrays)
    file = empty_cache / "table.bin"
    good = file.read_bytes()
    position = {"flip": len(good) // 2, "header": 20}.get(damage, 0)
    altered = good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]
    file.write_bytes({"cut": good[:-9], "empty": b"", "text": b"no table" * 9}.get(damage, altered))
    loaded = cachefolder.load_or_build("table.bin", lambda: arrays)
    assert loaded["a"].tolist() == arrays["a"].tolist()
    assert file.read_bytes() == good
    assert [path.name for path in empty_cache.glob("*.tmp")] == []


def test_unwritable_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without any cache directory tables live in memory, after one warning."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(blocked / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked / "xdg"))
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    cachefolder.cache_directory.cache_clear()
    for _ in range(2):
        loaded = cachefolder.load_or_build("table.bin", lambda: {"a": np.arange(3)})
        assert loaded["a"].tolist() == [0, 1, 2]
    assert caplog.text.count("No cache directory can be written") == 1


def test_directories_of_others_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A directory that others may write to holds no machine code of ours."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    cachefolder.cache_directory.cache_clear()
    assert cachefolder.cache_directory() == tmp_path / "own" / "dedup-middleware"


def test_folder_that_the_user_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`~` is the home, white space around the name is left out, and a relative name stays that of
    one folder, wherever the process goes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DEDUP_CACHE_DIR", " ~/chosen ")
    assert next(cachefolder.cache_candidates()) == tmp_path / "chosen"
    monkeypatch.chdir(tmp_path)
    name = f"relative-{tmp_path.name}"
    monkeypatch.setenv("DEDUP_CACHE_DIR", name)
    assert next(cachefolder.cache_candidates()) == tmp_path / name
    monkeypatch.chdir("/")
    assert next(cachefolder.cache_candidates()) == tmp_path / name


@pytest.mark.parametrize("name", ["{}/file/cache", "~no.such.user/cache"])
def test_folder_that_the_user_named_in_vain(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another one is used, and one warning names it."""
    (tmp_path / "file").touch()
    named = name.format(tmp_path)
    monkeypatch.setenv("DEDUP_CACHE_DIR", named)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    cachefolder.cache_directory.cache_clear()
    for _ in range(2):
        assert cachefolder.cache_directory() == tmp_path / "own" / "dedup-middleware"
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [named in one for one in warned] == [True]


def test_candidates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable comes first, then the XDG cache, then the temporary directory."""
    monkeypatch.setenv("DEDUP_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    found = list(cachefolder.cache_candidates())
    assert found[:2] == [tmp_path / "chosen", tmp_path / "xdg" / "dedup-middleware"]
    assert len(found) == 3


@pytest.mark.parametrize("line", ["中国", "中国 many", "中国 -1", "\xff\xfe 3"])
def test_malformed_dictionary(tmp_path: Path, line: str) -> None:
    """A line of another form is named with its file and number."""
    path = tmp_path / "dict.txt"
    path.write_bytes(b"ab 3\n" + line.encode("latin-1" if "\xff" in line else "utf-8") + b"\n")
    with pytest.raises(ValueError, match=r"dict.txt, line 2: .* is not `word frequency"):
        load_trie(main=path)


def test_user_dictionary_errors(tmp_path: Path) -> None:
    """A missing or mis-encoded user dictionary is named."""
    main, missing = tmp_path / "dict.txt", tmp_path / "missing.txt"
    main.write_text("ab 3\n")
    with pytest.raises(FileNotFoundError, match=r"missing\.txt can't be read"):
        load_trie(main=main, user=missing)
    wrong = tmp_path / "gbk.txt"
    wrong.write_bytes("云计算".encode("gbk"))
    with pytest.raises(ValueError, match=r"gbk\.txt is not UTF-8"):
        load_trie(main=main, user=wrong)


def test_no_words() -> None:
    """A dictionary without a word is refused."""
    with pytest.raises(ValueError, match="no word with a frequency above zero"):
        build_arrays(Dictionary({"a": 0}, 0))
