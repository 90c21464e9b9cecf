-- KEYS: leases, schema, parameters, counters. ARGV: prefix, schema, name, value, name, value, ...
-- Returns the schema and the parameters, stored now if there were none, and the time in ms. With an
-- empty schema nothing is stored, and the schema returned for an index that does not exist is empty.
if redis.call('EXISTS', KEYS[2]) == 0 then
  if ARGV[2] == '' then
    return { '', {}, now() }
  end
  if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4]) ~= 0 then
    return redis.error_reply('DAMAGED the index has no schema')
  end
  redis.call('SET', KEYS[2], ARGV[2])
  redis.call('SET', KEYS[4], struct.pack(COUNTERS, 0, 0, 0, 0, 0))
  for i = 3, #ARGV, 2 do
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
  end
end
return { redis.call('GET', KEYS[2]), redis.call('HGETALL', KEYS[3]), now() }
