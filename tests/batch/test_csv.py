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
        for values in csv_rows(csv_text(io.BytesIO(text.encode())), ",", "x.csv"):
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
