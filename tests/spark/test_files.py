"""Files of every format in, tables out; nothing is lost on the way."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from dedup_middleware import Options
from dedup_middleware.base.errors import OptionsError
from dedup_middleware.spark import Job, Result, deduplicate, filesystem, reading
from dedup_middleware.spark.__main__ import main, sentences, spark_errors
from dedup_middleware.spark.job import check_unchanged, run
from dedup_middleware.spark.reading import read_files
from dedup_middleware.spark.stages import SparkError, changed
from dedup_middleware.tools.files.rows import read_csv
from tests.spark.streams import Row
from tests.texts import article

OPTIONS = Options(hash_key="5")


def pages() -> list[Row]:
    """Two stories, three pages each; the second page of a story is the longest and the oldest."""
    rows = []
    for n in range(6):
        text = article(n % 2, 30)
        if n in {2, 3}:
            text += "又及，以上内容与此前相同。"
        date = "2020-01-01" if n in {2, 3} else f"2021-01-0{n + 1}T08:00:00Z"
        rows.append({"url": f"https://a.example/{n}", "title": "标题", "text": text, "date": date})
    return rows


def keys(result: Result) -> tuple[list[str], list[tuple[str, str]]]:
    """Keys of the kept pages, and of the dropped ones with their matches."""
    kept = [row["dedup_key"][-1] for row in result.kept.sort("dedup_order").collect()]
    dropped = result.duplicates.sort("order").collect()
    return kept, [(row["key"][-1], row["match_key"][-1]) for row in dropped]


def job(output: str, **more: str) -> Job:
    """A job of few partitions."""
    return Job(output=output, partitions=2, **more)


def write_warc(path: Path, rows: Sequence[Row]) -> None:
    """Responses with the pages, and a record that holds none."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for row in rows:
            body = f"<html><title>{row['title']}</title><body><p>{row['text']}</p></body></html>"
            headers = StatusAndHeaders(
                "200 OK", [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1"
            )
            writer.write_record(
                writer.create_warc_record(
                    row["url"], "response", io.BytesIO(body.encode()), http_headers=headers
                )
            )
        writer.write_record(writer.create_warcinfo_record("info", {"software": "tests"}))


EXPECTED = (["0", "1"], [("2", "0"), ("3", "1"), ("4", "0"), ("5", "1")])


def test_json_lines_and_rejects(spark: SparkSession, tmp_path: Path) -> None:
    """Files by name and unchanged lines; lines that are no page are reported with the reason."""
    folder = tmp_path / "with space"
    folder.mkdir()
    lines = [json.dumps(row, ensure_ascii=False) for row in pages()]
    bad = ['{"url": ', '["no object"]', '{"url": "https://a.example/x"}', '{"text": 5}']
    (folder / "1.jsonl").write_text("\n".join([*lines[:2], "", *bad, lines[2]]) + "\n")
    (folder / "2.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[3:]).encode()))
    (folder / "1.jsonl").open("ab").write(b'{"url": "\xff"}\n')
    options = job(str(tmp_path / "result"))
    result = run(read_files(spark, [str(folder)], OPTIONS, options), OPTIONS, options)
    assert keys(result) == EXPECTED
    assert result.numbers == {"read": 11, "kept": 2, "duplicates": 4, "clusters": 6, "rejects": 5}
    rejects = result.rejects.sort("position").collect()
    assert {row["row"] for row in rejects} == {None}
    assert [row["raw"][:9] for row in rejects] == [*(line[:9] for line in bad), '{"url": "']
    assert all(row["file"].endswith("1.jsonl") and row["reason"] for row in rejects)
    assert json.loads(result.kept.sort("dedup_order").first()["line"]) == pages()[0]


@pytest.mark.parametrize(
    ("keep", "survivors"), [("longest", ["2", "3"]), ("earliest-date", ["2", "3"])]
)
def test_parquet_and_who_survives(
    spark: SparkSession, tmp_path: Path, keep: str, survivors: list[str]
) -> None:
    """The longest or the oldest page of a story is kept, and has all its columns."""
    rows = [{**row, "more": [n]} for n, row in enumerate(pages())]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pages.parquet", row_group_size=2)
    chosen = job(str(tmp_path / "result"), keep=keep)
    source = read_files(spark, [str(tmp_path / "*.parquet")], OPTIONS, chosen)
    result = run(source, OPTIONS, chosen)
    kept, dropped = keys(result)
    assert sorted(kept) == survivors
    assert sorted(dropped) == [("0", "2"), ("1", "3"), ("4", "2"), ("5", "3")]
    assert sorted(row["more"][0] for row in result.kept.collect()) == [2, 3]


def test_dates_that_can_not_be_read(spark: SparkSession, tmp_path: Path) -> None:
    """They are counted; if all are so, the name of the column may be wrong, and the first pages
    would be kept."""
    rows = [{**row, "date": "soon"} if n == 1 else row for n, row in enumerate(pages())]
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"url": "u"}])))
    words = [str(tmp_path / "pages.jsonl"), "-o", str(tmp_path / "result")]
    chosen = job(words[2], keep="earliest-date")
    result = run(read_files(spark, words[:1], OPTIONS, chosen), OPTIONS, chosen)
    assert result.numbers["undated"] == 1
    state = {**result.numbers, "seconds": 1, "output": words[2], "doubtful": 0}
    assert "1 pages have no date that can be read: they come last." in sentences(state)
    other = job(str(tmp_path / "other"), keep="earliest-date", date_field="day")
    with pytest.raises(SparkError, match="date_field='day' can't be used: no row has a date"):
        run(read_files(spark, words[:1], OPTIONS, other), OPTIONS, other)


