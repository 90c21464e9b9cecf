-- KEYS: leases, chunks of the pages. ARGV: prefix, lease in ms, page id, token, page id, token, ...
-- Returns for each claim 1: extended; 0: it had run out.
local time = now()
local answers = {}
if not may('HSET', LEASES, '', '') then
  return redis.error_reply(REFUSED)
end
for i = 3, #ARGV, 2 do
  local alive = token_of(ARGV[i], time) == ARGV[i + 1]
  if alive then
    -- Deleting first makes the next write possible when memory is full.
    redis.call('HDEL', LEASES, ARGV[i])
    set_lease(ARGV[i], ARGV[i + 1], ARGV[2])
  end
  answers[#answers + 1] = alive and 1 or 0
end
return answers
