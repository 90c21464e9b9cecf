-- KEYS: leases, counters, generations, then for each page the buckets of its records in the newest
-- generation, then the same of the older live ones.
-- ARGV: prefix, lease in ms, ms of a generation (0: it never ends), newest generation as the caller
-- knows it, number of live generations; then for each page: token and content, sizes of the heads
-- of its records (a digit each), heads, text_length of the row and text.
-- A page that stands beside nobody in a narrow table is claimed. Of the others, rows and addresses of
-- the pages they stand beside are returned. Records of wide tables are returned as they were before,
-- for the caller to scan: counting bits is not Lua's strength; of a full one the newest SHOWN bytes.
-- Returns the generation of now if it is another one. Else for each page {answer} or {answer, row,
-- address, row, address, ...}. An answer is made of words of 8 bytes: page number (5 bytes, 0: not
-- claimed), number of wide buckets, 1 if the caller must read for itself, number of full buckets; the
-- wide buckets' lengths; their bytes. Before a row stand its page number, in how many of the caller's places the
-- page was found, and in which.
local find, sub, byte, pack = string.find, string.sub, string.byte, struct.pack
local LEASE, SPAN, GENERATION = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local GENERATIONS = tonumber(ARGV[5])
local FIRST, FIRST_ARGUMENT = 3, 5 -- keys and arguments before those of the pages
local EXACT = 4096 -- see claim.lua
local PROBE = 16 -- added to the sizes of places that are looked into, but get no record; they come last
local NOT_CLAIMED = '\0\0\0\0\0'
local WIDE_HEAD = 6 -- bytes of a record of a SimHash table behind its page number
local MOST = 16 -- neighbours of a page that are worth a row each; a caller reads more of them itself

-- Somebody may have emptied the server: nothing is written before the index is opened again.
local counters = redis.call('GET', KEYS[2])
if not counters then
  return redis.error_reply('GONE the index has no counters')
end
local time = now()
local till = pack('<I6', time + LEASE)
if SPAN > 0 then
  local generation = math.floor(time / SPAN)
  if generation ~= GENERATION then
    return generation
  end
end
local last, text_end, filled, overflow, gone = struct.unpack(COUNTERS, counters)
local before, first_text = last, text_end

-- All buckets as they stand, each asked for once, then with what the pages of this call add to them.
local values = {}
do
  local wanted, n = {}, 0
  for i = FIRST + 1, #KEYS do
    local name = KEYS[i]
    if not values[name] then
      n = n + 1
      wanted[n], values[name] = name, ''
    end
  end
  local fetched = redis.call('MGET', unpack(wanted))
  for i = 1, n do
    values[wanted[i]] = fetched[i] or ''
  end
end

-- Of a full wide bucket only the newest records are returned, so that a page crafted into it costs
-- no more than this. A copy that it hides is found by the other tables, or else is stored once more.
local shown = {}
local function newest(name, value)
  if not shown[name] then
    shown[name] = sub(value, -SHOWN)
  end
  return shown[name]
end
local appends = {}
local rows, texts, leases = {}, {}, {}

-- Row and address of a page; nothing if it is the very claim that an earlier try of this call made.
local function neighbour(page, token)
  local own = struct.unpack('<I5', page) - before
  local row = rows[own]
  if row then -- claimed by this very call, and not written yet
    local length = TAIL_SIZE > 0 and struct.unpack('<I2', row, CONTENT_SIZE + 5) or 0
    return row, sub(texts[own], 1, length % PAYLOAD_BIT)
  end
  row = row_of(page, time)
  if #row < ROW_SIZE then
    return row, ''
  end
  if struct.unpack('<I4', row, CONTENT_SIZE + 1) == PENDING and token_of(page, time) == token then
    return nil
  end
  if TAIL_SIZE == 0 then
    return row, ''
  end
  local length, start = struct.unpack('<I2I5', row, CONTENT_SIZE + 5)
  return row, read_text(start, length % PAYLOAD_BIT)
end

-- Splits what is the same for most pages once: how long each head is, and which places get a record.
local shapes = {}
local function shape_of(sizes)
  local shape = shapes[sizes]
  if not shape then
    shape = { written = 0, format = '<' }
    local at = 1
    for i = 1, #sizes do
      local size = (byte(sizes, i) - 48) % PROBE
      shape[i] = { size, at, at + size - 1, 5 + size }
      at = at + size
      if byte(sizes, i) - 48 < PROBE then
        shape.written = i
      end
      if size == WIDE_HEAD then
        shape.format = shape.format .. string.rep('I8', GENERATIONS)
      end
    end
    shapes[sizes] = shape
  end
  return shape
