-- KEYS: leases, counters, committed. ARGV: prefix, chunk. Removes a chunk of satellites.
local chunk = PREFIX .. 's' .. struct.pack('<I4', tonumber(ARGV[2]))
local rows = redis.call('GET', chunk)
local counters = redis.call('GET', KEYS[2])
if not rows or not counters then
  return 0
end
local pages, committed = 0, 0
for at = CONTENT_SIZE + 1, #rows, ROW_SIZE do
  local state = string.byte(rows, at)
  pages = pages + (state ~= 0 and 1 or 0)
  committed = committed + (state == COMMITTED and 1 or 0)
end
redis.call('UNLINK', chunk)
redis.call('DECRBY', KEYS[3], committed)
local number, address_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
redis.call('SET', KEYS[2],
  struct.pack(COUNTERS, number, address_end, filled, overflow, gone + pages))
return pages
