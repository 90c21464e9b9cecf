-- KEYS: leases, counters, committed, generations, then hashes of buckets. ARGV: prefix.
-- Returns the counters, the numbers of committed pages and of live leases, the generations with the first
-- id of each, and the number of buckets of every hash.
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
if KEYS[5] and not may('HLEN', KEYS[5]) then
  return redis.error_reply(REFUSED)
end
local live = live_leases(now())
local sizes = {}
for i = 5, #KEYS do
  -- A field without a name marks the hash: see visit.lua.
  sizes[i - 4] = redis.call('HLEN', KEYS[i]) - (redis.call('HGET', KEYS[i], '') and 1 or 0)
end
return { counters, redis.call('GET', KEYS[3]) or '0', live, redis.call('HGETALL', KEYS[4]), sizes }
