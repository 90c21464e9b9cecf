-- KEYS: leases, counters, generations, then for each page the buckets of its records in the newest
-- generation, then the same of the older live ones.
-- ARGV: prefix, lease in ms, ms of a generation (0: it never ends), newest generation as the caller
-- knows it, number of live generations; then for each page: token and content, sizes of the heads
-- of its records (a digit each; TWIN more in the first: an exact copy settles the page), heads,
-- text_length of the row and text.
-- A page that stands beside nobody in a narrow table is claimed. Of the others, rows and addresses of
-- the pages they stand beside are returned. Records of wide tables are returned as they were before,
-- for the caller to scan: counting bits is not Lua's strength; of a full one the newest SHOWN bytes.
-- Returns the generation of now if it is another one. Else {heads, wide, beside}:
-- heads: 8 bytes for each page: page number (5 bytes, 0: not claimed), number of rows in "beside", 1 if
--   the caller must read for itself or 2 if the row is that of an exact copy, number of full buckets.
-- wide: the wide buckets of all pages, of each bucket all generations.
-- beside: for each page with such rows a string of the places where it met others, 6 bytes each: page
--   number, place; then of each of those others, in the order in which they come first, row and address.
-- Redis's Lua hashes every byte of every string it makes, so strings are neither cut nor joined
-- without need.
local find, sub, byte, char = string.find, string.sub, string.byte, string.char
local pack, read, concat, call = struct.pack, struct.unpack, table.concat, redis.call
local KEYS, ARGV = KEYS, ARGV
local LEASE, SPAN, GENERATION = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local GENERATIONS = tonumber(ARGV[5])
local FIRST, FIRST_ARGUMENT = 3, 5 -- keys and arguments before those of the pages
local EXACT = 4096 -- see claim.lua
local PROBE = 16 -- added to the sizes of places that are looked into, but get no record; they come last
local TWIN = 32 -- added to the first size
local NOT_CLAIMED = '\0\0\0\0\0'
local NARROW, WIDE_HEAD, WIDE = 8, 6, 11 -- bytes of a record; behind its page number
local MOST = 16 -- neighbours of a page that are worth a row each; a caller reads more of them itself

-- Somebody may have emptied the server: nothing is written before the index is opened again.
local counters = call('GET', KEYS[2])
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
local last, text_end, filled, overflow, gone = read(COUNTERS, counters)
local before, first_text = last, text_end

-- All buckets as they stand, each asked for once, then with what the pages of this call add to them.
local names, places, values = {}, {}, {} -- of the buckets; of each key its bucket; of the buckets
local known, wanted, fetched = {}, 0, 0
local function fetch()
  if fetched == 0 and wanted > 0 then
    values = call('MGET', unpack(names))
  elseif wanted > fetched then
    local more = call('MGET', unpack(names, fetched + 1))
    for i = 1, wanted - fetched do
      values[fetched + i] = more[i]
    end
  end
  fetched = wanted
end

-- Of a full wide bucket only the newest records are returned, so that a page crafted into it costs
-- no more than this. A copy that it hides is found by the other tables, or else is stored once more.
local shown = {}
local function newest(at, value)
  if not shown[at] then
    shown[at] = sub(value, -SHOWN)
  end
  return shown[at]
end
local appends = {}
local rows, texts, leases = {}, {}, {}
local stored = {} -- rows that were fetched

-- Row and address of a page; nothing if it is the very claim that an earlier try of this call made.
local function neighbour(page, token)
  local own = read('<I5', page) - before
  local row = rows[own]
  if row then -- claimed by this very call, and not written yet
    local length = TAIL_SIZE > 0 and read('<I2', row, CONTENT_SIZE + 5) or 0
    return row, sub(texts[own], 1, length % PAYLOAD_BIT)
  end
  row = stored[page] or row_of(page, time)
  stored[page] = row
  if #row < ROW_SIZE then
    return row, ''
  end
  if read('<I4', row, CONTENT_SIZE + 1) == PENDING and token_of(page, time) == token then
    return nil
  end
  if TAIL_SIZE == 0 then
    return row, ''
  end
  local length, start = read('<I2I5', row, CONTENT_SIZE + 5)
  return row, read_text(start, length % PAYLOAD_BIT)
end

