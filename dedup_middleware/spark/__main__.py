"""``spark-submit``-able: ``python -m dedup_middleware.spark PATH... -o FOLDER``.

Settings are given as ``-s DEDUP_NAME=VALUE``; the master is that of ``spark-submit``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from dedup_middleware.base.errors import DedupError, OptionsError
from dedup_middleware.base.options import Options
from dedup_middleware.spark.commandline import run, sentences
from dedup_middleware.tools.commands.files import add_spark_arguments


def main(words: list[str] | None = None) -> int:
    """Run a job; the exit code is returned: 0, 1: it can't be done, 2: of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m dedup_middleware.spark", description="De-duplicate an archive on Spark."
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.add_argument(
        "--master", help="as Spark names it, such as local[4] (default: that of spark-submit)"
    )
    parser.add_argument(
        "-s", dest="settings", metavar="NAME=VALUE", action="append", default=[], help="a setting"
    )
    add_spark_arguments(parser)
    arguments = parser.parse_args(words)
    try:
        options = _options(arguments.settings)
        state = asyncio.run(run(arguments, options, arguments.master, quiet=arguments.json))
    except DedupError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(state) if arguments.json else sentences(state))
    return 0


def _options(settings: list[str]) -> Options:
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise OptionsError(setting, "", "write NAME=VALUE")
        values[name] = value
    return Options.from_mapping(values)


if __name__ == "__main__":
    sys.exit(main())