end

local answers, names = {}, {}
local key = FIRST
for argument = FIRST_ARGUMENT + 1, #ARGV, 4 do
  local sizes, heads = ARGV[argument + 1], ARGV[argument + 2]
  local shape, count = shape_of(sizes), #sizes
  local lengths, wide, found, places = {}, {}, {}, {}
  local remainders = {}
  local odd, full = false, 0
  for i = 1, count do
    local part = shape[i]
    local head = sub(heads, part[2], part[3])
    remainders[i] = head
    for bucket = key + i, key + i + (GENERATIONS - 1) * count, count do
      local value = values[KEYS[bucket]]
      local length = #value
      if part[1] == WIDE_HEAD then
        local told = length > FULL_BUCKET and newest(KEYS[bucket], value) or value
        lengths[#lengths + 1] = #told
        wide[#wide + 1] = told
      elseif length > 0 then
        local place = find(value, head, 6, true)
        while place do
          if place % 8 == 6 then
            local page = sub(value, place - 5, place - 1)
            if not places[page] then
              found[#found + 1] = page
              places[page] = string.char(i)
            elseif byte(places[page], -1) ~= i then
              places[page] = places[page] .. string.char(i)
            end
          end
          place = #found < MOST and find(value, head, place + 1, true)
        end
      end
      odd = odd or length % part[4] ~= 0
      if length > FULL_BUCKET then
        full = full + 1
      end
    end
  end

  local answer = { '' }
  local page
  odd = odd or #found >= MOST
  if #found > 0 then
    local token = sub(ARGV[argument], 1, 8)
    for _, other in ipairs(found) do
      local row, address = neighbour(other, token)
      if row then
        answer[#answer + 1] = other .. string.char(#places[other]) .. places[other] .. row
        answer[#answer + 1] = address
      else
        page = other
      end
    end
  elseif not odd then
    if last >= LAST_NUMBER then
      return redis.error_reply('FULL no page number is left')
    end
    last = last + 1
    page = pack('<I5', last)
    for i = 1, shape.written do
      local name = KEYS[key + i]
      local value = values[name]
      local length = #value
      if length + shape[i][4] > BUCKET_LIMIT then
        overflow = overflow + 1
      else
        if length == 0 then
          filled = filled + 1
        end
        if length <= EXACT and not appends[name] then
          names[#names + 1] = name
        else
          appends[name] = (appends[name] or '') .. page .. remainders[i]
        end
        values[name] = value .. page .. remainders[i]
      end
    end
    local text = ARGV[argument + 3]
    rows[last - before] = pending_row(sub(ARGV[argument], 9), sub(text, 1, 2), text_end)
    texts[last - before] = sub(text, 3)
    text_end = text_end + #text - 2
    leases[#leases + 1] = page
    leases[#leases + 1] = sub(ARGV[argument], 1, 8) .. till
  end
  local buckets = #wide
  if odd then
    answer[1] = (page or NOT_CLAIMED) .. string.char(buckets, page and 0 or 1, math.min(full, 255))
      .. string.rep('\0', 8 * buckets)
  else
    answer[1] = (page or NOT_CLAIMED) .. string.char(buckets, 0, math.min(full, 255))
      .. pack(shape.format, unpack(lengths)) .. table.concat(wide)
  end
  answers[#answers + 1] = answer
  key = key + count * GENERATIONS
end

if last > before then
  -- The first write is one that a server without memory refuses, before anything has changed.
  redis.call('SET', KEYS[2], pack(COUNTERS, last, text_end, filled, overflow, gone))
  if SPAN > 0 and redis.call('HEXISTS', KEYS[3], GENERATION) == 0 then
    redis.call('HSET', KEYS[3], GENERATION, pack('<I6I6', before + 1, first_text))
  end
  local writes = {}
  for i = 1, #names do
    local name = names[i]
    local value, records = values[name], appends[name]
    writes[2 * i - 1] = name
    writes[2 * i] = records and sub(value, 1, -1 - #records) or value
  end
  if #writes > 0 then
    redis.call('MSET', unpack(writes))
  end
  for name, records in pairs(appends) do
    redis.call('APPEND', name, records)
  end
  write_text(first_text, table.concat(texts))
  write_rows(before + 1, rows)
  redis.call('HSET', LEASES, unpack(leases))
end
return answers
