-- Makes loaded pages committed. KEYS: leases, counters, committed, then their chunks. ARGV: prefix, ids
-- (5 bytes each), tokens (8 bytes each), stamps (4 bytes each). Returns how many of their leases still lived.
local IDS, TOKENS, STAMPS = ARGV[2], ARGV[3], ARGV[4]
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
local time = now()
local alive, added = 0, 0
for i = 1, #IDS / 5 do
  local page = string.sub(IDS, 5 * i - 4, 5 * i)
  if token_of(page, time) == string.sub(TOKENS, 8 * i - 7, 8 * i) then
    redis.call('HDEL', LEASES, page)
    local chunk, offset = place(page)
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE, string.sub(STAMPS, 4 * i - 3, 4 * i))
    alive, added = alive + 1, added + 1
  elseif state_of(page) == COMMITTED then -- by an earlier try of this call
    alive = alive + 1
  end
end
redis.call('INCRBY', KEYS[3], added)
return alive
