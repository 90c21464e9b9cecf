-- A step of loading pages, see RedisSteps. KEYS: leases, counters, committed, generations, loads, and
-- for "add" the hash of the buckets.
-- ARGV: prefix, token of the load, number of this call (4 bytes), ms of its lease, ms of a generation
-- (0: it never ends), generation of the load, step; then
--   "enter": rows without the offset of their text, lengths of the texts (4 bytes each), the texts;
--            returns the first page id
--   "add": width of a record, lengths of what each bucket gets (4 bytes each), the records, the fields of
--          the buckets (2 bytes each)
--   "commit": page ids (5 bytes each), stamps (4 bytes each)
--   "end": nothing
-- The hash of loads: token -> first page id (5) .. end of the lease in ms (6) .. last call (4) ..
-- its answer. Returns a string; or nil if the lease has run out or the generation is too old; or the
-- current generation if it is another one and nothing is entered yet.
local TOKEN, CALL, STEP = ARGV[2], ARGV[3], ARGV[7]
local SPAN, GENERATION = tonumber(ARGV[5]), tonumber(ARGV[6])
local HASH = KEYS[6]

local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local some = PREFIX .. 's' .. struct.pack('<I4', 0)
if not (may('SET', KEYS[2], '') and may('HSET', KEYS[5], '', '') and may('SETRANGE', some, 0, '')
  and may('APPEND', some, '') and may('SET', KEYS[3], '')) then
  return redis.error_reply(REFUSED)
end
local time = now()
local lease = redis.call('HGET', KEYS[5], TOKEN)
if STEP == 'end' then
  redis.call('HDEL', KEYS[5], TOKEN)
  return ''
end
-- A call that is repeated because its answer got lost is answered as before.
if lease and string.sub(lease, 12, 15) == CALL then
  return string.sub(lease, 16)
end
local begins = struct.unpack('<I4', CALL) == 1
local generation = generation_of(time, SPAN, KEYS[4])
if begins and generation ~= GENERATION then
  return generation
end
if not begins and (not lease or struct.unpack('<I6', lease, 6) <= time
  or generation > GENERATION + 1) then
  return nil
end
-- A server that comes back in an older state has lost calls of this load and assigns their page ids to other
-- pages, whose claims must not be committed here.
if not begins and struct.unpack('<I4', lease, 12) ~= struct.unpack('<I4', CALL) - 1 then
  return nil
end

local last_id, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)

local function done(first, answer)
  -- A server without memory refuses the first write, before anything has changed.
  set_counters(KEYS[2], last_id, text_end, filled, overflow, gone)
  local till = struct.pack('<I6', time + tonumber(ARGV[4]))
  redis.call('HSET', KEYS[5], TOKEN, first .. till .. CALL .. answer)
  return answer
end

if STEP == 'enter' then
  local tail = TAIL_SIZE > 0 and 5 or 0 -- the offset of the text
  local size = ROW_SIZE - tail
  local count = #ARGV[8] / size
  local first, start = last_id + 1, text_end
  if last_id + count > LAST_PAGE_ID or text_end + #ARGV[10] > LAST_PAGE_ID then
    return redis.error_reply('FULL no page id is left, or no room for texts')
  end
  if is_used(first) or is_used(last_id + count) then
    return redis.error_reply(BEHIND)
  end
  local rows = {}
  for i = 1, count do
    rows[i] = string.sub(ARGV[8], (i - 1) * size + 1, i * size)
      .. string.sub(struct.pack('<I5', text_end), 1, tail)
    text_end = text_end + struct.unpack('<I4', ARGV[9], 4 * i - 3)
  end
  last_id = last_id + count
  local page = struct.pack('<I5', first)
  done(begins and page or string.sub(lease, 1, 5), page)
  if SPAN > 0 and redis.call('HEXISTS', KEYS[4], GENERATION) == 0 then
    redis.call('HSET', KEYS[4], GENERATION, struct.pack('<I6I6', first, start))
  end
  write_text(start, ARGV[10])
  write_rows(first, rows)
  return page
end

local first = string.sub(lease, 1, 5)
if STEP == 'add' then
  local width = tonumber(ARGV[8])
  local fields, values, appends, at = fields_of(ARGV[11], 2), {}, {}, 1
  local held = redis.call('HMGET', HASH, unpack(fields))
  for i = 1, #fields do
    local size = struct.unpack('<I4', ARGV[9], 4 * i - 3)
    local value = held[i] or ''
    local length = #value
    if held[i] == '' then
      length = redis.call('STRLEN', HASH .. fields[i])
    end
    local filled_before = length > 0
    if length % width ~= 0 then -- records after such bytes could not be read: rewrite the bucket
      value = bucket(HASH, fields[i])
      length = length - length % width
      value = string.sub(value, 1, length)
    end
    local fit = math.min(size, math.max(0, math.floor((BUCKET_LIMIT - length) / width) * width))
    local records = string.sub(ARGV[10], at, at + fit - 1)
    at = at + size
    overflow = overflow + (size - fit) / width
    if not filled_before then
      filled = filled + 1
    end
    if length == #value then
      values[i] = value .. records
    elseif fit > 0 then
      appends[i] = records
    end
  end
  done(first, '')
  local writes = {}
  for i = 1, #fields do
    if values[i] then
      put(HASH, fields[i], values[i], writes)
    elseif appends[i] then
      redis.call('APPEND', HASH .. fields[i], appends[i])
    end
  end
  if #writes > 0 then
    redis.call('HSET', HASH, unpack(writes))
  end
  return ''
end

-- "commit"
done(first, '')
local committed, known, there = 0, nil, false
for i = 1, #ARGV[8] / 5 do
  local chunk, offset = place(string.sub(ARGV[8], 5 * i - 4, 5 * i))
  if chunk ~= known then
    known, there = chunk, redis.call('EXISTS', chunk) == 1
  end
  if there then
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE, string.sub(ARGV[9], 4 * i - 3, 4 * i))
    committed = committed + 1
  end
end
redis.call('SET', KEYS[3], string.format('%.0f', counted(KEYS[3]) + committed))
return ''
