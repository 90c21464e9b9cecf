"""A dead index costs the crawl no time, and pages that went by are remembered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.availability import Backlog, Breaker, Unsettled
from dedup_middleware.fingerprint import Document


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
    """Calls that were under way when the index went away make the pause no longer."""
    clock = Clock()
    breaker = Breaker(clock, first=1.0, longest=64.0)
    assert [breaker.failed() for _ in range(100)] == [True] + [False] * 99
    clock.now += 1.01
    assert breaker.closed
    assert breaker.failed()
    clock.now += 1.99
    assert not breaker.closed


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_backlog_is_bounded_and_keeps_the_newest(sizes: list[int], bound: int) -> None:
    """However many pages come, the text kept stays within the bound, oldest forgotten first."""
    backlog = Backlog(bound)
    forgotten = 0
    for number, size in enumerate(sizes):
        forgotten += backlog.add(Unsettled(Document(key=f"{number:04}", text="x" * size)))
    kept = [backlog.pop().document for _ in range(len(backlog))]
    assert forgotten + len(kept) == len(sizes)
    assert [document.key for document in kept] == [
        f"{number:04}" for number in range(forgotten, len(sizes))
    ]
    assert sum(len(document.text or "") + 4 for document in kept) <= bound
