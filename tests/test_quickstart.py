"""What the README promises a newcomer: make crawl in a fresh clone, nothing installed before."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.test_sample_crawl import addresses
from tests.test_sharing import HASH_KEY, stored
from tests.test_wheel import fill

ROOT = Path(__file__).parent.parent


def make_in(clone: Path, target: str) -> str:
    """Run `make` with nothing of this environment but PATH; what it printed."""
    kept = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(
        ["make", target], cwd=clone, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_make_crawl_in_a_fresh_clone(tmp_path: Path) -> None:
    """It sets up an environment, crawls, and ends with the table; a second run adds nothing.

    pip finds there what the package needs by its metadata, since to unpack that once more takes
    most of the time: it gets the rest, such as what the crawler and the build need. `make test`
    begins with a rule like it, which gets everything in a fresh clone.
    """
    clone = tmp_path / "clone"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, files):
        source = ROOT / name.decode()
        if source.is_file():
            target = clone / name.decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    with (clone / "settings" / "local.py").open("a") as settings:
        settings.write(f'DEDUP_HASH_KEY = "{HASH_KEY}"\n')
    make_in(clone, ".venv/.venv")
    fill(clone / ".venv")
    assert "stored" in make_in(clone, "crawl")
    assert {item["url"] for item in stored(clone)} == addresses()
    make_in(clone, "crawl")
    assert len(stored(clone)) == len(addresses())
