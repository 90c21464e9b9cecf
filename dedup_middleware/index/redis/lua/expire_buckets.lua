-- KEYS: leases, counters, committed, then hashes of buckets of an expired generation, or keys of large
-- ones. ARGV: prefix, number of the hashes, which come first. Removes them.
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
if not (may('UNLINK', KEYS[4]) and may('SET', KEYS[2], '')) then
  return redis.error_reply(REFUSED)
end
local removed = 0
for i = 4, 3 + tonumber(ARGV[2]) do
  removed = removed + redis.call('HLEN', KEYS[i])
end
redis.call('UNLINK', unpack(KEYS, 4))
if removed > 0 then
  local last_id, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
  set_counters(KEYS[2], last_id, text_end, math.max(0, filled - removed), overflow, gone)
end
return removed
