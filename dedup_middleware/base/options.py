"""All ``DEDUP_*`` settings as one frozen, checked object.

A test compares ``docs/settings.md`` with this module.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from dedup_middleware.base.errors import OptionsError
from dedup_middleware.base.settingfields import (
    PARTS,
    PREFIX,
    FieldNames,
    ItemClass,
    between,
    clusters_check,
    convert,
    former_index_url_check,
    hexadecimal,
    hide_password,
    index_url_check,
    journal_check,
    namespace_check,
    not_blank,
    one_of,
    option,
    path_check,
    setting_name,
    shards_check,
    to_item_classes,
    window_check,
)

SEGMENTERS = ("jieba", "fmm", "words", "char")
METHODS = (
    "content",
    "simhash",
    "minhash",
    "csu",
    "charset",
    "machine-code",
    "structure-tree",
    "feature-string",
    "md5",
    "luogang",
    "weighted-simhash",
    "segments",
    "rules",
    "feature-list",
    "random-projection",
    "text-profile",
    "idf",
)
OWN_METHODS = METHODS[:3]  # the others come from the literature
SIMHASH_METHODS = ("simhash", "luogang", "weighted-simhash")
#: default number of MinHash bands, with anchors and without
BANDS_WITH_ANCHORS, BANDS = 2, 8
#: threshold of the method ``content`` by preset
PRESETS: Mapping[str, float] = {"strict": 0.9, "balanced": 0.8, "aggressive": 0.7}
MEASURES = ("containment", "jaccard", "novelty")  # in the order of methods/content_rule.py's codes
SKETCH_BITS = 512


@attrs.frozen(kw_only=True)
class Options:
    """All settings: how pages are compared, where the index is, what happens to a duplicate.

    :raises OptionsError: a value can't be used; the message names the setting and the fix
    """

    # Where
    index_url: str = option(
        "memory:",
        "Where the index is: `memory:`, `sqlite:PATH`, `redis://...`, `rediss://...`, "
        "`redis+sentinel://...`, `rediss+sentinel://...`, `redis+cluster://...`, "
        "`rediss+cluster://...` or `unix://...`.",
        index_url_check,
        shown=lambda url: repr(hide_password(url)),
    )
    namespace: str = option(
        "dedup",
        "Prefix of every key in Redis; indexes with different names do not see each other. "
        "Refused with `sqlite:`: each index is a file there.",
        namespace_check,
    )
    shards: int = option(
        64,
        "Number of parts of an index on `redis+cluster://`, a power of two, fixed when the index "
        "is made. Each part lies on one master, so there can be as many masters as parts.",
        shards_check,
    )
    former_index_url: str = option(
        "",
        "Address of the index that the crawl is moving away from. While it is set, each page is "
        "looked up there first; see [Moving over](cluster.md#during-the-crawl). "
        "Empty: none.",
        former_index_url_check,
        shown=lambda url: repr(hide_password(url)),
    )
    former_namespace: str = option(
        "",
        "Namespace of that index if it is in Redis; empty: that of `DEDUP_NAMESPACE`.",
        namespace_check,
    )
    keep_address: bool = option(
        True,
        "Store the address of each page in the index, so that a verdict can name the page. "
        "`False` saves the space; `match` is then empty, log lines, reports and `supersedes` have "
        "page ids, and `forget --host` finds nothing.",
    )
    hash_key: str = option(
        "",
        "Secret key of all hashes in a new index, a hexadecimal number; empty: a random one.",
        hexadecimal,
        shown=lambda key: repr("..." if key else ""),
    )

    # How pages are compared
    method: str = option(
        "content",
        f"Method that decides: `{'`, `'.join(METHODS[:-1])}` or `{METHODS[-1]}`.",
        one_of(*METHODS),
    )
    method_parameters: str = option(
        "", "Parameters of a method of the literature, as `name=value` separated by spaces."
    )
    threshold: float | None = option(
        None,
        "Similarity from which a page is a duplicate, in the measure of the method; `None`: the "
        "default of the method. With `content`, a higher value allows fewer words that the stored "
        "page lacks; see [New words](how-it-decides.md#new-words).",
        between(0.05, 1.0),
        kind="float",
    )
    preset: str = option(
        "balanced",
        "Threshold of `DEDUP_METHOD=content` by name: `strict` (0.9) drops least, `aggressive` "
        "(0.7) finds most, `balanced` (0.8) is in between; `DEDUP_THRESHOLD` overrides it.",
        one_of(*PRESETS),
    )
    measure: str = option(
        "containment",
        "What `DEDUP_METHOD=content` compares with the threshold. `containment`: how much of the "
        "new page a stored page contains; an excerpt of a stored page is dropped, a page that "
        "says more is kept. `novelty`: the same, but even in a long page only about a sentence "
        "may be new. `jaccard`: how much of the text of both is common; an excerpt is kept, too.",
        one_of(*MEASURES),
    )
    distance: int = option(
        3,
        f"Hamming distance, in bits, of the methods `{'`, `'.join(SIMHASH_METHODS)}`, which have "
        "no other threshold.",
        between(0, 3, " bits"),
    )
    scan_distance: int = option(
        12,
        "Hamming distance, in bits, up to which a page in the same SimHash bucket is a candidate.",
        between(3, 64, " bits"),
    )
    min_features: int = option(
        8,
        "Pages with fewer distinct shingles are compared by their exact text only.",
        between(1, 10_000, " shingles"),
    )
    evidence: str = option(
        "filter",
        "What `content` stores of a page to compare others with it: `filter` holds all its "
        "shingles, finds excerpts and shows where new words stand; `sketch` takes 64 bytes.",
        one_of("filter", "sketch"),
    )
    segmenter: str = option(
        "jieba", "How words are found: `jieba`, `fmm`, `words` or `char`.", one_of(*SEGMENTERS)
    )
    user_dictionary: str = option(
        "", "File with words of your own, in the format of jieba's user dictionaries.", path_check
    )
    fold_traditional: bool = option(
        False, "Compare traditional and simplified Chinese as one script (extra `traditional`)."
    )
    extractor: Literal["balanced", "fast", "best"] = option(
        "balanced",
        "How the body is found in HTML. `balanced` uses trafilatura for doubtful pages, `best` its "
        "slower algorithms for them, which helps most on forums; `fast` never uses it.",
        one_of("balanced", "fast", "best"),
    )
    shingle_width: int = option(3, "Words in a shingle.", between(1, 16, " words"))
    max_chars: int = option(
        1_000_000,
        "Characters of a page that are compared; of a longer page only an equal text is a copy.",
        between(100, 100_000_000, " characters"),
    )
    num_perm: int = option(512, "MinHash permutations: 128, 256, 512 or 1024.")
    probes: int = option(
        0,
        "How many bits of each SimHash block are flipped, one at a time, the least certain first. "
        "Each adds a bucket for each of the four blocks in which candidates are looked for.",
        between(0, 16, " bits"),
    )
    bands: int | None = option(
        None,
        "Number of MinHash bands; each is one more table. `None`: 2 with `DEDUP_EVIDENCE=filter`, "
        "which also finds pages by their clauses, else 8.",
        between(0, 54),
        kind="int",
    )
    rows: int = option(3, "Minima in a band.", between(1, 32))

    # What happens
    enabled: bool = option(True, "`False` switches the pipeline off.")
    reset: bool = option(
        False,
        "Forget all pages of earlier crawls at the start; meant for the command line: "
        "`-s DEDUP_RESET=1`.",
    )
    action: str = option(
        "drop",
        "`drop` a duplicate, or `mark` it; then no item is dropped, whatever `DEDUP_REVISIT`, "
        "`DEDUP_ON_EMPTY` and `DEDUP_ON_ERROR` say.",
        one_of("drop", "mark"),
    )
    revisit: str = option(
        "drop",
        "An unchanged page that is crawled again under its own key: `drop` it or `keep` it.",
        one_of("drop", "keep"),
    )
    versions: str = option(
        "replace",
        "What your storage does with the earlier text of a page that changed: `replace` it (the "
        "index then forgets that text, and a copy of it is stored again) or `keep` it as a "
        "version of its own.",
        one_of("replace", "keep"),
    )
    on_fuller: str = option(
        "keep",
        "What to do when a new page contains all words of a stored one, such as the report after "
        "the flash: `keep` both, or `replace` the stored one. Then the index forgets it once the "
        "new page is stored, and the signal `dedup_superseded` names it to your storage.",
        one_of("keep", "replace"),
    )
    on_empty: str = option(
        "keep", "A page without any text: `keep` or `drop` it.", one_of("keep", "drop")
    )
    on_error: str = option(
        "keep",
        "When the index can't be used: `keep` the page, `drop` it, or `close` the spider. Pages "
        "that waited for `DEDUP_PENDING_WAIT` are kept in any case.",
        one_of("keep", "drop", "close"),
    )

    # How long
    lease: float = option(
        60.0,
        "Lifetime of a claim in seconds. A running process renews its claims; if it dies or hangs, "
        "they expire, and a similar page can be stored.",
        between(0.1, 86_400, " seconds"),
    )
    pending_wait: float = option(
        90.0,
        "Seconds to wait for a similar page that is being stored right now; after that the page is "
        "stored without a verdict (`pending-timeout`).",
        between(0, 86_400, " seconds"),
    )
    window: float = option(
        0.0,
        "Seconds for which a stored page is remembered (at most 1.5 times as long) if it is not "
        "seen again; see [Expiry](redis.md#expiry). 0: for ever.",
        window_check,
    )
    timeout: float = option(
        5.0, "Seconds to wait for an answer of the index.", between(0.05, 600, " seconds")
    )
    retries: int = option(
        2, "How often a failed call to the index is tried again.", between(0, 100)
    )

    # Items
    items: tuple[ItemClass, ...] = option(
        (),
        "Item classes that are pages, by import path, each with the fields whose names differ "
        "from those below; `None` for a class that is not a page. See [Items of several "
        "classes](items.md#items-of-several-classes).",
        kind="items",
        converter=to_item_classes,
    )
    other_items: str = option(
        "check",
        "What to do with items of classes that `DEDUP_ITEMS` does not name: `check` them, or "
        "`skip` them, so that they pass without a check.",
        one_of("check", "skip"),
    )
    text_field: str = option("text", "Item field that holds the body text.", not_blank)
    html_field: str = option(
        "html", "Item field that holds the page's HTML, used when there is no text.", not_blank
    )
    charset_field: str = option(
        "charset", "Item field with the charset of the Content-Type header.", not_blank
    )
    title_field: str = option("title", "Item field that holds the title.", not_blank)
    description_field: str = option(
        "description",
        "Item field with the page's own summary (meta description), which `rules` reads.",
        not_blank,
    )
    key_field: str = option(
        "url", "Item field that names the page, usually its address.", not_blank
    )
    skip_field: str = option(
        "dedup_skip", "An item in which this field is true passes without a check.", not_blank
    )
    fill_text: bool = option(
        True, "Fill empty text and title fields of the item with what was found in the HTML."
    )
    journal: str = option(
        "on",
        "Where dropped pages are recorded: `on` (next to the index), `off`, or the path of a "
        "SQLite file.",
        journal_check,
    )
    journal_max_bytes: int = option(
        256_000_000,
        "Size limit of the journal in bytes; beyond it the oldest drops are deleted.",
        between(100_000, 1e13, " bytes"),
    )
    journal_keep_texts: bool = option(
        True,
        "Keep the texts of stored pages too, in at most half of the journal's bytes, so that "
        "dropped pages can be compared with them.",
    )
    crawl_id: str = option(
        "",
        "Id of the crawl in the journal, in reports and in filters. Empty: the id of the job "
        "(`SCRAPY_JOB` in the environment, as on Scrapy Cloud, or the spider argument `_job` of "
        "scrapyd), or else the time of the start.",
    )
    clusters: str = option(
        "",
        "File for the stored pages and the mirrors of them that the crawl found, written at its "
        "end: JSON lines, CSV or Parquet, by its suffix. `%(name)s`, `%(time)s` and `%(crawl)s` "
        "in its name stand for the spider, the time of the start and the crawl's id. Empty: none.",
        clusters_check,
    )
    clusters_near: bool = option(
        False, "Write near misses into that file too: new pages that are similar to a stored one."
    )
    metrics_port: int = option(
        0,
        "Port on which Prometheus can read the stats (extra `metrics`); 0: none.",
        between(0, 65535),
    )
    metrics_host: str = option("127.0.0.1", "Address on which that port is opened.", not_blank)
    drop_log_level: str = option(
        "DEBUG",
        "Level at which a dropped item is logged; one that `DEDUP_ON_ERROR=drop` drops is logged "
        "as a warning.",
        one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    )
    mark_field: str = option(
        "dedup", "Item field that gets the verdict with `DEDUP_ACTION=mark`.", not_blank
    )

    @property
    def safe_index_url(self) -> str:
        """The address of the index without its password."""
        return hide_password(self.index_url)

    @property
    def field_names(self) -> FieldNames:
        """Field names for items of classes that ``DEDUP_ITEMS`` does not name."""
        return FieldNames(**{part: getattr(self, f"{part}_field") for part in PARTS})

    @property
    def keeps_evidence(self) -> bool:
        """Whether an index keeps the evidence filters and anchors of pages."""
        return self.method == "content" and self.evidence == "filter"

    @property
    def band_count(self) -> int:
        """Number of MinHash bands of a page."""
        if self.bands is not None:
            return self.bands
        return BANDS_WITH_ANCHORS if self.keeps_evidence else BANDS

    def _refused(self, field: str, fix: str) -> OptionsError:
        return OptionsError(setting_name(field), getattr(self, field), fix)

    def __attrs_post_init__(self) -> None:
        conflict = self.field_names.conflict()
        if conflict is not None:
            own, part = conflict
            fix = f"{setting_name(f'{part}_field')} names the same field; name another one"
            raise self._refused(f"{own}_field", fix)
        if self.threshold is not None and self.method in SIMHASH_METHODS:
            fix = f"leave it out: DEDUP_METHOD={self.method} decides by DEDUP_DISTANCE, in bits"
            raise self._refused("threshold", fix)
        for field, place in ("namespace", "index_url"), ("former_namespace", "former_index_url"):
            value = getattr(self, field)
            if value not in {"", "dedup"} and getattr(self, place).startswith("sqlite:"):
                raise self._refused(
                    field,
                    "only an index in Redis has namespaces; leave it out and name another file in "
                    f"{setting_name(place)}, for example sqlite:{value}.db",
                )
        if self.former_namespace and not self.former_index_url:
            fix = "name the index in DEDUP_FORMER_INDEX_URL too, or leave this out"
            raise self._refused("former_namespace", fix)
        if self.num_perm not in {128, 256, 512, 1024}:
            raise self._refused("num_perm", "use 128, 256, 512 or 1024 permutations")
        if self.method == "minhash" and not self.band_count:
            fix = "DEDUP_METHOD=minhash finds pages by bands only; use 1 or more, or leave it out"
            raise self._refused("bands", fix)
        if self.band_count * self.rows > self.num_perm:
            raise OptionsError(
                setting_name("bands"),
                self.band_count,
                f"{self.band_count} bands of {self.rows} rows need {self.band_count * self.rows} "
                f"permutations, and DEDUP_NUM_PERM={self.num_perm}; lower one or raise the other",
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Options:
        """Make options from ``DEDUP_*`` names, as in a settings file; strings are converted.

        :raises OptionsError: unknown name, wrong type or unusable value

        >>> Options.from_mapping({"DEDUP_THRESHOLD": "0.9"}).threshold
        0.9
        """
        fields = {setting_name(f.name): f for f in attrs.fields(cls)}
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            if name not in fields:
                # The value may be a password under a misspelt name.
                shown = value if re.fullmatch(r"[\d.]{1,4}|True|False", str(value)) else "..."
                words = [one.removeprefix(PREFIX) for one in fields]  # all names begin alike
                word = str(name).upper().removeprefix(PREFIX)
                meant = difflib.get_close_matches(word, words, n=1, cutoff=0.7) or [
                    one
                    for one in words
                    if one.startswith(f"{word}_") or one.split("_")[-1] == word.split("_")[-1]
                ]
                is_clear = 0 < len(meant) < 3
                hint = f"do you mean {PREFIX}{meant[0]}?" if is_clear else "see docs/settings.md"
                raise OptionsError(str(name), shown, f"no such setting; {hint}")
            if value is None:
                continue
            arguments[fields[name].name] = convert(fields[name], value)
        return cls(**arguments)
