-- KEYS: leases, then of each bucket its hash. ARGV: prefix, fields of the buckets (2 bytes each).
-- Returns the buckets; '' where there is none.
local found = {}
for i = 1, #KEYS - 1 do
  found[i] = bucket(KEYS[i + 1], string.sub(ARGV[2], 2 * i - 1, 2 * i)) or ''
end
return found
