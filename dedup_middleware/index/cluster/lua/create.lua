-- Announces pages on their home shard: rows in state PENDING, and their leases.
-- KEYS: leases, counters, then chunks of rows and hashes of texts. ARGV: prefix, lease in ms, ms of a
-- generation (0: it never ends), generation of the ids, ids (5 bytes each), tokens (8 bytes each), rows,
-- lengths of the texts (4 bytes each), texts.
-- Returns the generation of now if it is another one; else a byte for each page, '1': announced, also by
-- an earlier try of this call, '0': another page has settled its id before.
local IDS, TOKENS, ROWS_SENT, LENGTHS, TEXTS = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local SPAN, GENERATION = tonumber(ARGV[3]), tonumber(ARGV[4])
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local time = now()
if SPAN > 0 and math.floor(time / SPAN) ~= GENERATION then
  return math.floor(time / SPAN)
end
local last_id, rows, filled, overflow, gone = struct.unpack(COUNTERS, counters)
if not (may('SETRANGE', KEYS[3], 0, '') and may('SET', KEYS[2], '') and may('HSET', LEASES, '', '')) then
  return redis.error_reply(REFUSED)
end
local till = struct.pack('<I6', time + tonumber(ARGV[2]))
local answers, leases, fresh, starts, start = {}, {}, {}, {}, 1
for i = 1, #IDS / 5 do
  local page, token = string.sub(IDS, 5 * i - 4, 5 * i), string.sub(TOKENS, 8 * i - 7, 8 * i)
  starts[i] = start
  start = start + struct.unpack('<I4', LENGTHS, 4 * i - 3)
  local state = state_of(page)
  if state == FREE and struct.unpack('<I5', page) <= last_id then
    answers[i] = '1'
    fresh[#fresh + 1] = i
    leases[#leases + 1] = page
    leases[#leases + 1] = token .. till
  else
    answers[i] = state == PENDING and token_of(page, time) == token and '1' or '0'
  end
end
if #fresh > 0 then
  set_counters(KEYS[2], last_id, rows + #fresh, filled, overflow, gone)
  redis.call('HSET', LEASES, unpack(leases))
  local texts, gone_texts, first = {}, {}, 1
  for n, i in ipairs(fresh) do
    local page = string.sub(IDS, 5 * i - 4, 5 * i)
    local id = struct.unpack('<I5', page)
    local next_page = fresh[n + 1] == i + 1 and string.sub(IDS, 5 * i + 1, 5 * i + 5)
    -- Rows of ids that follow each other in a chunk are written together.
    if not next_page or struct.unpack('<I5', next_page) ~= id + 1 or (id + 1) % ROWS == 0 then
      local start = fresh[first]
      local chunk, offset = place(string.sub(IDS, 5 * start - 4, 5 * start))
      if redis.call('STRLEN', chunk) < ROWS * ROW_SIZE then
        redis.call('SETRANGE', chunk, ROWS * ROW_SIZE - 1, '\0')
      end
      redis.call('SETRANGE', chunk, offset, string.sub(ROWS_SENT, (start - 1) * ROW_SIZE + 1, i * ROW_SIZE))
      first = n + 1
    end
    local chunk = place(page)
    local key, row = PREFIX .. 't' .. string.sub(chunk, -4), struct.pack('<I2', id % ROWS)
    local text = string.sub(TEXTS, starts[i], starts[i] + struct.unpack('<I4', LENGTHS, 4 * i - 3) - 1)
    local some = text ~= '' and texts or gone_texts -- one that is there belongs to a page whose row was lost
    some[key] = some[key] or {}
    some[key][#some[key] + 1] = row
    if text ~= '' then
      some[key][#some[key] + 1] = text
    end
  end
  for key, some in pairs(texts) do
    redis.call('HSET', key, unpack(some))
  end
  for key, some in pairs(gone_texts) do
    redis.call('HDEL', key, unpack(some))
  end
end
return table.concat(answers)
