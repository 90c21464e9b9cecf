"""Spider processes move from one Redis to a cluster in the middle of a crawl."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirrors import Mirrors, headline
from tests.servers import running_cluster, running_redis
from tests.test_sharing import ARTICLES, assert_each_once, crawl, finish, stored


@pytest.mark.services
@pytest.mark.slow
def test_crawl_that_moves_to_a_cluster(tmp_path: Path) -> None:
    """Half of the articles are stored with one master. Two spiders then go on with the cluster and
    the former index, on other mirrors: every article is stored once. When the former index is left
    out, all of them are known."""
    first, *others = folders = [tmp_path / str(n) for n in range(3)]
    (tmp_path / "redis").mkdir()
    with (
        running_redis(tmp_path / "redis") as server,
        running_cluster(tmp_path, 3) as masters,
        Mirrors(ARTICLES) as mirrors,
    ):
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in masters)
        old = f"DEDUP_INDEX_URL={server.url}"
        new = [f"DEDUP_INDEX_URL=redis+cluster://{hosts}", "DEDUP_SHARDS=8"]
        half = [f"CLOSESPIDER_ITEMCOUNT={ARTICLES // 4}", "CONCURRENT_REQUESTS=1"]
        finish([crawl(mirrors.urls[0], first, old, *half, "DOWNLOAD_DELAY=0.05")])
        before = len(stored(first))
        assert 0 < before < ARTICLES
        moving = [*new, f"DEDUP_FORMER_INDEX_URL={server.url}"]
        finish(
            [
                crawl(url, folder, *moving)
                for url, folder in zip(mirrors.urls[1:], others, strict=False)
            ]
        )
        assert_each_once(folders)
        server.stop()
        finish([crawl(mirrors.urls[3], tmp_path / "last", *new)])
    titles = {item["title"] for item in stored(tmp_path / "last")}
    assert not titles & {headline(n) for n in range(ARTICLES)}
