-- Announces pages on their home shard: rows in state PENDING, and their leases.
-- KEYS: leases, counters, then chunks of rows and hashes of texts. ARGV: prefix, lease in ms, ms of a
-- generation (0: it never ends), generation of the ids, ids (5 bytes each), tokens (8 bytes each), rows,
-- lengths of the texts (4 bytes each), texts.
-- Returns the generation of now if it is another one; else a byte for each page, '1': announced, also by
-- an earlier try of this call, '0': another page has settled its id before.
local SPAN, GENERATION, ROWS_SENT, TEXTS = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[7], ARGV[9]
local call, sub, rep, read, pack = redis.call, string.sub, string.rep, struct.unpack, struct.pack
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local time = now()
if SPAN > 0 and math.floor(time / SPAN) ~= GENERATION then
  return math.floor(time / SPAN)
end
local last_id, rows, filled, overflow, gone = read(COUNTERS, counters)
if not (may('SETRANGE', KEYS[3], 0, '') and may('SET', KEYS[2], '') and may('HSET', LEASES, '', '')) then
  return redis.error_reply(REFUSED)
end
local COUNT = #ARGV[5] / 5
local ids, pages = { read('<' .. rep('I5', COUNT), ARGV[5]) }, { read(rep('c5', COUNT), ARGV[5]) }
local tokens, lengths = { read(rep('c8', COUNT), ARGV[6]) }, { read('<' .. rep('I4', COUNT), ARGV[8]) }
local till = pack('<I6', time + tonumber(ARGV[2]))
local answers, leases, fresh, starts, start = {}, {}, {}, {}, 1

-- The last one of those from i on whose ids follow each other in a chunk.
local function run_from(i)
  local id = ids[i]
  while i < COUNT and ids[i + 1] == id + 1 and (id + 1) % ROWS > 0 do
    i, id = i + 1, id + 1
  end
  return i
end

local first = 1
while first <= COUNT do
  local last = run_from(first)
  local chunk, offset = place(pages[first])
  local held = call('GETRANGE', chunk, offset, offset + (last - first + 1) * ROW_SIZE - 1)
  for i = first, last do
    local at = (i - first) * ROW_SIZE + CONTENT_SIZE + 1
    local stamp = #held >= at + 3 and read('<I4', held, at) or FREE
    starts[i], start = start, start + lengths[i]
    if stamp == FREE and ids[i] <= last_id then
      answers[i] = '1'
      fresh[#fresh + 1] = i
      leases[#leases + 1] = pages[i]
      leases[#leases + 1] = tokens[i] .. till
    else
      answers[i] = stamp == PENDING and token_of(pages[i], time) == tokens[i] and '1' or '0'
    end
  end
  first = last + 1
end
if #fresh > 0 then
  set_counters(KEYS[2], last_id, rows + #fresh, filled, overflow, gone)
  call('HSET', LEASES, unpack(leases))
  local n = 1
  while n <= #fresh do
    local first, last = fresh[n], run_from(fresh[n])
    local chunk, offset = place(pages[first])
    local texts, gone_texts, behind = {}, {}, first
    while fresh[n] and fresh[n] == behind and behind <= last do
      local row = pack('<I2', ids[behind] % ROWS)
      local text = sub(TEXTS, starts[behind], starts[behind] + lengths[behind] - 1)
      if text ~= '' then
        texts[#texts + 1] = row
        texts[#texts + 1] = text
      else -- one that is there belongs to a page whose row was lost
        gone_texts[#gone_texts + 1] = row
      end
      n, behind = n + 1, behind + 1
    end
    make_room(chunk, ids[first] % ROWS + behind - first)
    call('SETRANGE', chunk, offset, sub(ROWS_SENT, (first - 1) * ROW_SIZE + 1, (behind - 1) * ROW_SIZE))
    local key = PREFIX .. 't' .. sub(chunk, -4)
    if #texts > 0 then
      call('HSET', key, unpack(texts))
    end
    if #gone_texts > 0 then
      call('HDEL', key, unpack(gone_texts))
    end
  end
end
return table.concat(answers)
