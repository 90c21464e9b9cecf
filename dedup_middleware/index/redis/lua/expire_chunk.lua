-- KEYS: leases, counters, committed. ARGV: prefix, chunk. Removes a chunk of page records.
local chunk = PREFIX .. 's' .. struct.pack('<I4', tonumber(ARGV[2]))
local rows = redis.call('GET', chunk)
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
if not rows then
  return 0
end
if not (may('UNLINK', chunk) and may('DECRBY', KEYS[3], 0) and may('SET', KEYS[2], '')) then
  return redis.error_reply(REFUSED)
end
local pages, committed = 0, 0
for at = CONTENT_SIZE + 1, #rows - 3, ROW_SIZE do
  local stamp = struct.unpack('<I4', rows, at)
  pages = pages + (stamp ~= FREE and 1 or 0)
  committed = committed + (stamp > RELEASED and 1 or 0)
end
redis.call('UNLINK', chunk)
redis.call('DECRBY', KEYS[3], committed)
local last_id, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
set_counters(KEYS[2], last_id, text_end, filled, overflow, gone + pages)
return pages
