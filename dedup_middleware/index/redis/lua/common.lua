-- Shared by all scripts except visit.lua; scripts.py puts the constants above it.
-- KEYS[1] is the hash of leases: page id (5 bytes) -> token (8) .. end in ms (6) .. length in ms (4).
-- ARGV[1] is the prefix of every key, followed by the epoch: 8 random bytes drawn when the index was set
-- up, which also follow its counters. Tokens and hashes stay strings: a Lua number is a double
-- and holds only 53 bits. Page ids (40 bits) and milliseconds (41) fit.

local LEASES = KEYS[1]
local PREFIX, EPOCH = string.sub(ARGV[1], 1, -9), string.sub(ARGV[1], -8)
local GONE = 'GONE the index is not the one that was opened'

-- The counters; nil if the server was emptied or another index was set up in place of this one. Then
-- nothing is written until the client has opened the index again.
local function own_counters(key)
  local counters = redis.call('GET', key)
  if counters and #counters == COUNTERS_SIZE + 8 and string.sub(counters, -8) == EPOCH then
    return counters
  end
end

local function set_counters(key, ...)
  redis.call('SET', key, struct.pack(COUNTERS, ...) .. EPOCH)
end

-- Whether the user may send a command, as far as the server can tell (Redis 6 can't). A script that is
-- refused halfway leaves behind what it has written. The error then names the command, as the server's own
-- error does outside of scripts.
local REFUSED = ''
local function may(command, ...)
  REFUSED = "NOPERM this user has no permissions to run the '" .. string.lower(command) .. "' command"
  return not redis.acl_check_cmd or redis.acl_check_cmd(command, ...)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The current generation, or the next one if that already holds pages: then the clock has gone back.
local function generation_of(time, span, generations)
  local generation = span > 0 and math.floor(time / span) or 0
  local is_begun = span > 0 and redis.call('HEXISTS', generations, generation + 1) == 1
  return is_begun and generation + 1 or generation
end

-- A bucket is a field of its table's hash, at its exact size. One with more bytes than this is a key of
-- its own, named by hash and field, and its field is empty: a string that grows takes twice its size.
local EXACT = 4096

-- The bucket, or false if there is none.
local function bucket(hash, field)
  local value = redis.call('HGET', hash, field)
  return value == '' and redis.call('GET', hash .. field) or value
end

-- Rewrites a bucket. "fields" collects what is still to be set in the hash.
local function put(hash, field, value, fields)
  if #value > EXACT then
    redis.call('SET', hash .. field, value)
    value = ''
  end
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end

-- The fields of some buckets, size bytes each.
local function fields_of(all, size)
  local fields = {}
  for i = 1, #all / size do
    fields[i] = string.sub(all, size * (i - 1) + 1, size * i)
  end
  return fields
end

-- The number of committed pages in a key. A damaged number starts again at 0, so that nothing fails.
local function counted(key)
  local counter = redis.call('GET', key) or ''
  return #counter < 16 and string.find(counter, '^%d+$') and tonumber(counter) or 0
end

-- Whether bucket i is still what was read: it has the i-th length, and its last bytes are the guard.
local function unchanged(value, lengths, i, guard)
  return value and #value == struct.unpack('<I4', lengths, 4 * i - 3) and string.sub(value, -#guard) == guard
end

-- An offset in a string as an argument. Redis would format the number with a fraction, which is slow.
local function whole(number)
  return string.format('%d', number)
end

-- The chunk that holds a page's row, and the row's first byte in it.
local function place(page)
  local page_id = struct.unpack('<I5', page)
  local row = page_id % ROWS
  return PREFIX .. 's' .. struct.pack('<I4', (page_id - row) / ROWS), row * ROW_SIZE
end

-- The state of a page. A stamp is a state, or the second in which the page was committed.
local function state_of(page)
  local chunk, offset = place(page)
  offset = offset + CONTENT_SIZE
  local stamp = redis.call('GETRANGE', chunk, offset, offset + 3)
  if #stamp < 4 then
    return FREE
  end
  stamp = struct.unpack('<I4', stamp)
  return stamp > RELEASED and COMMITTED or stamp
end

-- Whether a page has this id already. A counter that is too low (restored by hand, for example) must not
-- assign an id twice.
local function is_used(page_id)
  return state_of(struct.pack('<I5', page_id)) ~= FREE
end
local BEHIND = 'BEHIND the counter of pages is lower than the numbers of pages'

local function set_state(page, state, time)
  local chunk, offset = place(page)
  local stamp = state == COMMITTED and math.floor((time or now()) / 1000) or state
  -- A chunk that has expired must not come back as a string of zeros.
  if redis.call('EXISTS', chunk) == 1 then
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE, struct.pack('<I4', stamp))
  end
end

