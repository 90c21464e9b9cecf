-- KEYS: leases, counters, committed. ARGV: prefix, chunk. Removes a chunk of satellites.
local chunk = PREFIX .. 's' .. struct.pack('<I4', tonumber(ARGV[2]))
local rows = redis.call('GET', chunk)
local counters = redis.call('GET', KEYS[2])
if not rows or not counters then
  return 0
end
local pages, committed = 0, 0
for at = CONTENT_SIZE + 1, #rows - 3, ROW_SIZE do
  local stamp = struct.unpack('<I4', rows, at)
  pages = pages + (stamp ~= FREE and 1 or 0)
  committed = committed + (stamp > RELEASED and 1 or 0)
end
redis.call('UNLINK', chunk)
redis.call('DECRBY', KEYS[3], committed)
local number, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
redis.call('SET', KEYS[2],
  struct.pack(COUNTERS, number, text_end, filled, overflow, gone + pages))
return pages
