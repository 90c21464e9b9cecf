-- KEYS: leases, counters, committed, the hash of the buckets. ARGV: prefix, their fields (3 bytes each),
-- their lengths (4 bytes each), then for each of them its last bytes, and what is to stand there instead.
-- Writes those that have not changed since; returns for each a byte, '1': written, '0': not.
local HASH = KEYS[4]
local FIRST = 3 -- arguments before those of the buckets
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
if not (may('HSET', HASH, '', '') and may('HDEL', HASH, '')) then
  return redis.error_reply(REFUSED)
end
local fields, flags, writes, emptied = fields_of(ARGV[2], 3), {}, {}, {}
local held = redis.call('HMGET', HASH, unpack(fields))
for i = 1, #fields do
  local value, guard, data = held[i], ARGV[FIRST + 2 * i - 1], ARGV[FIRST + 2 * i]
  flags[i] = '0'
  if unchanged(value, ARGV[3], i, guard) then
    flags[i] = '1'
    if data == '' then
      emptied[#emptied + 1] = fields[i]
    else
      writes[#writes + 1], writes[#writes + 2] = fields[i], data
    end
  end
end
if #writes > 0 then
  redis.call('HSET', HASH, unpack(writes))
end
if #emptied > 0 then
  redis.call('HDEL', HASH, unpack(emptied))
end
return table.concat(flags)
