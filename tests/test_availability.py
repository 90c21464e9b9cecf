"""A dead index costs the crawl no time, and pages that passed unchecked are remembered."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.core.availability import Backlog, Breaker, FaultLog, Unsettled
from dedup_middleware.model.documents import Document


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pause_doubles_up_to_a_bound() -> None:
    """Each failure doubles the pause; an answer ends it."""
    clock = Clock()
    breaker = Breaker(clock, first=1.0, longest=4.0)
    assert breaker.closed
    for pause in (1.0, 2.0, 4.0, 4.0):
        breaker.failed()
        clock.now += pause - 0.01
        assert not breaker.closed
        clock.now += 0.02
        assert breaker.closed
    breaker.failed()
    breaker.worked()
    assert breaker.closed


def test_calls_that_fail_together_are_one_failure() -> None:
    """Several calls that were under way when the index failed lengthen the pause only once."""
    clock = Clock()
    breaker = Breaker(clock, first=1.0, longest=64.0)
    for _ in range(100):
        breaker.failed()
    clock.now += 1.01
    assert breaker.closed
    breaker.failed()
    clock.now += 1.99
    assert not breaker.closed


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_backlog_is_bounded_and_keeps_the_newest(sizes: list[int], bound: int) -> None:
    """However many pages come, the text kept stays within the bound, oldest forgotten first; a page
    that is larger than the bound takes the place of none."""
    backlog = Backlog(bound)
    forgotten = 0
    for number, size in enumerate(sizes):
        forgotten += backlog.add(Unsettled(Document(key=f"{number:04}", text="x" * size)))
    kept = [backlog.pop().document for _ in range(len(backlog))]
    assert forgotten + len(kept) == len(sizes)
    fitting = [f"{number:04}" for number, size in enumerate(sizes) if size + 4 <= bound]
    assert [document.key for document in kept] == fitting[len(fitting) - len(kept) :]
    if len(kept) < len(fitting):  # one more would not have fitted
        assert sum(sizes[int(key)] + 4 for key in fitting[-len(kept) - 1 :]) > bound
    assert sum(len(document.text or "") + 4 for document in kept) <= bound


def test_all_texts_of_a_page_count() -> None:
    """HTML, and what follows the part that is compared, are kept as well."""
    backlog = Backlog(100)
    for name in ("text", "html", "rest", "description", "title"):
        assert backlog.add(Unsettled(Document(name, **{name: "x" * 101}))) == 1
    assert backlog.add(Unsettled(Document("bytes", html=b"x" * 101))) == 1


def test_fault_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A lasting fault is logged once a minute with the number of repetitions, whatever page it
    occurred with; another fault has a line of its own."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    faults = FaultLog(logging.getLogger("test"), clock)
    for second in range(150):
        clock.now = float(second)
        faults.warn("no right", "%s can't be reached", f"page {second}")
        if second == 30:
            faults.warn("disk full", "it can't be used")
    assert caplog.messages == [
        "page 0 can't be reached: no right",
        "it can't be used: disk full",
        "page 60 can't be reached (59 more times in 60 s): no right",
        "page 120 can't be reached (59 more times in 60 s): no right",
    ]
    faults.end()
    faults.end()
    assert caplog.messages[4:] == ["29 more times in 29 s: no right"]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4 + ["INFO"]


def test_what_was_left_out_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """When the index is back the repetitions are logged with that message, not again at the end of
    the crawl; they are then counted anew, and the same fault is still logged once a minute."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    faults = FaultLog(logging.getLogger("test"), clock)
    assert not faults.left_out()
    for second in range(30):
        clock.now = float(second)
        faults.warn("no right", "it can't be used")
    faults.warn("disk full", "it can't be used")
    faults.warn("disk full", "it can't be used")
    assert faults.left_out() == "29 more times in 29 s: no right; 1 more times in 0 s: disk full"
    assert not faults.left_out()
    for second in (40, 62, 63):
        clock.now = float(second)
        faults.warn("no right", "it can't be used")
    assert caplog.messages[2:] == ["it can't be used (1 more times in 33 s): no right"]
    faults.end()
    assert caplog.messages[3:] == ["1 more times in 1 s: no right"]


def test_faults_of_many_kinds_take_little_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Faults whose texts never repeat are all logged, and only the last 64 kinds are remembered."""
    faults = FaultLog(logging.getLogger("test"), Clock())
    for number in range(1000):
        faults.warn(f"fault {number}", "it can't be used")
    assert len(caplog.messages) == 1000
    assert len(faults._known) == 64
