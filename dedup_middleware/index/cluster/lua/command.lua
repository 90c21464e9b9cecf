-- KEYS: leases, then the keys of a command. ARGV: prefix, the command. Returns its reply.
return redis.call(unpack(ARGV, 2))
