-- Removes the texts of released pages. KEYS: leases, counters, then chunks of rows and hashes of texts.
-- ARGV: prefix, ids (5 bytes each).
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
for at = 1, #ARGV[2], 5 do
  local page = string.sub(ARGV[2], at, at + 4)
  if state_of(page) == RELEASED then
    local chunk = place(page)
    redis.call('HDEL', PREFIX .. 't' .. string.sub(chunk, -4),
      struct.pack('<I2', struct.unpack('<I5', page) % ROWS))
  end
end
return 0
