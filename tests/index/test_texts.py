"""The store of texts (byte strings of pages), in memory and in a file, compared with a
dictionary."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.index.memory import texts as module
from dedup_middleware.index.memory.texts import Texts

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(1, 60), st.binary(min_size=1, max_size=30)),
        st.tuples(st.just("remove"), st.integers(0, 70), st.just(b"")),
        st.tuples(st.just("before"), st.integers(0, 60), st.just(b"")),
    ),
    max_size=60,
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few pages are enough to fill a tail, to move texts together and to need more places."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "_TAIL", 50)
        patch.setattr(module, "_DEAD", 40)
        patch.setattr(module, "_FIRST_ROOM", 4)
        yield


@pytest.mark.parametrize("in_file", [False, True])
@given(steps=STEPS)
def test_texts_are_a_dictionary(in_file: bool, steps: list[tuple[str, int, bytes]]) -> None:
    """After any steps the texts, the page ids and the bytes are those of a dictionary."""
    with tempfile.TemporaryFile(buffering=0) as file:
        texts, expected, oldest = Texts(file if in_file else None), dict[int, bytes](), 0
        for step, page_id, text in steps:
            if step == "set":
                if page_id < oldest:
                    continue  # page ids of pages that were removed are not used again
                texts[page_id] = text
                expected[page_id] = text
            elif step == "remove":
                texts.remove(page_id)
                expected.pop(page_id, None)
            else:
                texts.remove_before(page_id)
                oldest = max(oldest, page_id)
                expected = {key: value for key, value in expected.items() if key >= page_id}
        assert list(texts) == sorted(expected)
        assert [texts.get(i) for i in range(-1, 75)] == [expected.get(i) for i in range(-1, 75)]
        assert texts.nbytes == sum(map(len, expected.values()))
        assert bool(texts) == bool(expected)


def test_texts_in_a_file_leave_memory() -> None:
    """With a file no more than a tail is in memory, and all texts are read back."""
    with tempfile.TemporaryFile(buffering=0) as file:
        texts = Texts(file)
        for page_id in range(1, 200):
            texts[page_id] = b"%d" % page_id * 5
            assert len(texts._tail) < 50
        assert [texts.get(i) for i in range(1, 200)] == [b"%d" % i * 5 for i in range(1, 200)]


def test_removed_texts_give_memory_back() -> None:
    """In memory the bytes of removed texts are never more than those of the others and a bound."""
    texts = Texts()
    for page_id in range(1, 500):
        texts[page_id] = bytes(10)
        texts.remove(page_id - 3)
        assert len(texts._tail) <= 2 * texts.nbytes + 40 + 10
