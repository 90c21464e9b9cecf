"""How the tests start Java, and how it sets the permissions of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What runs for a minute is not worth a second compiler and a collector of many threads. Compiled
# code has room enough never to be swept, and what is loaded at the start is not collected.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m "
    "-XX:+UseSerialGC -Xmn400m -XX:MetaspaceSize=400m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

# Without Hadoop's native library its file system starts chmod for each file and folder it makes.
LOCAL_FILES = """
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
  public LocalFiles() { super(new Raw()); }

  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws java.io.IOException {
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }
  }
}
"""


def spare_chmod(spark: SparkSession) -> None:
    """Let the Java of a session set permissions itself, not by a process for each file.

    A process is 3 ms of processor time, and a job has a hundred and more. Java keeps one file
    system of a kind for all that runs in it.
    """
    java = spark._jvm
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(LOCAL_FILES)
    settings = java.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    settings.setClassLoader(compiler.getClassLoader())
    settings.set("fs.file.impl", "LocalFiles")
    files, root = java.org.apache.hadoop.fs.FileSystem, java.java.net.URI("file:///")
    files.get(root, settings).close()  # the file system that Spark has created at its start
    files.get(root, settings)