-- Splits what is the same for most pages once: where each head is, and which places get a record.
local shapes = {}
local function shape_of(sizes)
  local shape = shapes[sizes]
  if not shape then
    shape = { written = 0, narrow = {}, wide = {}, from = {}, to = {}, mark = {} }
    local at = 1
    for i = 1, #sizes do
      local size = byte(sizes, i) - 48
      if size % TWIN < PROBE then
        shape.written = i
      end
      size = size % PROBE
      shape.from[i], shape.to[i], shape.mark[i] = at, at + size - 1, char(i)
      at = at + size
      local kind = size == WIDE_HEAD and shape.wide or shape.narrow
      kind[#kind + 1] = i
    end
    -- The first narrow place is that of the key, the second one that of a band.
    shape.twin = byte(sizes, 1) - 48 >= TWIN and shape.narrow[2]
    shapes[sizes] = shape
  end
  return shape
end

-- The oldest stored exact copy of a page, found by one of its bands and its key alone. None, so that
-- all tables are looked into, where another page might be named instead: the page itself, or where
-- it takes the rest to know, since the copy has another title on the same host.
local function twin(key, count, shape, argument)
  local oldest, head
  local i = shape.twin
  for bucket = key + i, key + i + (GENERATIONS - 1) * count, count do
    local value = values[places[bucket]]
    if value then
      head = head or sub(ARGV[argument + 2], shape.from[i], shape.to[i])
      local place, met = find(value, head, 6, true), 0
      if place and (#value % NARROW ~= 0 or #value > FULL_BUCKET) then
        return nil
      end
      while place do
        if place % NARROW == 6 then
          met = met + 1
          if met >= MOST then
            return nil
          end
          local page, content = sub(value, place - 5, place - 1), ARGV[argument]
          local row = stored[page] or row_of(page, time)
          stored[page] = row
          if sub(row, EXACT_AT, EXACT_AT + 7) == sub(content, 8 + EXACT_AT, 15 + EXACT_AT)
            and #row == ROW_SIZE and read('<I4', row, CONTENT_SIZE + 1) > RELEASED
            and sub(row, 1, HOST - 1) == sub(content, 9, 7 + HOST)
            and sub(row, SIMHASH, SIMHASH + 7) == sub(content, 8 + SIMHASH, 15 + SIMHASH)
            and sub(row, FIGURES, CONTENT_SIZE) == sub(content, 8 + FIGURES) then
            if sub(row, HOST, HOST + 1) == sub(content, 8 + HOST, 9 + HOST)
              and sub(row, TITLE, TITLE + 1) ~= sub(content, 8 + TITLE, 9 + TITLE) then
              return nil
            end
            if not oldest or read('<I5', page) < read('<I5', oldest) then
              oldest = page
            end
          end
        end
        place = find(value, head, place + 1, true)
      end
    end
  end
  if oldest then
    head = sub(ARGV[argument + 2], shape.from[1], shape.to[1])
    for bucket = key + 1, key + 1 + (GENERATIONS - 1) * count, count do
      local value = values[places[bucket]]
      if value and (find(value, head, 6, true) or #value % NARROW ~= 0 or #value > FULL_BUCKET) then
        return nil
      end
    end
  end
  return oldest
end

-- First, what may settle pages; what is settled needs nothing else.
local key = FIRST
for argument = FIRST_ARGUMENT + 1, #ARGV, 4 do
  local sizes = ARGV[argument + 1]
  local shape, count = shape_of(sizes), #sizes
  if shape.twin then
    for base = key, key + (GENERATIONS - 1) * count, count do
      for i = base + 1, base + shape.twin, shape.twin - 1 do
        local name = KEYS[i]
        local at = known[name]
        if not at then
          at = wanted + 1
          wanted, known[name], names[at] = at, at, name
        end
        places[i] = at
      end
    end
  end
  key = key + GENERATIONS * count
end
fetch()
local twins = {}
key = FIRST
for argument = FIRST_ARGUMENT + 1, #ARGV, 4 do
  local sizes = ARGV[argument + 1]
  local shape, count = shape_of(sizes), #sizes
  local page = shape.twin and twin(key, count, shape, argument)
  if page then
    twins[argument] = page
  else
    for i = key + 1, key + GENERATIONS * count do
      local name = KEYS[i]
      local at = known[name]
      if not at then
        at = wanted + 1
        wanted, known[name], names[at] = at, at, name
      end
      places[i] = at
    end
  end
  key = key + GENERATIONS * count
end
fetch()

local answers, wides, beside = {}, {}, {}
local told, met = 0, 0 -- lengths of the last two
local written, is_written, writes = {}, {}, 0 -- buckets written anew
local met_at, seen_at, own_heads = {}, {}, {} -- of one page, used again for the next one
key = FIRST
for argument = FIRST_ARGUMENT + 1, #ARGV, 4 do
  local heads = ARGV[argument + 2]
  local shape, count = shape_of(ARGV[argument + 1]), #ARGV[argument + 1]
  local from, to = shape.from, shape.to
  local odd, full, hits, others = false, 0, 0, 0
  local newer = key + (GENERATIONS - 1) * count
  local first_told = told

  local settled = twins[argument]
  local some = shape.wide
  for j = 1, settled and 0 or #some do
    own_heads[some[j]] = nil
    for base = key, newer, count do
      local at = places[base + some[j]]
      local value = values[at]
      told = told + 1
      if value then
        local length = #value
        odd = odd or length % WIDE ~= 0
        if length > FULL_BUCKET then
          full = full + 1
          value = newest(at, value)
        end
        wides[told] = value
      else
        wides[told] = ''
      end
    end
  end

  some = shape.narrow
  local known
  for j = 1, settled and 0 or #some do
    local i = some[j]
    local head
    own_heads[i] = nil
    for base = key, newer, count do
      local value = values[places[base + i]]
      if value then
        if not head then
          head = sub(heads, from[i], to[i])
          own_heads[i] = head
        end
        local place = find(value, head, 6, true)
        while place do
          if place % NARROW == 6 then
            local page = sub(value, place - 5, place - 1)
            known = known or {}
            if not known[page] then
              known[page] = true
              others = others + 1
              seen_at[others] = page
            end
            met_at[hits + 1], met_at[hits + 2] = page, shape.mark[i]
            hits = hits + 2
          end
          place = others < MOST and find(value, head, place + 1, true)
        end
        local length = #value
        odd = odd or length % NARROW ~= 0
        if length > FULL_BUCKET then
          full = full + 1
        end
      end
    end
  end

  local page
  local row_count = 0
  odd = odd or others >= MOST
  if settled then
    for j = 1, #shape.wide * GENERATIONS do
      wides[told + j] = ''
    end
    told = told + #shape.wide * GENERATIONS
    beside[met + 1], row_count = settled .. shape.mark[shape.twin], 1
    beside[met + 2], beside[met + 3] = neighbour(settled)
    met = met + 3
  elseif others > 0 then
    local token = sub(ARGV[argument], 1, 8)
    local start = met
    met = met + 1
    beside[met] = ''
    for j = 1, others do
      local row, address = neighbour(seen_at[j], token)
      if row then
        beside[met + 1], beside[met + 2] = row, address
        met = met + 2
        row_count = row_count + 1
      else
        page = seen_at[j]
      end
    end
    if page or odd then -- the caller makes nothing of them
      for j = met, start + 1, -1 do
        beside[j] = nil
      end
      met, row_count = start, 0
    else
      beside[start + 1] = concat(met_at, '', 1, hits)
    end
  elseif not odd then
    if last >= LAST_NUMBER then
      return redis.error_reply('FULL no page number is left')
    end
    last = last + 1
    page = pack('<I5', last)
    for i = 1, shape.written do
      local at = places[key + i]
      local value, head = values[at], own_heads[i] or sub(heads, from[i], to[i])
      if not value then
        filled = filled + 1
        value = ''
      end
      local length = #value
      if length + 5 + #head > BUCKET_LIMIT then
        overflow = overflow + 1
      else
        if length > EXACT or appends[at] then
          appends[at] = (appends[at] or '') .. page .. head
        elseif not is_written[at] then
          is_written[at] = true
          writes = writes + 1
          written[writes] = at
        end
        values[at] = value .. page .. head
      end
    end
    local text = ARGV[argument + 3]
    rows[last - before] = pending_row(sub(ARGV[argument], 9), sub(text, 1, 2), text_end)
    texts[last - before] = sub(text, 3)
    text_end = text_end + #text - 2
    leases[#leases + 1] = page
    leases[#leases + 1] = sub(ARGV[argument], 1, 8) .. till
  end
  if odd then
    for j = first_told + 1, told do
      wides[j] = ''
    end
  end
  answers[#answers + 1] = (page or NOT_CLAIMED)
    .. char(row_count, settled and 2 or odd and not page and 1 or 0, full < 255 and full or 255)
  key = key + count * GENERATIONS
end

if last > before then
  -- The first write is one that a server without memory refuses, before anything has changed.
  call('SET', KEYS[2], pack(COUNTERS, last, text_end, filled, overflow, gone))
  if SPAN > 0 and call('HEXISTS', KEYS[3], GENERATION) == 0 then
    call('HSET', KEYS[3], GENERATION, pack('<I6I6', before + 1, first_text))
  end
  local pairs_written = {}
  for i = 1, writes do
    local at = written[i]
    local value, records = values[at], appends[at]
    pairs_written[2 * i - 1] = names[at]
    pairs_written[2 * i] = records and sub(value, 1, -1 - #records) or value
  end
  if writes > 0 then
    call('MSET', unpack(pairs_written))
  end
  for at, records in pairs(appends) do
    call('APPEND', names[at], records)
  end
  write_text(first_text, concat(texts))
  write_rows(before + 1, rows)
  call('HSET', LEASES, unpack(leases))
end
return { concat(answers), wides, beside }
