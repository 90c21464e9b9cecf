-- KEYS: leases, counters, committed. ARGV: prefix, page ids (5 bytes each).
-- Removes address and payload of each of these pages that is released.
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
for at = 1, #ARGV[2], 5 do
  local page = string.sub(ARGV[2], at, at + 4)
  if state_of(page) == RELEASED then
    local chunk, offset = place(page)
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE + 4, '\0\0')
  end
end
return 0
