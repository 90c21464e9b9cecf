-- KEYS: leases, chunks of the pages. ARGV: prefix, page numbers (5 bytes each).
-- Returns the rows of the pages; one whose lease has run out reads as released.
local time = now()
local rows = {}
for at = 1, #ARGV[2], 5 do
  local page = string.sub(ARGV[2], at, at + 4)
  local chunk, offset = place(page)
  local row = redis.call('GETRANGE', chunk, offset, offset + ROW_SIZE - 1)
  if string.byte(row, CONTENT_SIZE + 1) == PENDING and not token_of(page, time) then
    row = string.sub(row, 1, CONTENT_SIZE) .. string.char(RELEASED)
      .. string.sub(row, CONTENT_SIZE + 2)
  end
  rows[#rows + 1] = row
end
return rows
