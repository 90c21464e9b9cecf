"""The markup of a page as a parser of HTML5 understands it: every tag closed, all in its place."""

from typing import Any


def well_formed(page: bytes) -> bytes | None:
    """Parse a page in UTF-8 with lexbor and write its tree out again; None when the parser fails.

    Only for what `trim.trimmed` has passed: neither time nor memory is bounded otherwise. To visit
    the nodes from Python would cost many times as much as to write them out.
    """
    from resiliparse.parse.html import HTMLTree  # here, not above: not every process parses pages

    try:
        tree: Any = HTMLTree.parse(page.decode("utf-8"))
        return str(tree).encode("utf-8")
    except BaseException as error:  # any fault of the library on one page must not stop a crawl
        # A panic of its Rust code is none of the exceptions.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return None
        raise
