-- KEYS: leases, number of committed pages, chunks of the pages. ARGV: prefix, claims: each a page
-- number (5 bytes) and a token (8).
-- Returns for each 1: committed; 2: it is already, by whom is no longer known; 0: the claim is gone.
local time = now()
local answers = {}
for at = 1, #ARGV[2], 13 do
  local page = string.sub(ARGV[2], at, at + 4)
  local token = token_of(page, time)
  if token == string.sub(ARGV[2], at + 5, at + 12) then
    finish(page, COMMITTED, time)
    redis.call('INCR', KEYS[2])
    answers[#answers + 1] = 1
  else
    answers[#answers + 1] = not token and state_of(page) == COMMITTED and 2 or 0
  end
end
return answers
