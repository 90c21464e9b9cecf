-- KEYS: leases, counters, committed, then chunks of page records. ARGV: prefix, first stamp, stamp
-- after the last one, then for each chunk a byte for each row, '1' to select it, else '0'; '' selects all.
-- Releases the committed pages among the selected rows whose stamp is in that range; returns how many.
local FIRST, FIRST_ARGUMENT = 3, 3 -- keys and arguments before those of the chunks
local FEW = 32 -- up to this many rows of a chunk are written one by one
local SINCE, UNTIL = tonumber(ARGV[2]), tonumber(ARGV[3])
local sub, byte, unpack_stamp = string.sub, string.byte, struct.unpack
local released = struct.pack('<I4', RELEASED)
local forgotten = 0
if not own_counters(KEYS[2]) then
  return redis.error_reply(GONE)
end
if not (may('SETRANGE', KEYS[FIRST + 1], 0, '') and may('SET', KEYS[FIRST + 1], '')) then
  return redis.error_reply(REFUSED)
end

local function is_meant(stamp)
  return stamp > RELEASED and stamp >= SINCE and stamp < UNTIL
end

-- Offsets of the marked rows, unless there are too many.
local function few(marks)
  local places = {}
  local row = string.find(marks, '1', 1, true)
  while row and #places < FEW do
    places[#places + 1] = (row - 1) * ROW_SIZE + CONTENT_SIZE
    row = string.find(marks, '1', row + 1, true)
  end
  return marks ~= '' and not row and places
end

local function forget_few(chunk, places)
  for j = 1, #places do
    local stamp = redis.call('GETRANGE', chunk, places[j], places[j] + 3)
    if #stamp == 4 and is_meant(unpack_stamp('<I4', stamp)) then
      redis.call('SETRANGE', chunk, places[j], released)
      forgotten = forgotten + 1
    end
  end
end

local function forget_many(chunk, marks)
  local rows, every = redis.call('GET', chunk) or '', marks == ''
  -- The chunk is assembled anew. A write for each page takes ten times as long if half of them go.
  local parts, n, done, row = {}, 0, 1, 0
  for at = CONTENT_SIZE + 1, #rows - ROW_SIZE + CONTENT_SIZE + 1, ROW_SIZE do
    row = row + 1
    if every or byte(marks, row) == 49 then
      local stamp = unpack_stamp('<I4', rows, at)
      if is_meant(stamp) then
        parts[n + 1] = sub(rows, done, at - 1)
        parts[n + 2] = released
        n = n + 2
        done = at + 4
      end
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
