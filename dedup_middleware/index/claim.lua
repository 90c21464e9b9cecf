-- KEYS: leases, counters, generations, then of the newest buckets of the reading the hash of each.
-- ARGV: prefix, token, lease in ms, the row but for where its text begins, text; then, of all buckets in one string each
-- (many arguments are dear): lengths (4 bytes each), last bytes (at most GUARD each), sizes of
-- the heads of the new records (a digit each, 0: no record), heads; then ms of a generation (0: it
-- never ends), the generation of the reading, and the fields of all buckets (2 bytes each).
-- Returns the page number (5 bytes), or for each bucket nil (unchanged) or {rewritten, bytes}, or
-- the generation of now if it is another one.
local TOKEN, TEXT = ARGV[2], ARGV[5]
local FIRST = 3 -- keys before the buckets
local BUCKETS = #KEYS - FIRST
local LENGTHS = { struct.unpack('<' .. string.rep('I4', BUCKETS), ARGV[6]) }
local FIELDS = {}
for i = 1, BUCKETS do
  FIELDS[i] = string.sub(ARGV[12], 2 * i - 1, 2 * i)
end

local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local SPAN, GENERATION = tonumber(ARGV[10]), tonumber(ARGV[11])
if SPAN > 0 then
  local generation = math.floor(now() / SPAN)
  if generation ~= GENERATION then
    return generation
  end
end

-- Whole buckets where they are small, else false; and of all buckets what stands where their last
-- bytes stood.
local values, ends, same = {}, {}, true
for i = 1, BUCKETS do
  local length, hash = LENGTHS[i], KEYS[FIRST + i]
  if length <= EXACT then
    local value = bucket(hash, FIELDS[i]) or ''
    values[i] = value
    same = same and #value == length
    ends[i] = string.sub(value, -GUARD)
  else
    values[i] = false
    ends[i] = redis.call('GETRANGE', hash .. FIELDS[i], length - GUARD, -1)
  end
end

if not same or table.concat(ends) ~= ARGV[7] then
  local changes, at = {}, 1
  for i = 1, BUCKETS do
    local length, value = LENGTHS[i], values[i]
    local size = math.min(GUARD, length)
    local guard = string.sub(ARGV[7], at, at + size - 1)
    at = at + size
    local tail = value and string.sub(value, length - size + 1) or ends[i]
    if tail == guard then
      changes[i] = false
    elseif string.sub(tail, 1, size) == guard then
      changes[i] = { 0, string.sub(tail, size + 1) }
    else
      changes[i] = { 1, value or bucket(KEYS[FIRST + i], FIELDS[i]) or '' }
    end
  end
  -- A repeated call whose first answer got lost finds its own page in what has changed.
  local time = now()
  for i = 1, BUCKETS do
    local size = tonumber(string.sub(ARGV[8], i, i))
    if size > 0 and changes[i] then
      local data = changes[i][2]
      local width = 5 + size
      for record = math.max(0, #data - 256 * width), #data - width, width do
        local page = string.sub(data, record + 1, record + 5)
        if token_of(page, time) == TOKEN then
          return page
        end
      end
    end
  end
  return changes
end

local number, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
number = number + 1
if number > LAST_NUMBER then
  return redis.error_reply('FULL no page number is left')
end
if is_used(number) then
  return redis.error_reply(BEHIND)
end
local page = struct.pack('<I5', number)

local records, at = {}, 1
for i = 1, BUCKETS do
  local size = string.byte(ARGV[8], i) - 48
  if size > 0 then
    local head = string.sub(ARGV[9], at, at + size - 1)
    at = at + size
    if LENGTHS[i] + 5 + size > BUCKET_LIMIT then
      overflow = overflow + 1
    else
      records[i] = page .. head
    end
    if LENGTHS[i] == 0 then
      filled = filled + 1
    end
  end
end

local start = text_end
text_end = start + #TEXT

-- The first write is one that a server without memory refuses, before anything has changed.
-- The records come last: what is left by a user who loses a right in between, no page can meet.
set_counters(KEYS[2], number, text_end, filled, overflow, gone)
if SPAN > 0 and redis.call('HEXISTS', KEYS[3], GENERATION) == 0 then
  redis.call('HSET', KEYS[3], GENERATION, struct.pack('<I6I6', number, start))
end
write_text(start, TEXT)
write_rows(number, { claimed_row(ARGV[4], start) })
set_lease(page, TOKEN, ARGV[3])
for i, record in pairs(records) do
  local hash, value, fields = KEYS[FIRST + i], values[i], {}
  if value then
    put(hash, FIELDS[i], value .. record, fields)
    redis.call('HSET', hash, unpack(fields))
  else
    redis.call('APPEND', hash .. FIELDS[i], record)
  end
end
return page