-- This many bytes from start on in the concatenated text chunks; fewer if a chunk is gone.
local function read_text(start, length)
  local parts = {}
  while length > 0 do
    local offset = start % TEXT_CHUNK
    local size = math.min(length, TEXT_CHUNK - offset)
    local chunk = PREFIX .. 'a' .. struct.pack('<I4', (start - offset) / TEXT_CHUNK)
    local part = redis.call('GETRANGE', chunk, whole(offset), whole(offset + size - 1))
    if size == length and #parts == 0 then
      return part
    end
    parts[#parts + 1] = part
    if #part < size then
      break
    end
    start, length = start + size, length - size
  end
  return table.concat(parts)
end

local USUAL = 320 -- bytes of a payload

-- The text of a row: the address of the page, followed by its payload if it has any. If a chunk is gone,
-- the text is empty: a part of a payload could be taken for another one.
-- "without_payload": the address alone.
local function text_of(row, without_payload)
  if #row < ROW_SIZE or TAIL_SIZE == 0 then
    return ''
  end
  local length, start = struct.unpack('<I2I5', row, CONTENT_SIZE + 5)
  local text
  if length < PAYLOAD_BIT or without_payload then
    length = length % PAYLOAD_BIT
    text = read_text(start, length)
  else
    -- Most payloads are shorter than this, and reading too much is cheaper than a second command.
    length = length - PAYLOAD_BIT + 3
    text = read_text(start, length + USUAL)
    length = length + (#text >= length and struct.unpack('<I3', text, length - 2) or 0)
    if #text < length then
      text = read_text(start, length)
    end
  end
  return #text >= length and text or ''
end

-- Writes text into chunks of equal size; a text may cross their borders.
local function write_text(start, text)
  local written = 0
  while written < #text do
    local offset = (start + written) % TEXT_CHUNK
    local chunk = PREFIX .. 'a' .. struct.pack('<I4', (start + written - offset) / TEXT_CHUNK)
    if offset == 0 then
      -- A new string made by SETRANGE has its exact size, one that grows by it gets twice that.
      redis.call('SETRANGE', chunk, TEXT_CHUNK - 1, '\0')
    end
    local part = string.sub(text, written + 1, written + TEXT_CHUNK - offset)
    redis.call('SETRANGE', chunk, offset, part)
    written = written + #part
  end
end

-- The row of a claimed page: what was sent, and where its text begins if the index keeps texts.
local function claimed_row(sent, text_start)
  return TAIL_SIZE > 0 and sent .. struct.pack('<I5', text_start) or sent
end

-- Writes the rows of new pages with consecutive ids.
local function write_rows(first, rows)
  local i = 1
  while i <= #rows do
    local chunk, offset = place(struct.pack('<I5', first + i - 1))
    if offset == 0 or first + i == 2 then
      redis.call('SETRANGE', chunk, ROWS * ROW_SIZE - 1, '\0')
    end
    local till = math.min(#rows, i + ROWS - 1 - offset / ROW_SIZE)
    redis.call('SETRANGE', chunk, offset, table.concat(rows, '', i, till))
    i = till + 1
  end
end

-- Makes room for this many rows in a chunk of a cluster, where each shard has one chunk that is not full.
-- It grows in steps, each to its exact size: a string that SETRANGE extends takes twice as much.
local function make_room(chunk, rows)
  local length = redis.call('STRLEN', chunk)
  if length < rows * ROW_SIZE then
    local step = math.floor(ROWS / STEPS)
    rows = math.ceil(rows / step) * step
    local size = (rows + step > ROWS and ROWS or rows) * ROW_SIZE
    if length == 0 then
      redis.call('SETRANGE', chunk, size - 1, '\0')
    else
      redis.call('SET', chunk, redis.call('GET', chunk) .. string.rep('\0', size - length))
    end
  end
end

-- Ends a lease for good. HDEL comes first: it is allowed when memory is full, and makes room for the
-- write that follows.
local function finish(page, state, time)
  redis.call('HDEL', LEASES, page)
  set_state(page, state, time)
end

-- The end of a lease of this many milliseconds, as stored behind its token.
local function end_of(time, length)
  return struct.pack('<I6I4', time + length, length)
end

-- The token of a live lease; nil if there is none. A lease that has run out is ended for good, so that a clock
-- that jumps back can't revive it after others have seen its end. A live lease that such a jump lengthened is
-- cut to its own length, unless this is a replica or the user has no right to write.
local function live_token(page, lease, time)
  if not lease then
    return nil
  end
  local till = struct.unpack('<I6', lease, 9)
  if till <= time then
    finish(page, RELEASED)
    return nil
  end
  local token = string.sub(lease, 1, 8)
  local length = #lease == 18 and struct.unpack('<I4', lease, 15)
  -- HDEL goes first, see finish().
  if length and till > time + length and may('HSET', LEASES, '', '')
    and redis.pcall('HDEL', LEASES, page) == 1 then
    redis.call('HSET', LEASES, page, token .. end_of(time, length))
  end
  return token
end

local function token_of(page, time)
  return live_token(page, redis.call('HGET', LEASES, page), time)
end

-- The number of live leases; all others are ended.
local function live_leases(time)
  local live = 0
  for _, page in ipairs(redis.call('HKEYS', LEASES)) do
    if #page == 5 and token_of(page, time) then -- skips the value by which propose.lua makes the hash a table
      live = live + 1
    end
  end
  return live
end

-- The row of a page; one whose lease has run out reads as released.
local function row_of(page, time)
  local chunk, offset = place(page)
  local row = redis.call('GETRANGE', chunk, whole(offset), whole(offset + ROW_SIZE - 1))
  if #row == ROW_SIZE and struct.unpack('<I4', row, CONTENT_SIZE + 1) == PENDING
    and not token_of(page, time) then
    return string.sub(row, 1, CONTENT_SIZE) .. struct.pack('<I4', RELEASED)
      .. string.sub(row, CONTENT_SIZE + 5)
  end
  return row
end

local function set_lease(page, token, milliseconds)
  redis.call('HSET', LEASES, page, token .. end_of(now(), tonumber(milliseconds)))
end
