"""How the tests start Java."""

# What runs for a minute is not worth a second compiler and a collector of many threads. Compiled
# code has room enough never to be swept, and what is loaded at the start is not collected.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m "
    "-XX:+UseSerialGC -Xmn400m -XX:MetaspaceSize=400m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
