-- Makes loaded pages committed. KEYS: leases, counters, committed, then their chunks. ARGV: prefix, ids
-- (5 bytes each), tokens (8 bytes each), stamps (4 bytes each). Returns a byte for each page, '1': it is
-- committed now, '2': it was before, by an earlier try of this call or as another page, '0': it is gone.
local IDS, TOKENS, STAMPS = ARGV[2], ARGV[3], ARGV[4]
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
local time = now()
local answers, added = {}, 0
for i = 1, #IDS / 5 do
  local page = string.sub(IDS, 5 * i - 4, 5 * i)
  if token_of(page, time) == string.sub(TOKENS, 8 * i - 7, 8 * i) then
    redis.call('HDEL', LEASES, page)
    local chunk, offset = place(page)
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE, string.sub(STAMPS, 4 * i - 3, 4 * i))
    answers[i], added = '1', added + 1
  else
    answers[i] = state_of(page) == COMMITTED and '2' or '0'
  end
end
redis.call('INCRBY', KEYS[3], added)
return table.concat(answers)
