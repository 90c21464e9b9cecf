-- KEYS: leases, counters, then chunks of rows and hashes of texts. ARGV: prefix, ids (5 bytes each),
-- '1': texts are wanted, '2': addresses alone, '0': neither; '1': an id whose row is free is settled as
-- released, so that it can't be announced any more, '0': it is left free.
-- Returns the row (released if its lease has run out) and the text of each page.
local IDS, TEXTS, SETTLES = ARGV[2], ARGV[3] ~= '0', ARGV[4] == '1'
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local last_id, rows, filled, overflow, gone = struct.unpack(COUNTERS, counters)
local time = now()
local found, settled = {}, 0
local held_of, held -- a field of texts, and what it holds

-- The text of a row; see create.lua.
local function text_of_row(chunk, row)
  local key, field = PREFIX .. 't' .. string.sub(chunk, -4), string.char((row - row % GROUPED) / GROUPED)
  if held_of ~= key .. field then
    held_of, held = key .. field, redis.call('HGET', key, field) or ''
  end
  local start, size, at = 1, 0, 1
  while at + 3 <= #held do
    local one, length = struct.unpack('<BI3', held, at)
    if one == row % GROUPED then -- an earlier one belongs to a page whose row was lost
      start, size = at + 4, length
    end
    at = at + 4 + (length == ALONE and 0 or length)
  end
  if size == ALONE then
    return redis.call('HGET', key, struct.pack('<I2', row)) or ''
  end
  return string.sub(held, start, start + size - 1)
end

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
    text = text_of_row(chunk, page_id % ROWS)
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
