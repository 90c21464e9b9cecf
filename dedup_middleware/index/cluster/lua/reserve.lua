-- KEYS: leases, counters, generations. ARGV: prefix, number of ids, ms of a generation (0: it never ends),
-- the highest id allowed.
-- Returns the first of this many consecutive new ids, and the current generation. The row of an id that is
-- never announced stays free.
local COUNT, SPAN = tonumber(ARGV[2]), tonumber(ARGV[3])
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local last_id, rows, filled, overflow, gone = struct.unpack(COUNTERS, counters)
if last_id + COUNT > tonumber(ARGV[4]) then
  return redis.error_reply('FULL no page id is left')
end
local generation = SPAN > 0 and math.floor(now() / SPAN) or 0
set_counters(KEYS[2], last_id + COUNT, rows, filled, overflow, gone)
if SPAN > 0 then
  redis.call('HSETNX', KEYS[3], generation, struct.pack('<I6I6', last_id + 1, 0))
end
return { last_id + 1, generation }
