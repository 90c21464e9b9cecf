-- KEYS: leases, keys. ARGV: prefix. Returns the bytes of memory of each key.
local found = {}
for i = 2, #KEYS do
  found[i - 1] = redis.call('MEMORY', 'USAGE', KEYS[i], 'SAMPLES', 20) or 0
end
return found
