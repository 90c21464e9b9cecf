-- KEYS: leases, chunks of the pages. ARGV: prefix, page ids (5 bytes each).
-- Returns the rows of the pages; one whose lease has run out reads as released.
local time = now()
local rows = {}
for at = 1, #ARGV[2], 5 do
  rows[#rows + 1] = row_of(string.sub(ARGV[2], at, at + 4), time)
end
return rows
