-- KEYS: leases. ARGV: prefix. Ends every lease that has run out; returns the number of live ones.
local time = now()
local live = 0
for _, page in ipairs(redis.call('HKEYS', LEASES)) do
  if #page == 5 and token_of(page, time) then -- not what propose.lua makes a table of leases with
    live = live + 1
  end
end
return live
