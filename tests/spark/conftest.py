"""One Spark on this machine for all tests of the batch job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.java import JAVA, spare_chmod

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the garbage collector, and says of pandas 3 that it is new."""
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of the session; Java starts once, and a session in it costs little where one was stopped."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JDK_JAVA_OPTIONS"] = JAVA  # for what is started as a program too
    yield {
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.shuffle.partitions": "2",
        # To generate and compile code costs more than it saves for some hundred rows, and so
        # do pages of memory of 16 MB. Jobs that tests start as programs have Spark's defaults.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.buffer.pageSize": "1m",
        # PySpark would look for the line of Python that made each expression.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


@pytest.fixture(scope="module")
def spark(spark_settings: dict[str, str]) -> SparkSession:
    """Two cores of this machine; with these settings too where a command has set others."""
    from dedup_middleware.spark.stages import local_session

    session = local_session("local[2]", spark_settings)
    # A table for all tasks asks Java how large its pages are, which a test may have made forget its
    # properties: they were of 64 MB each.
    for name, value in spark_settings.items():
        session._jvm.System.setProperty(name, value)
    spare_chmod(session)
    return session


@pytest.fixture
def output(tmp_path: Path) -> str:
    """A folder for a result."""
    return str(tmp_path / "result")
