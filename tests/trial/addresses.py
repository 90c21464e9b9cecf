"""Each wrong address of an index is told at the start; a server that is gone is waited for."""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter
from collections.abc import Callable

from tests.servers import RedisServer, free_port, running_cluster, running_redis, watched_redis
from tests.trial.environment import Done
from tests.trial.points import Point, Seen, ended
from tests.trial.projects import PAGES, stat
from tests.trial.settings import refused
from tests.trial.trial import Trial

AREA = "address"
AT_ONCE = 60.0  # seconds by the clock on a busy machine, with the start of Scrapy
BEFORE = "waited for as an outage"
Start = Callable[[contextlib.ExitStack, Trial], str]


def plain(stack: contextlib.ExitStack, trial: Trial) -> str:
    """HOST:PORT of a server with a password."""
    server = stack.enter_context(running_redis(trial.folder("redis"), "--requirepass", "right"))
    return f"127.0.0.1:{server.port}"


def with_tls(stack: contextlib.ExitStack, trial: Trial) -> str:
    """HOST:PORT of a server that speaks TLS there, with a certificate of its own."""
    folder = trial.folder("tls")
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem".split(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    port = free_port()
    stack.enter_context(
        running_redis(
            folder,
            *("--tls-port", str(port), "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(folder / "cert.pem")),
            *("--tls-key-file", str(folder / "key.pem")),
        )
    )
    return f"localhost:{port}"


def web(_: contextlib.ExitStack, trial: Trial) -> str:
    """HOST:PORT of the web server with the pages."""
    return trial.pages[0].split("/")[2]


def nothing(_: contextlib.ExitStack, __: Trial) -> str:
    """HOST:PORT where no server is."""
    return f"127.0.0.1:{free_port()}"


def sentinels(stack: contextlib.ExitStack, trial: Trial) -> str:
    """HOST:PORT of a sentinel."""
    watched = stack.enter_context(watched_redis(trial.folder("sentinel")))
    return f"127.0.0.1:{watched.sentinels[0].port}"


def cluster(stack: contextlib.ExitStack, trial: Trial) -> str:
    """HOST:PORT of a node of a cluster of three masters."""
    masters = stack.enter_context(running_cluster(trial.folder("cluster"), 3))
    return f"127.0.0.1:{masters[0].port}"


def crawl(trial: Trial, start: Start, address: str, **settings: object) -> Done:
    """A crawl with an address in which PLACE stands for that of a server."""
    with contextlib.ExitStack() as stack:
        place = start(stack, trial)
        return trial.project.crawl(address.replace("PLACE", place), settings=settings)


def refuses(asks: str, before: str, start: Start, address: str, *wanted: str) -> Point:
    """An address that is refused soon, without its password in the log."""

    def look(trial: Trial) -> Seen:
        done = crawl(trial, start, address)
        seen = refused(done, *wanted)
        is_met = seen.met and done.seconds < AT_ONCE and "s3cret" not in done.text
        return Seen(seen.command, f"{done.seconds:.0f} s; {seen.printed}", met=is_met)

    return Point(AREA, asks, before, look)


def works(asks: str, start: Start, address: str) -> Point:
    """A right address: all pages are checked."""

    def look(trial: Trial) -> Seen:
        done = crawl(trial, start, address)
        seen = ended(done, f"Checked {PAGES} pages", ", 0 unchecked", without=("Traceback",))
        return Seen(seen.command, seen.printed, met=seen.met and stat(done, "dedup/dropped") == 3)

    return Point(AREA, asks, "", look)


def no_server(trial: Trial) -> Seen:
    """By default all pages are kept; one warning says why."""
    done = crawl(trial, nothing, "redis://PLACE", DEDUP_RETRIES=0)
    told, is_once = warnings(done)
    is_met = done.code == 0 and stat(done, "dedup/unchecked") == PAGES and is_once
    return Seen(done.command, f"exit {done.code} in {done.seconds:.0f} s; {told}", met=is_met)


def warnings(done: Done) -> tuple[str, bool]:
    """How often what was warned of, and whether that was once each."""
    lines = [line.partition("] WARNING: ") for line in done.text.splitlines()]
    counts = Counter(text.partition(": ")[0] for _, found, text in lines if found)
    told = ", ".join(f"{count} x {text[:60]!r}" for text, count in counts.items())
    return told, set(counts.values()) == {1}


def unknown_master(trial: Trial) -> Seen:
    """Sentinels may be told of a master later, so the crawl goes on, and a warning says why."""
    done = crawl(trial, sentinels, "redis+sentinel://PLACE/other/0", DEDUP_RETRIES=0)
    return ended(done, "WARNING: The index can't be used yet", "know no master 'other'")


def no_server_closes(trial: Trial) -> Seen:
    """With DEDUP_ON_ERROR=close the crawl is not started."""
    done = crawl(trial, nothing, "redis://PLACE", DEDUP_ON_ERROR="close", DEDUP_RETRIES=0)
    return refused(done, "Start the server, or correct DEDUP_INDEX_URL")


def outage(trial: Trial) -> Seen:
    """The server goes away and comes back: one warning, and a line when it is back."""
    server = RedisServer(trial.folder("outage"), ["--appendonly", "yes"])
    server.start()
    try:
        settings = {
            "DOWNLOAD_DELAY": 2,
            "DEDUP_TIMEOUT": 1,
            "DEDUP_RETRIES": 0,
            "LOG_LEVEL": "INFO",
        }
        crawl = trial.project.begin(server.url, settings=settings)
        crawl.await_text("The index holds no pages yet")
        server.kill()
        crawl.await_text("WARNING")
        server.start()
        done = crawl.wait(300)
    finally:
        server.kill()
    told, is_once = warnings(done)
    back = [line for line in done.text.splitlines() if "The index can be used again" in line]
    is_met = done.code == 0 and is_once and len(back) == 1
    printed = f"{told}; {'/'.join(back) or 'nothing is said of its return'}"
    command = done.command.replace(" ".join(trial.pages), "...")
    return Seen(command, printed, met=is_met)


def outage_closes(trial: Trial) -> Seen:
    """With DEDUP_ON_ERROR=close a crawl that loses its index exits with 1."""
    server = RedisServer(trial.folder("closing"))
    server.start()
    try:
        settings = {"DOWNLOAD_DELAY": 2, "DEDUP_TIMEOUT": 1, "DEDUP_RETRIES": 0}
        settings_text = {**settings, "DEDUP_ON_ERROR": "close", "LOG_LEVEL": "INFO"}
        crawl = trial.project.begin(server.url, settings=settings_text)
        crawl.await_text("The index holds no pages yet")
    finally:
        server.kill()
    done = crawl.wait(300)
    lines = [
        line for line in done.text.splitlines() if " ERROR: " in line or "finish_reason" in line
    ]
    command = done.command.replace(" ".join(trial.pages), "...")
    is_met = done.code == 1 and any("'dedup_index_unavailable'" in line for line in lines)
    return Seen(command, f"exit {done.code}; {' / '.join(lines[:2])}", met=is_met)


POINTS = (
    works("the right password", plain, "redis://:right@PLACE/0"),
    refuses("a wrong password", BEFORE, plain, "redis://:s3cret@PLACE/0", "user and password"),
    refuses("no password", BEFORE, plain, "redis://PLACE/0", "user and password"),
    refuses("a wrong user", BEFORE, plain, "redis://me:s3cret@PLACE/0", "user and password"),
    refuses("a wrong database", BEFORE, plain, "redis://:right@PLACE/99", "database"),
    refuses(
        "TLS on a plain port", "3 min 18 s, TLS not said", plain, "rediss://:right@PLACE/0",
        "TLS", "begin it with redis://",
    ),
    refuses(
        "a plain client on TLS", BEFORE, with_tls, "redis://PLACE/0", "begin it with rediss://"
    ),
    refuses(
        "a certificate of no known authority", BEFORE, with_tls, "rediss://PLACE/0",
        "ssl_ca_certs=FILE",
    ),
    refuses(
        "a web server", BEFORE, web, "redis://PLACE/0", "not that of a Redis server"
    ),
    works("sentinels", sentinels, "redis+sentinel://PLACE/mymaster/0"),
    Point(AREA, "an unknown master's name is said at once", "", unknown_master),
    refuses(
        "sentinels in the address of a plain server", BEFORE, plain,
        "redis+sentinel://:right@PLACE/mymaster/0", "sentinel",
    ),
    refuses(
        "a sentinel as a plain server", BEFORE, sentinels, "redis://PLACE/0", "DEDUP_INDEX_URL"
    ),
    works("a cluster", cluster, "redis+cluster://PLACE"),
    works("a node of a cluster as a plain server", cluster, "redis://PLACE/0"),
    refuses(
        "a cluster in the address of a plain server", BEFORE, plain,
        "redis+cluster://:right@PLACE", "leave +cluster out",
    ),
    Point(AREA, "no server: pages are kept, each warning once", "five warnings", no_server),
    Point(AREA, "no server, `DEDUP_ON_ERROR = close`: exit 1", "exit 0", no_server_closes),
    Point(AREA, "an outage: each warning once, and its end is said", "not said", outage),
    Point(AREA, "an outage, `DEDUP_ON_ERROR = close`: exit 1", "exit 0", outage_closes),
)  # fmt: skip
