-- KEYS: leases, then of each bucket its hash. ARGV: prefix, fields of the buckets (2 bytes each).
-- Returns the buckets; '' where there is none.
local found = {}
for i, field in ipairs(fields_of(ARGV[2], 2)) do
  found[i] = bucket(KEYS[i + 1], field) or ''
end
return found