def test_a_result_in_the_folder_that_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """It is none of the input, so that the job can go on when it is started again."""
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, pages())))
    chosen = job(str(tmp_path / "result"))
    numbers = []
    for _ in range(2):
        source = read_files(spark, [str(tmp_path)], OPTIONS, chosen)
        numbers.append(run(source, OPTIONS, chosen).numbers)
    assert numbers[0] == numbers[1]
    assert numbers[0]["read"] == 6


def test_csv(spark: SparkSession, tmp_path: Path) -> None:
    """Fields over several lines, quotes in them, any names of columns; a row with too many fields
    or in another encoding is rejected."""
    path = tmp_path / "pages.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["url", "title", "text", "order", "a`b"])
        for row in pages():
            text = row["text"].replace("。", "。\n")
            writer.writerow([row["url"], 'a "title"', text, "x", "y"])
        writer.writerow(["https://a.example/7", "b", "c", "d", "e", "f"])
    path.open("ab").write("https://a.example/8,b,渡口的老船工说,d,e\n".encode("gbk"))
    (tmp_path / "empty.csv").write_text("")
    options = job(str(tmp_path / "result"))
    files = [str(tmp_path / "*.csv")]
    result = run(read_files(spark, files, OPTIONS, options), OPTIONS, options)
    assert keys(result) == EXPECTED
    rejected = [row["reason"] for row in result.rejects.sort("position").collect()]
    assert rejected == ["it has 6 fields, the first line has 5", "it is not UTF-8"]
    kept = result.kept.first()
    assert (kept["title"], kept["order"], kept["a`b"]) == ('a "title"', "x", "y")


def test_a_quote_that_is_never_closed(spark: SparkSession, tmp_path: Path) -> None:
    """It would make one row of the rest of a file, so the job ends as on one machine; it does not
    for a quote within a field."""
    folder = tmp_path / "with space"
    folder.mkdir()
    rows = "\n".join(f"https://a.example/{n},{row['text']}" for n, row in enumerate(pages()))
    inches = f'url,text\nhttps://a.example/8,a pipe of 5" and its uses\n{rows}\n'
    (folder / "inches.csv").write_text(inches + 'https://a.example/9,"the last\none"\n')
    chosen = job(str(tmp_path / "result"))
    source = read_files(spark, [str(folder / "inches.csv")], OPTIONS, chosen)
    assert run(source, OPTIONS, chosen).numbers["read"] == 8
    (folder / "open.csv.gz").write_bytes(
        gzip.compress(
            f'url,text\nhttps://a.example/8,"short"\nhttps://a.example/9,"{rows}'.encode()
        )
    )
    chosen = job(str(tmp_path / "other"))
    source = read_files(spark, [str(folder / "*.csv*")], OPTIONS, chosen)
    with pytest.raises(SparkError, match=r"with space/open\.csv\.gz: the quote that row 2 opens"):
        run(source, OPTIONS, chosen)
    (folder / "open.csv.gz").unlink()
    (folder / "names.csv").write_text(f'url,"text\n{rows}')
    with pytest.raises(SparkError, match="the quote that the first line opens is never closed"):
        read_files(spark, [str(folder / "names.csv")], OPTIONS, chosen)


