-- KEYS: leases, chunks of the pages. ARGV: prefix, page ids (5 bytes each), '1': texts are wanted,
-- '2': addresses alone, '0': neither.
-- Returns the row (released if its lease has run out) and the text of each page.
local time, TEXTS = now(), ARGV[3] ~= '0'
local found = {}
for at = 1, #ARGV[2], 5 do
  local row = row_of(string.sub(ARGV[2], at, at + 4), time)
  found[#found + 1] = row
  found[#found + 1] = TEXTS and text_of(row, ARGV[3] == '2') or ''
end
return found
