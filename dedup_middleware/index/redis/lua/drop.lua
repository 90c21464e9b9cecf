-- Removes keys of expired or dead pages. KEYS: leases, counters, committed, generations, then chunks of rows,
-- then chunks of text and large buckets, then hashes of buckets. ARGV: prefix, number of chunks of rows, number
-- of chunks of text and large buckets, generations to forget. Returns the number of buckets in the hashes.
local CHUNKS, TEXTS = tonumber(ARGV[2]), tonumber(ARGV[3])
local FIRST = 4
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
if not (may('UNLINK', KEYS[FIRST]) and may('DECRBY', KEYS[3], 0) and may('SET', KEYS[2], '')) then
  return redis.error_reply(REFUSED)
end
local pages, committed, removed = 0, 0, 0
for i = FIRST + 1, #KEYS do
  if i <= FIRST + CHUNKS then
    local rows = redis.call('GET', KEYS[i]) or ''
    for at = CONTENT_SIZE + 1, #rows - 3, ROW_SIZE do
      local stamp = struct.unpack('<I4', rows, at)
      pages = pages + (stamp ~= FREE and 1 or 0)
      committed = committed + (stamp > RELEASED and 1 or 0)
    end
  elseif i > FIRST + CHUNKS + TEXTS then
    removed = removed + redis.call('HLEN', KEYS[i])
  end
  redis.call('UNLINK', KEYS[i])
end
redis.call('DECRBY', KEYS[3], committed)
local last_id, rows, filled, overflow, gone = struct.unpack(COUNTERS, counters)
set_counters(KEYS[2], last_id, rows, math.max(0, filled - removed), overflow, gone + pages)
for i = 4, #ARGV do
  redis.call('HDEL', KEYS[4], ARGV[i])
end
return removed