@pytest.mark.parametrize("first", ["", ",,"])
def test_csv_with_a_blank_first_line(spark: SparkSession, tmp_path: Path, first: str) -> None:
    """It has no names of columns; the message is that of `scrapy dedup files`."""
    path = tmp_path / "blank.csv"
    path.write_text(f"{first}\nurl,text,more\nhttps://a/1,{article(1)},\n")
    with pytest.raises(SparkError, match=r"blank\.csv: the first line is blank: remove it"):
        read_files(spark, [str(path)], OPTIONS, job(str(tmp_path / "result")))


def test_a_quote_that_is_never_closed_behind_one_within_a_field(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The number of quotes is even; all rows behind the second one would be one text."""
    rows = "\n".join(f"https://a.example/{n},{row['text']}" for n, row in enumerate(pages()))
    inches = 'url,text\nhttps://a/8,a pipe of 5" long\n'
    (tmp_path / "even.csv").write_text(f'{inches}https://a/9,"never closed\n{rows}\n')
    (tmp_path / "good.csv").write_text(f"{inches}{rows}\n")
    chosen = job(str(tmp_path / "result"))
    source = read_files(spark, [str(tmp_path / "*.csv")], OPTIONS, chosen)
    with pytest.raises(SparkError, match=r"even\.csv: the quote that row 2 opens is never closed"):
        run(source, OPTIONS, chosen)


def test_legal_csv_is_not_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of many lines, where Spark would cut the file within a text. The driver, to which a file
    comes a hundred times slower than to a task, reads no file but its first line."""
    inches = 'https://a/8,a pipe of 5" long'
    text = "\n".join(f'line {n} of ""many""' for n in range(150))
    tail = "\n".join(f"https://a/{n},plain" for n in range(10))
    of_files = {
        "lines.csv": f'url,text\n{inches}\nhttps://a/1,"{text}"\n{tail}\nhttps://a/2,"{text}"',
        "crlf.csv": f'url,text\n{inches}\nhttps://a/1,"a\n""b"""\n{tail}\n'.replace("\n", "\r\n"),
        "cr.csv": f'url,text\n{inches}\nhttps://a/1,"a\n""b"\n{tail}\n'.replace("\n", "\r"),
        "mark.csv": f'\ufeff"url","text"\n{inches}\n{tail}',
        "zero.csv": f"url,text\n{inches}\nhttps://a/1,a\0b\n{tail}\n",
        "last.csv": f'url,text\n{tail}\nhttps://a/1,"open',
        "empty.csv": "",
    }
    for name, content in of_files.items():
        (tmp_path / name).write_bytes(content.encode())
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    chosen = job(str(tmp_path / "result"))
    source = read_files(spark, [str(tmp_path / "*.csv*")], OPTIONS, chosen)
    monkeypatch.delattr(reading, "opened")
    with changed(spark, {"spark.sql.files.maxPartitionBytes": "2000"}):
        numbers = run(source, OPTIONS, chosen).numbers
    expected = sum(1 for path in tmp_path.glob("*.csv*") for _ in read_csv(path))
    assert (numbers["read"], numbers["rejects"]) == (expected, 0)


def test_a_quote_that_another_one_closes(spark: SparkSession, tmp_path: Path) -> None:
    """The row between the two was lost: it was part of a text."""
    rows = f'https://a/1,"open {article(1)}\nhttps://a/2,"{article(2)}"\nhttps://a/3,{article(3)}\n'
    (tmp_path / "pages.csv").write_text(f"url,text\n{rows}")
    chosen = job(str(tmp_path / "result"))
    result = run(read_files(spark, [str(tmp_path / "*.csv")], OPTIONS, chosen), OPTIONS, chosen)
    assert keys(result)[0] == ["3"]
    rejected = result.rejects.collect()
    assert [row["row"] for row in rejected] == [1]
    assert [(row["position"] & 0xFFFF, row["reason"]) for row in rejected] == [
        (1, "a quote is within a field, so that it is not known which of 2 lines are one row")
    ]
    assert "https://a/2" in rejected[0]["raw"]


def test_rows_of_csv_that_may_hold_others(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are counted and the first is named, as by ``scrapy dedup files``."""
    (tmp_path / "1.csv").write_text(f"url,text\nhttps://a/0,{article(0)}\n")
    (tmp_path / "2 é.csv").write_text(
        f'url,text\nhttps://a/1,"{article(1)}\n{article(2)}"\nhttps://a/2,"open {article(3)}\n'
        f'https://a/3,a pipe of 5"\nhttps://a/4,{article(4)}\n'
        f'https://a/5,"open {article(5)}\nhttps://a/6,one of 6","too many"\n'
    )
    words = [str(tmp_path / "*.csv"), "-o", str(tmp_path / "result")]
    assert main([*words, "--master", "local[2]", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["read"], state["kept"], state["rejects"]) == (5, 4, 1)
    assert (state["doubtful"], state["first_doubtful"]) == (1, f"row 2 of file:{tmp_path}/2 é.csv")
    assert "1 rows may hold others, as where quotes are missing; the first is row 2 of" in (
        sentences(state)
    )
    columns = set(spark.read.parquet(str(tmp_path / "result" / "kept")).columns)
    assert columns == {"url", "text", "dedup_file", "dedup_key", "dedup_order"}


def test_names_and_rows_that_end_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    """As where a program puts names before the rows of another one: Spark reads line after line,
    not all rows as one, which a large file leaves no memory for."""
    texts = {"lf.csv": "url,text\n{}\r", "cr.csv": "url,text\r{}\n", "crlf.csv": "url,text\r\n{}\r"}
    lines = [f"https://a/{n},{article(n)}" for n in range(20)]
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.format(text[-1].join(lines)).encode())
        source = read_files(spark, [str(tmp_path / name)], OPTIONS, job(str(tmp_path / "result")))
        assert [row["text"] for row in source.rows.collect()] == [article(n) for n in range(20)]
        assert source.given is not None
        assert source.given.count() >= 20


def test_lines_that_end_in_several_ways(spark: SparkSession, tmp_path: Path) -> None:
    """A file whose first line ends as on Windows and the others do not, as where files were put
    together: Spark would take all of them for one row."""
    long = article(1)
    rows = [f"https://a/{n},{article(n)}" for n in range(4)]
    text = f'url,text\r\n{rows[0]}\n{rows[1]}\r\n\r\n{rows[2]}\nhttps://a/4,"{long}"\r\n{rows[3]}\n'
    (tmp_path / "mixed.csv").write_bytes(text.encode())
    (tmp_path / "lines.csv").write_bytes(b'url,text\r\nhttps://a/5,"one\r\ntwo"\r\n\r\n')
    chosen = job(str(tmp_path / "result"))
    result = run(read_files(spark, [str(tmp_path / "*.csv")], OPTIONS, chosen), OPTIONS, chosen)
    assert result.numbers == {"read": 6, "kept": 5, "duplicates": 1, "clusters": 2, "rejects": 0}
    kept = {row["url"]: row["text"] for row in result.kept.collect()}
    texts = {f"https://a/{n}": article(n) for n in (0, 2, 3)}
    found = [url for url in ("https://a/1", "https://a/4") if url in kept]
    assert kept == {**texts, found[0]: long, "https://a/5": "one\r\ntwo"}
    (tmp_path / "one.csv").write_bytes(b"text\r\nsome words\r\n\r\nother ones\n")
    chosen = job(str(tmp_path / "other"))
    source = read_files(spark, [str(tmp_path / "one.csv")], OPTIONS, chosen)
    assert [row["text"] for row in run(source, OPTIONS, chosen).kept.collect()] == [
        "some words", "other ones"
    ]  # fmt: skip


def test_java_hands_over_large_pieces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call takes longer than what it brings; where only a first line is read, that is little."""
    sizes = []
    read = filesystem._Stream.readinto

    def counted(stream: filesystem._Stream, buffer: bytearray) -> int:
        sizes.append(len(buffer))
        return read(stream, buffer)

    monkeypatch.setattr(filesystem._Stream, "readinto", counted)
    path = tmp_path / "names.csv"
    path.write_text('url,"text\n' + "https://a.example/1,text\n" * 160_000)
    chosen = job(str(tmp_path / "result"))
    with pytest.raises(SparkError, match="the quote that the first line opens is never closed"):
        read_files(spark, [str(path)], OPTIONS, chosen)
    assert len(sizes) < 20
    del sizes[:]
    path.write_text("url,text\n" + "https://a.example/1,text\n" * 160_000)
    read_files(spark, [str(path)], OPTIONS, chosen)
    assert sum(sizes) < 100_000


def test_any_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Columns of all files and of any name are kept, whatever the order of the pages. A row whose
    text can't be read is rejected, one whose date can't be read is not."""
    texts = [row["text"].encode() for row in pages()]
    texts[5] = texts[5].decode().encode("gb18030")
    raw = pa.array(texts, pa.binary()).view(pa.string())
    table = pa.table(
        {
            "url": [row["url"] for row in pages()],
            "text": raw,
            "date": pa.array([10**9] * 6, pa.int32()).cast(pa.date32()),
            "order": list("abcdef"),
            "a.b": [1] * 6,
        }
    )
    pq.write_table(table.slice(0, 3), tmp_path / "pages[1].parquet")
    more = table.slice(3, 3).append_column("more", pa.array([7] * 3))
    pq.write_table(more, tmp_path / "pages[2].parquet")
    chosen = job(str(tmp_path / "result"), keep="longest")
    result = run(read_files(spark, [str(tmp_path)], OPTIONS, chosen), OPTIONS, chosen)
    kept = {row["dedup_key"][-1]: row for row in result.kept.drop("date").collect()}
    found = {key: (row["order"], row["a.b"], row["more"]) for key, row in kept.items()}
    assert found == {"2": ("c", 1, None), "3": ("d", 1, 7)}
    (rejected,) = result.rejects.collect()
    assert rejected["reason"].startswith("field 'text' can't be read: 'utf-8' codec can't decode")


def test_warc(spark: SparkSession, tmp_path: Path) -> None:
    """Pages of responses; the damaged rest of a file is one rejected row."""
    path = tmp_path / "pages.warc.gz"
    write_warc(path, pages())
    (tmp_path / "q.warc.gz").write_bytes(b"no archive at all")
    options = job(str(tmp_path / "result"))
    result = run(read_files(spark, [str(tmp_path)], OPTIONS, options), OPTIONS, options)
    assert keys(result) == EXPECTED
    assert [row["reason"][:20] for row in result.rejects.collect()] == ["the rest of the file"]
    assert bytes(result.kept.first()["html"]).startswith(b"<html>")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_changes_while_it_is_read(
    spark: SparkSession, tmp_path: Path, *, is_there: bool
) -> None:
    """Rows that were there when the job began are not passed over."""
    path, chosen = tmp_path / "pages.jsonl", job(str(tmp_path / "result"))
    path.write_text("\n".join(map(json.dumps, pages())))
    source = read_files(spark, [str(path)], OPTIONS, chosen)

    def change(step: str) -> None:
        if step == "work/pages":
            path.write_text(json.dumps(pages()[0])) if is_there else path.unlink()

    message = "has changed while it was read" if is_there else "does not exist"
    with (
        pytest.raises(SparkError, match=message),
        spark_errors("the job"),
    ):
        run(source, OPTIONS, chosen, change)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_lines_in_parts_are_those_of_the_file(end: str) -> None:
    """Wherever Spark ends a part of them; a CR LF between two parts was two lines."""
    text = "a\r\n\r\nb\n\n\rc\r\r\n\n\r\nd"
    lines = text.encode().split(end.encode())
    for places in product([0, 1], repeat=len(lines) - 1):
        cuts = [0, *(n for n, is_cut in enumerate(places, 1) if is_cut), len(lines)]
        parts = [lines[start:stop] for start, stop in pairwise(cuts)]
        assert [*reading._text(parts, end)] == [*io.StringIO(text, newline="")]


def test_csv_that_loses_its_names_while_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """The message was "generator raised StopIteration"."""
    chosen, path = job(str(tmp_path / "result")), tmp_path / "pages.csv"
    path.write_text("url,text\nhttps://a/1,one\n")
    source = read_files(spark, [str(path)], OPTIONS, chosen)

    def change(step: str) -> None:
        if step == "work/pages":
            path.write_text("\n\n")

    with pytest.raises(SparkError, match=r"pages\.csv has changed while it was read"):
        run(source, OPTIONS, chosen, change)


def test_files_are_looked_at_with_few_calls(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of Java takes a part of a millisecond, one that makes a configuration several. A
    file that is gone is named."""
    for number in range(50):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(pages()[0]))
    source = read_files(spark, [str(tmp_path)], OPTIONS, job(str(tmp_path / "result")))
    calls = []
    client: Any = spark._sc._gateway._gateway_client
    send = client.send_command

    def counted(command: str, *more: Any, **named: Any) -> Any:
        calls.append(command)
        return send(command, *more, **named)

    monkeypatch.setattr(client, "send_command", counted)
    check_unchanged(spark, source)
    asked = [call for call in calls if not call.startswith("m\n")]  # others free memory of Java
    assert sum("newHadoopConf" in call for call in asked) == 1
    assert len(asked) < 50 * 8
    (tmp_path / "7.jsonl").unlink()
    with pytest.raises(SparkError, match=r"/7\.jsonl has changed while it was read"):
        check_unchanged(spark, source)


def test_a_table_of_files_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Spark names the files of a table as addresses, with % before what those can't have."""
    for row, name in zip(pages(), ("a b", "a%20c", "a%", "a#b?c", "a[1]", "网页é+,;"), strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(row))
    chosen = job(str(tmp_path / "result"))
    assert deduplicate(spark.read.json(str(tmp_path)), OPTIONS, chosen).numbers["read"] == 6


def test_a_result_in_a_folder_whose_name_is_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes the name for one when it reads what it has written."""
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, pages())))
    for name in ("a[1]", "{a,b}*?"):
        chosen = job(str(tmp_path / name), keep="longest")
        result = run(
            read_files(spark, [str(tmp_path / "in.jsonl")], OPTIONS, chosen), OPTIONS, chosen
        )
        assert result.numbers["read"] == result.kept.count() + result.numbers["duplicates"] == 6


def test_a_result_in_a_folder_behind_a_link(spark: SparkSession, tmp_path: Path) -> None:
    """Files of the result are no input, by whatever name the folder is given; others are."""
    folder, link = tmp_path / "in", tmp_path / "link"
    (folder / "out" / "kept").mkdir(parents=True)
    link.symlink_to(folder)
    for path in (folder / "pages.jsonl", folder / "out" / "kept" / "part.jsonl"):
        path.write_text(json.dumps(pages()[0]))
    for read, output in ((folder, folder), (link, folder), (folder, link), (link, link)):
        source = read_files(spark, [str(read)], OPTIONS, job(f"{output}/out"))
        assert [Path(file).name for file in source.files] == ["pages.jsonl"]
    message = r"all files at .*link are in the output folder .*in: name"
    with pytest.raises(SparkError, match=message):
        read_files(spark, [str(link)], OPTIONS, job(str(folder)))


def test_files_that_spark_skips(spark: SparkSession, tmp_path: Path) -> None:
    """It reads no file with such a name, also where it is named itself: the rows were lost without
    a message. A column of a partition may begin with an underscore."""
    chosen = job(str(tmp_path / "result"))
    skipped = ("_some.jsonl", ".more.jsonl", "new.jsonl._COPYING_")
    for name in ("pages.jsonl", "_n=1.jsonl", *skipped):
        (tmp_path / name).write_text(json.dumps(pages()[0]))
    source = read_files(spark, [str(tmp_path / "*")], OPTIONS, chosen)
    assert {Path(file).name for file in source.files} == {"pages.jsonl", "_n=1.jsonl"}
    for name in skipped:
        with pytest.raises(SparkError, match=rf"{name}: Spark skips such names"):
            read_files(spark, [str(tmp_path / name)], OPTIONS, chosen)


def test_times_in_nanoseconds(spark: SparkSession, tmp_path: Path) -> None:
    """Spark refuses them; the message says what to do."""
    table = pa.table({"url": ["a"], "text": ["b"], "at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "pages.parquet")
    with pytest.raises(SparkError, match="in microseconds"), spark_errors("the job"):
        run(
            read_files(spark, [str(tmp_path / "pages.parquet")], OPTIONS, job("out")),
            OPTIONS,
            job(str(tmp_path / "result")),
        )


def test_columns_of_other_types(spark: SparkSession, tmp_path: Path) -> None:
    """Spark does not say which file has them."""
    for number, value in enumerate([1, 2, None, 3, "4", 5]):
        row = {"url": "a", "text": "b"} | ({} if value is None else {"n": value})
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"{number}.parquet")
    message = r"/4\.parquet: a column is of .* \(\"BIGINT\" and \"STRING\"\); repair or leave out"
    with pytest.raises(SparkError, match=message):
        read_files(spark, [str(tmp_path)], OPTIONS, job(str(tmp_path / "result")))


def test_a_full_disk_of_temporary_files() -> None:
    """Spark does not say which folder is full; the message names the setting of its own."""
    with pytest.raises(SparkError, match="SPARK_LOCAL_DIRS names"), spark_errors("the job"):
        raise PySparkException("Job aborted: java.io.IOException: No space left on device")


def test_what_cannot_be_read_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """The message names the argument and the way out."""
    chosen = job(str(tmp_path / "result"))
    with pytest.raises(SparkError, match="there is no file at"):
        read_files(spark, [str(tmp_path / "none.jsonl")], OPTIONS, chosen)
    (tmp_path / "pages.xyz").write_text("?")
    with pytest.raises(SparkError, match="use --format"):
        read_files(spark, [str(tmp_path / "pages.xyz")], OPTIONS, chosen)
    (tmp_path / "pages.jsonl").write_text("{}")
    (tmp_path / "pages.csv").write_text("url")
    with pytest.raises(SparkError, match="several formats"):
        read_files(spark, [str(tmp_path / "*.[jc]*")], OPTIONS, chosen)
    source = read_files(spark, [str(tmp_path / "pages.jsonl")], OPTIONS, chosen)
    with pytest.raises(SparkError, match=r"order_by='when' .* only Parquet has columns of numbers"):
        run(source, OPTIONS, job(str(tmp_path / "result"), order_by="when"))
    with pytest.raises(SparkError, match="folder is not empty"):
        run(source, OPTIONS, job(str(tmp_path)))
    with pytest.raises(OptionsError, match="DEDUP_METHOD='csu'"):
        run(source, Options(method="csu"), chosen)
    with pytest.raises(SparkError, match="keep='last'"):
        job("out", keep="last")
    (tmp_path / "other.csv").write_text("text,url")
    with pytest.raises(SparkError, match="read files with the same first line"):
        read_files(spark, [str(tmp_path / "*.csv")], OPTIONS, chosen)
    (tmp_path / "other.csv").write_bytes("网址,正文".encode("gbk"))
    with pytest.raises(SparkError, match="its line of names is not UTF-8"):
        read_files(spark, [str(tmp_path / "other.csv")], OPTIONS, chosen)
    taken = spark.createDataFrame([("a", 1)], "text string, Dedup_Order bigint")
    with pytest.raises(SparkError, match="a column dedup_order: rename it"):
        deduplicate(taken, OPTIONS, chosen)
    with pytest.raises(SparkError, match="2 columns text"):
        deduplicate(taken.selectExpr("text", "text as TEXT"), OPTIONS, chosen)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "job.json").write_text('{"jo')
    with pytest.raises(SparkError, match=r"its job\.json is damaged"):
        run(source, OPTIONS, job(str(tmp_path / "begun")))
