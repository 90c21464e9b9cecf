-- Announces pages on their home shard: rows in state PENDING, and their leases.
-- KEYS: leases, counters, then chunks of rows and hashes of texts. ARGV: prefix, lease in ms, ms of a
-- generation (0: it never ends), generation of the ids, ids (5 bytes each), tokens (8 bytes each), rows,
-- lengths of the texts (4 bytes each), texts.
-- Texts of GROUPED rows share a field of their chunk's hash, since each field takes 50 bytes. The field holds for each
-- text its row (1 byte), its length (3) and its bytes; the last text of a row is the valid one. A page announced alone
-- rewrites the field, on replicas and in the append-only file as well, so a text of more than GROUP_LIMIT bytes gets
-- its own field, and ALONE as its length in the shared one.
-- Returns the current generation if it is another one; else a byte for each page, '1': announced (also by
-- an earlier try of this call), '0': not, as its id was settled by another page or is not issued any more.
local SPAN, GENERATION, ROWS_SENT, TEXTS = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[7], ARGV[9]
local call, sub, rep, char = redis.call, string.sub, string.rep, string.char
local read, pack = struct.unpack, struct.pack
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
local till = end_of(time, tonumber(ARGV[2]))
local answers, leases, fresh, starts, start = {}, {}, {}, {}, 1

-- The last page from i on that continues a run of consecutive ids in a chunk.
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
    -- The rows of each field and their texts, in the order of the fields.
    local fields, rows_of, texts_of, behind = {}, {}, {}, first
    while fresh[n] and fresh[n] == behind and behind <= last do
      local row = ids[behind] % ROWS
      local field = char((row - row % GROUPED) / GROUPED)
      if not rows_of[field] then
        fields[#fields + 1], rows_of[field], texts_of[field] = field, {}, {}
      end
      local some = rows_of[field]
      some[#some + 1] = row
      texts_of[field][#some] = sub(TEXTS, starts[behind], starts[behind] + lengths[behind] - 1)
      n, behind = n + 1, behind + 1
    end
    make_room(chunk, ids[first] % ROWS + behind - first)
    call('SETRANGE', chunk, offset, sub(ROWS_SENT, (first - 1) * ROW_SIZE + 1, (behind - 1) * ROW_SIZE))
    for i = 1, #fields do
      local key, field, writes = PREFIX .. 't' .. sub(chunk, -4), fields[i], {}
      local value = call('HGET', key, field) or ''
      local parts, is_kept = { value }, #value > 0
      for j, row in ipairs(rows_of[field]) do
        local text = texts_of[field][j]
        is_kept = is_kept or #text > 0
        if #text > GROUP_LIMIT then
          parts[j + 1] = pack('<BI3', row % GROUPED, ALONE)
          writes[#writes + 1], writes[#writes + 2] = pack('<I2', row), text
        else
          parts[j + 1] = pack('<BI3', row % GROUPED, #text) .. text
        end
      end
      if is_kept then
        call('HSET', key, field, table.concat(parts), unpack(writes))
      end
    end
  end
end
return table.concat(answers)
