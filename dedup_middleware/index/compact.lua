-- KEYS: leases, counters, committed, then buckets. ARGV: prefix, lengths of the buckets (4 bytes
-- each), then for each of them its last bytes, and what is to stand there instead.
-- Writes those that have not changed since; returns for each a byte, '1': written, '0': not.
local FIRST = 3 -- keys before the buckets
local held = redis.call('MGET', unpack(KEYS, FIRST + 1))
local flags, writes, emptied = {}, {}, {}
for i = 1, #held do
  local value, guard, data = held[i], ARGV[2 * i + 1], ARGV[2 * i + 2]
  flags[i] = '0'
  if value and #value == struct.unpack('<I4', ARGV[2], 4 * i - 3)
    and string.sub(value, -#guard) == guard then
    flags[i] = '1'
    if data == '' then
      emptied[#emptied + 1] = KEYS[FIRST + i]
    else
      writes[#writes + 1] = KEYS[FIRST + i]
      writes[#writes + 1] = data
    end
  end
end
if #writes > 0 then
  redis.call('MSET', unpack(writes))
end
local counters = redis.call('GET', KEYS[2])
if #emptied > 0 then
  redis.call('UNLINK', unpack(emptied))
end
if #emptied > 0 and counters then
  local number, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
  redis.call('SET', KEYS[2],
    struct.pack(COUNTERS, number, text_end, math.max(0, filled - #emptied), overflow, gone))
end
return table.concat(flags)
