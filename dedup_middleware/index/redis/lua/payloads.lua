-- KEYS: leases, chunks of the pages. ARGV: prefix, page ids (5 bytes each).
-- Returns of each page its row, as fetch.lua does, and its payload, '' where there is none.
local time = now()
local found = {}
for at = 1, #ARGV[2], 5 do
  local page = string.sub(ARGV[2], at, at + 4)
  local row, payload = row_of(page, time), ''
  local length, start, more = text_of(page)
  if more then
    start = start + length
    local size = read_text(start, 3)
    payload = #size == 3 and read_text(start + 3, struct.unpack('<I3', size)) or ''
  end
  found[#found + 1] = row
  found[#found + 1] = payload
end
return found
