"""Where the rows of CSV end, and that none is taken for the text of another one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedup_middleware.tools.files.rows import BatchError, csv_rows, csv_text, read_csv


def expected(text: str) -> Iterator[list[str] | int]:
    """The rows of CSV; the number of one that a quote which is never closed ends with lines that
    are not its own.

    A quote opens a field only at its beginning, and is in it where it is doubled; behind the quote
    that closes it, the rest of a field is as it is.
    """
    unread = list(text.replace("\r\n", "\n").replace("\r", "\n"))
    number = 0
    while unread:
        values, lines, is_open, is_row = [""], 1, False, True
        is_start = True
        while unread and is_row:
            sign = unread.pop(0)
            if is_open and sign == '"' and unread[:1] == ['"']:
                values[-1] += unread.pop(0)
            elif is_open and sign == '"':
                is_open = False
            elif is_open:
                values[-1] += sign
                lines += sign == "\n" and bool(unread)
            elif sign == "\n":
                is_row = False
                continue
            elif sign == ",":
                values.append("")
                is_start = True
                continue
            elif sign == '"' and is_start:
                is_open = True
            else:
                values[-1] += sign
            is_start = False
        if is_open and lines > 1:
            yield number
            return
        yield [] if values == [""] and is_start else values
        number += 1


def found(text: str) -> Iterator[list[str] | int]:
    """What the reader makes of it."""
    number = 0
    try:
        for values, _ in csv_rows(csv_text(io.BytesIO(text.encode())), ",", "x.csv"):
            yield [value.replace("\r\n", "\n").replace("\r", "\n") for value in values]
            number += 1
    except BatchError as error:
        place = f"row {number}" if number else "the first line"
        assert str(error) == f"x.csv: the quote that {place} opens is never closed"  # noqa: PT017
        yield number


@given(st.text(st.sampled_from('ab,"\n\r'), max_size=40))
@example('a,b\n1,5" long\n2,"open\n3,x\n')
@example('a\n"\n\n')
@example('a\n"b""\n"c\n"')
def test_rows_and_quotes_that_are_never_closed(text: str) -> None:
    """Every row is given, up to one that a quote makes of the rest of the file."""
    assert list(found(text)) == list(expected(text))


def test_a_quote_within_a_field_hides_none_that_is_never_closed(tmp_path: Path) -> None:
    """The number of quotes is even."""
    path = tmp_path / "even.csv"
    rows = "".join(f"https://a.example/{n},text number {n}\n" for n in range(10))
    path.write_text(f'url,text\nhttps://a/8,a pipe of 5" long\nhttps://a/9,"never closed\n{rows}')
    with pytest.raises(BatchError, match=r"even\.csv: the quote that row 2 opens is never closed"):
        list(read_csv(path))


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        # The quote that row 1 opens is closed by one that opens a field of row 2.
        ('u1,"open text\nu2,"text of 2"\nu3,text of 3\n', {"u3": "text of 3"}),
        # By one within a field, four lines later.
        ('u1,"open text\nu2,b\nu3,c\nu4,d\nu5,a 5" pipe\nu6,f\n', {"u6": "f"}),
        # In a line of its own a quote within a field ends nothing.
        ('u1,"5" pipe"\nu2,a 5" pipe\n', {"u1": '5 pipe"', "u2": 'a 5" pipe'}),
        ('u1,"several\nlines, ""quoted"""\nu2,b\n', {"u1": 'several\nlines, "quoted"', "u2": "b"}),
    ],
)
def test_a_quote_that_another_one_closes(tmp_path: Path, rows: str, read: dict[str, str]) -> None:
    """Rows between the two were lost in a text, and nothing said so: they are rejected."""
    path = tmp_path / "pages.csv"
    path.write_text(f"url,text\n{rows}")
    found = list(read_csv(path))
    assert {row.raw["url"]: row.raw["text"] for row in found if not row.error} == read  # type: ignore[call-overload]
    for row in found:
        if row.error:
            lines = str(row.raw["text"]).count("\n") + 1  # type: ignore[call-overload]
            assert row.error == (
                "a quote is within a field, so that it is not known which of "
                f"{lines} lines are one row"
            )
