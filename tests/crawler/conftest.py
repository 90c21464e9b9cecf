"""The sample site as its tests need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawler.sample_site import SampleSite
from crawler.sample_site.stories import Story, load_stories


@pytest.fixture(scope="module")
def site() -> Iterator[SampleSite]:
    """The site on free ports, copies not held back."""
    with SampleSite(lag=0) as served:
        yield served


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    """All stories by `outlet/path`."""
    return {story.id: story for story in load_stories()}
