-- KEYS: leases, number of committed pages, chunk of the page. ARGV: prefix, page number, token.
-- Returns 1: committed; 2: it is already, by whom is no longer known; 0: the claim is gone.
local page = ARGV[2]
local token = token_of(page, now())
if token == ARGV[3] then
  finish(page, COMMITTED)
  redis.call('INCR', KEYS[2])
  return 1
end
return not token and state_of(page) == COMMITTED and 2 or 0
