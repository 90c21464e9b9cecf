-- KEYS: leases, counters, committed, then buckets. ARGV: prefix, then for each bucket: its length,
-- its last bytes, and what is to stand there instead.
-- Writes those that have not changed since; returns how many.
local done, emptied = 0, 0
for i = 4, #KEYS do
  local length, guard = tonumber(ARGV[3 * i - 10]), ARGV[3 * i - 9]
  if redis.call('STRLEN', KEYS[i]) == length
    and redis.call('GETRANGE', KEYS[i], length - #guard, -1) == guard then
    local value = ARGV[3 * i - 8]
    if value == '' then
      redis.call('UNLINK', KEYS[i])
      emptied = emptied + 1
    else
      redis.call('SET', KEYS[i], value)
    end
    done = done + 1
  end
end
local counters = redis.call('GET', KEYS[2])
if emptied > 0 and counters then
  local number, address_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
  redis.call('SET', KEYS[2],
    struct.pack(COUNTERS, number, address_end, math.max(0, filled - emptied), overflow, gone))
end
return done
