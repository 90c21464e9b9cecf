-- KEYS: leases, counters, committed. ARGV: prefix, page numbers (5 bytes each).
-- Committed pages among them read as released from now on; returns how many there were.
local forgotten = 0
for at = 1, #ARGV[2], 5 do
  local page = string.sub(ARGV[2], at, at + 4)
  if state_of(page) == COMMITTED then
    set_state(page, RELEASED)
    forgotten = forgotten + 1
  end
end
redis.call('DECRBY', KEYS[3], forgotten)
return forgotten
