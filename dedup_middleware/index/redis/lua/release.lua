-- KEYS: leases, chunk of the page. ARGV: prefix, page id, token.
-- Returns 1: released; 0: nothing to release.
local page = ARGV[2]
if token_of(page, now()) ~= ARGV[3] then
  return 0
end
finish(page, RELEASED)
return 1
