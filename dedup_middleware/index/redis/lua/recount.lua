-- KEYS: leases, counters, committed, then the hashes of all buckets. ARGV: prefix.
-- Corrects the counter of buckets, which may be wrong if the user lost a right during a write; returns it.
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local last_id, text_end, _, overflow, gone = struct.unpack(COUNTERS, counters)
local filled = 0
for i = 4, #KEYS do
  filled = filled + redis.call('HLEN', KEYS[i])
end
set_counters(KEYS[2], last_id, text_end, filled, overflow, gone)
return filled
