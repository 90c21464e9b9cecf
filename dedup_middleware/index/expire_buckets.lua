-- KEYS: leases, counters, committed, then hashes of buckets of an expired generation, or keys of large
-- ones. ARGV: prefix, number of the hashes, which come first. Removes them.
local removed = 0
for i = 4, 3 + tonumber(ARGV[2]) do
  removed = removed + redis.call('HLEN', KEYS[i])
end
redis.call('UNLINK', unpack(KEYS, 4))
local counters = redis.call('GET', KEYS[2])
if removed > 0 and counters then
  local number, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
  redis.call('SET', KEYS[2],
    struct.pack(COUNTERS, number, text_end, math.max(0, filled - removed), overflow, gone))
end
return removed
