-- KEYS: leases, schema, numbers, address end, number of buckets, overflow, then the buckets of
-- the reading.
-- ARGV: prefix, token, lease in ms, content, address, then for each bucket: offset of its last
-- bytes, these bytes, and the head of the new record ('' if it gets none).
-- Returns the page number (5 bytes), or for each bucket nil (unchanged) or {rewritten, bytes}.
local FIRST = 6 -- keys before the buckets
local TOKEN = ARGV[2]
-- Up to here a bucket is written anew at its exact size; beyond, it is appended to, which doubles
-- its room but copies less.
local EXACT = 4096

local function change(bucket, offset, guard)
  local tail = redis.call('GETRANGE', bucket, offset, -1)
  if tail == guard then
    return false
  end
  if string.sub(tail, 1, #guard) == guard then
    return { 0, string.sub(tail, #guard + 1) }
  end
  return { 1, redis.call('GET', bucket) or '' }
end

-- A repeated call whose first answer got lost finds its own page in what has changed.
local function own_page(data, width)
  local first = width == 16 and 9 or 1
  local time = now()
  for at = math.max(0, #data - 256 * width), #data - width, width do
    local page = string.sub(data, at + first, at + first + 4)
    if token_of(page, time) == TOKEN then
      return page
    end
  end
end

-- Somebody may have emptied the server: nothing is written before the index is opened again.
if redis.call('EXISTS', KEYS[2]) == 0 then
  return redis.error_reply('GONE the index has no schema')
end

local buckets = #KEYS - FIRST
local changes, changed = {}, false
for i = 1, buckets do
  changes[i] = change(KEYS[FIRST + i], tonumber(ARGV[3 + 3 * i]), ARGV[4 + 3 * i])
  changed = changed or changes[i]
end
if changed then
  for i = 1, buckets do
    local head = ARGV[5 + 3 * i]
    if head ~= '' and changes[i] then
      local page = own_page(changes[i][2], #head == 8 and 16 or 8)
      if page then
        return page
      end
    end
  end
  return changes
end

local number = redis.call('INCR', KEYS[3])
if number > LAST_NUMBER then
  return redis.error_reply('FULL no page number is left')
end
local page = struct.pack('<I5', number)

local created, overflow = 0, 0
for i = 1, buckets do
  local head = ARGV[5 + 3 * i]
  if head ~= '' then
    local record = #head == 8 and head .. page .. '\0\0\0' or page .. head
    local offset, guard = tonumber(ARGV[3 + 3 * i]), ARGV[4 + 3 * i]
    local length = offset + #guard
    if length + #record > BUCKET_LIMIT then
      overflow = overflow + 1
    elseif length > EXACT then
      redis.call('APPEND', KEYS[FIRST + i], record)
    elseif offset > 0 then
      redis.call('SET', KEYS[FIRST + i], redis.call('GET', KEYS[FIRST + i]) .. record)
    else
      redis.call('SET', KEYS[FIRST + i], guard .. record)
    end
    if length == 0 then
      created = created + 1
    end
  end
end
if created > 0 then
  redis.call('INCRBY', KEYS[5], created)
end
if overflow > 0 then
  redis.call('INCRBY', KEYS[6], overflow)
end

-- The address, in chunks of one size; none is cut in two.
local address, start = ARGV[5], 0
if #address > 0 then
  start = redis.call('INCRBY', KEYS[4], #address) - #address
  local over = start % ADDRESS_CHUNK + #address - ADDRESS_CHUNK
  if over > 0 then
    local skip = ADDRESS_CHUNK - start % ADDRESS_CHUNK
    redis.call('INCRBY', KEYS[4], skip)
    start = start + skip
  end
  local offset = start % ADDRESS_CHUNK
  local chunk = PREFIX .. 'a' .. struct.pack('<I4', (start - offset) / ADDRESS_CHUNK)
  if offset == 0 then
    -- A string made by SETRANGE is as long as it must be, one that grows by it twice as long.
    redis.call('SETRANGE', chunk, ADDRESS_CHUNK - 1, '\0')
  end
  redis.call('SETRANGE', chunk, offset, address)
end

local chunk, offset = place(page)
if offset == 0 or number == 1 then
  redis.call('SETRANGE', chunk, ROWS * ROW_SIZE - 1, '\0')
end
local tail = struct.pack('<BI2I5', PENDING, #address, start)
redis.call('SETRANGE', chunk, offset, ARGV[4] .. tail)
set_lease(page, TOKEN, ARGV[3])
return page
