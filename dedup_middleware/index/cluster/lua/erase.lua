-- Removes the texts of those pages that are released, all of one chunk. KEYS: leases, counters, the chunk, its
-- hash of texts. ARGV: prefix, ids (5 bytes each).
local call, sub, read = redis.call, string.sub, struct.unpack
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
local gone, fields = {}, {}
for at = 1, #ARGV[2], 5 do
  local page = sub(ARGV[2], at, at + 4)
  if state_of(page) == RELEASED then
    local row = read('<I5', page) % ROWS
    gone[row], fields[(row - row % GROUPED) / GROUPED] = true, true
    call('HDEL', KEYS[4], struct.pack('<I2', row))
  end
end
for number in pairs(fields) do
  local field, kept, at = string.char(number), {}, 1
  local held = call('HGET', KEYS[4], field) or ''
  while at + 3 <= #held do
    local one, length = read('<BI3', held, at)
    local stop = at + 4 + (length == ALONE and 0 or length)
    if not gone[number * GROUPED + one] then
      kept[#kept + 1] = sub(held, at, stop - 1)
    end
    at = stop
  end
  if #kept > 0 then
    call('HSET', KEYS[4], field, table.concat(kept))
  else
    call('HDEL', KEYS[4], field)
  end
end
return 0
