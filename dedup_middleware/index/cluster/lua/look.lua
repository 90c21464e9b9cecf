-- KEYS: leases, counters, then chunks of rows and hashes of texts. ARGV: prefix, ids (5 bytes each),
-- '1': texts are wanted, '2': addresses alone, '0': neither, '1': an id whose row is free is settled as
-- released, so that its announcement comes too late; '0': not.
-- Returns of each page its row (one whose lease has run out reads as released) and its text.
local IDS, TEXTS, SETTLES = ARGV[2], ARGV[3] ~= '0', ARGV[4] == '1'
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local last_id, rows, filled, overflow, gone = struct.unpack(COUNTERS, counters)
local time = now()
local found, settled = {}, 0
for at = 1, #IDS, 5 do
  local page = string.sub(IDS, at, at + 4)
  local page_id = struct.unpack('<I5', page)
  local row, text = row_of(page, time), ''
  local is_free = #row < ROW_SIZE or struct.unpack('<I4', row, CONTENT_SIZE + 1) == FREE
  local chunk, offset = place(page)
  if is_free and SETTLES and page_id > 0 and page_id <= last_id then
    make_room(chunk, page_id % ROWS + 1)
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE, struct.pack('<I4', RELEASED))
    settled = settled + 1
  elseif not is_free and TEXTS then
    text = redis.call('HGET', PREFIX .. 't' .. string.sub(chunk, -4),
      struct.pack('<I2', page_id % ROWS)) or ''
    if ARGV[3] == '2' and #text > 2 then
      text = string.sub(text, 1, 2 + struct.unpack('<I2', text))
    end
  end
  found[#found + 1] = row
  found[#found + 1] = text
end
if settled > 0 then
  set_counters(KEYS[2], last_id, rows + settled, filled, overflow, gone)
end
return found
