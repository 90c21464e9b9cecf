-- KEYS: leases, schema, parameters, counters. ARGV: prefix, schema, name, value, name, value, ...
-- Returns the schema, the parameters, the time in ms and the epoch; stores schema and parameters if there
-- were none. With an empty schema nothing is set up, and the schema returned is empty if there is no index.
local counters = redis.call('GET', KEYS[4])
if redis.call('EXISTS', KEYS[2]) == 0 then
  if ARGV[2] == '' then
    return { '', {}, now(), '' }
  end
  -- Counters of 0 alone are left by a set-up whose user lacked a right after the first write.
  if redis.call('EXISTS', KEYS[1], KEYS[3]) ~= 0
    or counters and (#counters < 6 or struct.unpack('<I6', counters) > 0) then
    return redis.error_reply('DAMAGED it has no schema')
  end
  counters = struct.pack(COUNTERS, 0, 0, 0, 0, 0) .. EPOCH
  redis.call('SET', KEYS[4], counters)
  redis.call('HSET', KEYS[3], unpack(ARGV, 3))
  redis.call('SET', KEYS[2], ARGV[2])
end
local schema = redis.call('GET', KEYS[2])
if schema ~= SCHEMA then
  return { schema, {}, now(), '' }
end
local ids, text = 0, 0
if counters and #counters >= COUNTERS_SIZE then
  ids, text = struct.unpack('<I6I6', counters)
else
  ids = LAST_PAGE_ID + 1
end
-- The text of the last page may end beyond what a row can address.
if ids > LAST_PAGE_ID or text > 2 * LAST_PAGE_ID then
  return redis.error_reply('DAMAGED its counters are gone')
end
if #counters < COUNTERS_SIZE + 8 then -- of an index set up before there were epochs
  counters = string.sub(counters, 1, COUNTERS_SIZE) .. EPOCH
  redis.call('SET', KEYS[4], counters)
end
local parameters = redis.call('HGETALL', KEYS[3])
if #parameters == 0 then
  return redis.error_reply('DAMAGED its parameters are gone')
end
return { schema, parameters, now(), string.sub(counters, -8) }
