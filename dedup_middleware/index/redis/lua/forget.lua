-- KEYS: leases, counters, committed, then chunks of page records. ARGV: prefix, then for each chunk a byte
-- for each row, '1' to select it, else '0'.
-- Releases the committed pages among the selected rows; returns how many.
local FIRST, FIRST_ARGUMENT = 3, 1 -- keys and arguments before those of the chunks
local FEW = 32 -- up to this many rows of a chunk are written one by one
local sub, byte, unpack_stamp = string.sub, string.byte, struct.unpack
local released = struct.pack('<I4', RELEASED)
local forgotten = 0
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
if not (may('SETRANGE', KEYS[FIRST + 1], 0, '') and may('SET', KEYS[FIRST + 1], '')) then
  return redis.error_reply(REFUSED)
end

-- Offsets of the marked rows, unless there are too many.
local function few(marks)
  local places = {}
  local row = string.find(marks, '1', 1, true)
  while row and #places < FEW do
    places[#places + 1] = (row - 1) * ROW_SIZE + CONTENT_SIZE
    row = string.find(marks, '1', row + 1, true)
  end
  return not row and places
end

local function forget_few(chunk, places)
  for j = 1, #places do
    local stamp = redis.call('GETRANGE', chunk, places[j], places[j] + 3)
    if #stamp == 4 and unpack_stamp('<I4', stamp) > RELEASED then
      redis.call('SETRANGE', chunk, places[j], released)
      forgotten = forgotten + 1
    end
  end
end

local function forget_many(chunk, marks)
  local rows = redis.call('GET', chunk) or ''
  -- The chunk is assembled anew. A write for each page takes ten times as long if half of them go.
  local parts, n, done, row = {}, 0, 1, 0
  for at = CONTENT_SIZE + 1, #rows - ROW_SIZE + CONTENT_SIZE + 1, ROW_SIZE do
    row = row + 1
    if byte(marks, row) == 49 and unpack_stamp('<I4', rows, at) > RELEASED then
      parts[n + 1] = sub(rows, done, at - 1)
      parts[n + 2] = released
      n = n + 2
      done = at + 4
    end
  end
  if n > 0 then
    forgotten = forgotten + n / 2
    parts[n + 1] = sub(rows, done)
    redis.call('SET', chunk, table.concat(parts))
  end
end

for i = 1, #KEYS - FIRST do
  local chunk, marks = KEYS[FIRST + i], ARGV[FIRST_ARGUMENT + i]
  local places = few(marks)
  if places then
    forget_few(chunk, places)
  else
    forget_many(chunk, marks)
  end
end
if forgotten > 0 then
  -- Only commands that the user of a crawl may send, as a crawl forgets the pages that storage replaces.
  redis.call('SET', KEYS[3], string.format('%.0f', math.max(0, counted(KEYS[3]) - forgotten)))
end
return forgotten
