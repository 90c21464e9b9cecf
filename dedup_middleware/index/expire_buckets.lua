-- KEYS: leases, counters, committed, then buckets of an expired generation. ARGV: prefix. Removes them.
local names = {}
for i = 4, #KEYS do
  names[#names + 1] = KEYS[i]
end
local removed = redis.call('UNLINK', unpack(names))
local counters = redis.call('GET', KEYS[2])
if removed > 0 and counters then
  local number, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
  redis.call('SET', KEYS[2],
    struct.pack(COUNTERS, number, text_end, math.max(0, filled - removed), overflow, gone))
end
return removed
