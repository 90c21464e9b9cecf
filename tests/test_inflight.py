"""Claims follow items through the pipelines by key alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dedup_middleware.fingerprint import Verdict
from dedup_middleware.inflight import InFlight


def verdict(key: str) -> Verdict:
    """A verdict to carry."""
    return Verdict(key, "new", "nothing-alike")


def test_stored_item_settles_its_verdict() -> None:
    """One item, stored: its verdict comes back to be committed."""
    flight = InFlight()
    held = verdict("a")
    flight.enter("a", held)
    assert flight.leave("a", stored=True) == (True, [held])
    assert len(flight) == 0


def test_failed_item_settles_as_not_stored() -> None:
    """One item that a later pipeline dropped: its verdict comes back to be released."""
    flight = InFlight()
    held = verdict("a")
    flight.enter("a", held)
    assert flight.leave("a", stored=False) == (False, [held])


def test_unknown_key_settles_nothing() -> None:
    """A signal of an item that never entered changes nothing."""
    assert InFlight().leave("a", stored=True) == (True, [])


def test_item_without_claim_does_not_commit_the_page_of_its_key() -> None:
    """A comment stored under the page's key says nothing of the page, which then fails."""
    flight = InFlight()
    page = verdict("a")
    flight.enter("a", page)
    flight.enter("a", None)
    assert flight.leave("a", stored=True) == (False, [])
    assert flight.leave("a", stored=False) == (False, [page])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_committed_only_if_all_of_a_key_were_stored(items: list[tuple[bool, bool]]) -> None:
    """Of any mixture of items of one key, verdicts are committed only if nothing failed."""
    flight = InFlight()
    held = []
    for claims, _ in items:
        one = verdict("a") if claims else None
        flight.enter("a", one)
        if one is not None:
            held.append(one)
    results = [flight.leave("a", stored=stored) for _, stored in items]
    assert all(not settled for _, settled in results[:-1])
    assert results[-1] == (all(stored for _, stored in items), held)
    assert len(flight) == 0
