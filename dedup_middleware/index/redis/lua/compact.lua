-- KEYS: leases, counters, committed, the hash of the buckets. ARGV: prefix, their fields (of one size),
-- their lengths (4 bytes each), then for each bucket its last bytes and its new content.
-- Rewrites the buckets that have not changed since; returns a byte for each, '1': written, '0': not.
local HASH = KEYS[4]
local FIRST = 3 -- arguments before those of the buckets
local SIZE = #ARGV[2] / (#ARGV[3] / 4)
local SPREAD = SIZE == 3 -- over a cluster, where no bucket is a key of its own
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
if not (may('SET', HASH, '') and may('HSET', HASH, '', '') and may('HDEL', HASH, '')
  and may('UNLINK', HASH)) then
  return redis.error_reply(REFUSED)
end
local fields, flags, writes, emptied, unused = fields_of(ARGV[2], SIZE), {}, {}, {}, {}
local held = redis.call('HMGET', HASH, unpack(fields))
for i = 1, #fields do
  local field, guard, data = fields[i], ARGV[FIRST + 2 * i - 1], ARGV[FIRST + 2 * i]
  local value, own = held[i], held[i] == ''
  if own then
    value = redis.call('GET', HASH .. field)
  end
  flags[i] = '0'
  if unchanged(value, ARGV[3], i, guard) then
    flags[i] = '1'
    if data == '' then
      emptied[#emptied + 1] = field
    elseif SPREAD then
      writes[#writes + 1], writes[#writes + 2] = field, data
    else
      put(HASH, field, data, writes)
    end
    if own and #data <= EXACT then
      unused[#unused + 1] = HASH .. field
    end
  end
end
if #writes > 0 then
  redis.call('HSET', HASH, unpack(writes))
end
if #emptied > 0 then
  redis.call('HDEL', HASH, unpack(emptied))
end
if #unused > 0 then
  redis.call('UNLINK', unpack(unused))
end
if #emptied > 0 then
  local last_id, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
  set_counters(KEYS[2], last_id, text_end, math.max(0, filled - #emptied), overflow, gone)
end
return table.concat(flags)
