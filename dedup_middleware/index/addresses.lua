-- KEYS: leases, chunks of the pages. ARGV: prefix, page numbers (5 bytes each).
-- Returns the addresses of the pages, '' where there is none.
local found = {}
for at = 1, #ARGV[2], 5 do
  local chunk, offset = place(string.sub(ARGV[2], at, at + 4))
  local tail = redis.call('GETRANGE', chunk, offset + CONTENT_SIZE + 1, offset + ROW_SIZE - 1)
  local address = ''
  if #tail == 7 then
    local length, start = struct.unpack('<I2I5', tail)
    if length > 0 then
      local first = start % ADDRESS_CHUNK
      local key = PREFIX .. 'a' .. struct.pack('<I4', (start - first) / ADDRESS_CHUNK)
      address = redis.call('GETRANGE', key, first, first + length - 1)
    end
  end
  found[#found + 1] = address
end
return found
