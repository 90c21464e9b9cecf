-- KEYS: leases, chunks of the pages. ARGV: prefix, page ids (5 bytes each).
-- Returns the addresses of the pages, '' where there is none.
local found = {}
for at = 1, #ARGV[2], 5 do
  local length, start = text_of(string.sub(ARGV[2], at, at + 4))
  found[#found + 1] = read_text(start, length)
end
return found
