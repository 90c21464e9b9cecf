-- KEYS: leases, counters, generations, then the hashes of all tables in the newest generation, then
-- the same of the older live ones.
-- ARGV: prefix, lease in ms, ms of a generation (0: it never ends), newest generation as the caller
-- knows it, number of live generations, which tables are those of the key and of the first band (a
-- byte each, 0: neither is asked for) and number of buckets of each table (2 bytes each); then for
-- each page: token and text_length of the row, content, sizes of the heads of its records (a digit each;
-- TWIN more in the first: an exact copy settles the page), heads, places of its buckets (2 bytes each),
-- text; then the fields of all buckets, table by table, each once: a place is one of these.
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
local FIRST, FIRST_ARGUMENT, ARGUMENTS = 3, 6, 6 -- keys and arguments before the rest, and of a page
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

local TABLES = (#KEYS - FIRST) / GENERATIONS
local KEY, BAND = byte(ARGV[6], 1, 2)
-- Of each table the place before its first one; then the last place of all.
local starts = { 0, read('<' .. string.rep('I2', TABLES), ARGV[6], 3) }
for i = 2, TABLES + 1 do
  starts[i] = starts[i] + starts[i - 1]
end
local FIELDS = #ARGV - starts[TABLES + 1]

-- By generation, newest first, and place: the buckets as they stand, each asked for once; then, in the
-- newest one, with what the pages of this call add to them.
local held = {}
for generation = 1, GENERATIONS do
  held[generation] = {}
end
local newest = held[1]

-- Fetches the buckets of a table, in all generations; only those that are wanted, if that is given.
local function fetch(number, wanted)
  local start, stop = starts[number] + 1, starts[number + 1]
  local places, fields = nil, ARGV
  if wanted then
    places, fields = {}, {}
    for place = start, stop do
      if wanted[place] then
        places[#places + 1], fields[#fields + 1] = place, ARGV[FIELDS + place]
      end
    end
    if #places == 0 then
      return
    end
  end
  for generation = 1, GENERATIONS do
    local hash, values = KEYS[FIRST + (generation - 1) * TABLES + number], held[generation]
    local found
    if places then
      found = call('HMGET', hash, unpack(fields))
    else
      found = call('HMGET', hash, unpack(ARGV, FIELDS + start, FIELDS + stop))
    end
    for i = 1, #found do
      local value = found[i]
      if value then
        local place = places and places[i] or start + i - 1
        if value == '' then -- a key of its own
          value = call('GET', hash .. ARGV[FIELDS + place])
        end
        values[place] = value
      end
    end
  end
end

-- Of a full wide bucket only the newest records are returned, so that a page crafted into it costs
-- no more than this. A copy that it hides is found by the other tables, or else is stored once more.
local shown = {}
local function newest_of(value)
  if not shown[value] then
    shown[value] = sub(value, -SHOWN)
  end
  return shown[value]
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

-- Splits what is the same for most pages once: how their heads are read, which places get a record.
local shapes = {}
local function shape_of(sizes)
  local shape = shapes[sizes]
  if not shape then
    shape = { written = 0, narrow = {}, wide = {}, mark = {} }
    shape.places = '<' .. string.rep('I2', #sizes)
    local heads, at, starts = {}, 1, {}
    for i = 1, #sizes do
      local size = byte(sizes, i) - 48
      if size % TWIN < PROBE then
        shape.written = i
      end
      size = size % PROBE
      shape.mark[i], heads[i] = char(i), 'c' .. size
      starts[i], at = at, at + size
      local kind = size == WIDE_HEAD and shape.wide or shape.narrow
      kind[#kind + 1] = i
    end
    -- The first narrow place is that of the key, the second one that of a band.
    shape.heads = '<' .. concat(heads)
    shape.twin = byte(sizes, 1) - 48 >= TWIN and shape.narrow[2]
    shape.band = starts[shape.twin]
    shapes[sizes] = shape
  end
  return shape
end

-- The oldest stored exact copy of a page, found by one of its bands and its key alone. None, so that
-- all tables are looked into, where another page might be named instead: the page itself, or where
-- it takes the rest to know, since the copy has another title on the same host.
local function twin(places, heads, shape, content)
  local oldest
  local at = read('<I2', places, 2 * shape.twin - 1)
  local head = sub(heads, shape.band, shape.band + 2)
  for generation = 1, GENERATIONS do
    local value = held[generation][at]
    if value then
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
          local page = sub(value, place - 5, place - 1)
          local row = stored[page] or row_of(page, time)
          stored[page] = row
          if sub(row, EXACT_AT, EXACT_AT + 7) == sub(content, EXACT_AT, EXACT_AT + 7)
            and #row == ROW_SIZE and read('<I4', row, CONTENT_SIZE + 1) > RELEASED
            and sub(row, 1, HOST - 1) == sub(content, 1, HOST - 1)
            and sub(row, SIMHASH, SIMHASH + 7) == sub(content, SIMHASH, SIMHASH + 7)
            and sub(row, FIGURES, CONTENT_SIZE) == sub(content, FIGURES) then
            if sub(row, HOST, HOST + 1) == sub(content, HOST, HOST + 1)
              and sub(row, TITLE, TITLE + 1) ~= sub(content, TITLE, TITLE + 1) then
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
    at, head = read('<I2', places), sub(heads, 1, 3)
    for generation = 1, GENERATIONS do
      local value = held[generation][at]
      if value and (find(value, head, 6, true) or #value % NARROW ~= 0 or #value > FULL_BUCKET) then
        return nil
      end
    end
  end
  return oldest
end

-- First, what may settle pages; what is settled needs nothing else.
if KEY > 0 then
  fetch(KEY)
  fetch(BAND)
end
local twins, heads_of, places_of, wanted = {}, {}, {}, nil
for argument = FIRST_ARGUMENT + 1, FIELDS, ARGUMENTS do
  local shape = shape_of(ARGV[argument + 2])
  local heads, places = ARGV[argument + 3], ARGV[argument + 4]
  if shape.twin then
    local page = twin(places, heads, shape, ARGV[argument + 1])
    twins[argument] = page
    wanted = wanted or page and {}
  end
  if not twins[argument] then
    heads_of[argument] = { read(shape.heads, heads) }
    places_of[argument] = { read(shape.places, places) }
  end
end
if wanted then
  for _, places in pairs(places_of) do
    for i = 1, #places - 1 do -- behind the last one, where reading ended
      wanted[places[i]] = true
    end
  end
end
for number = 1, TABLES do
  if KEY == 0 or number ~= KEY and number ~= BAND then
    fetch(number, wanted)
  end
end

local answers, wides, beside = {}, {}, {}
local told, met = 0, 0 -- lengths of the last two
local is_written = {} -- places of buckets that are written anew
local met_at, seen_at = {}, {} -- of one page, used again for the next one
for argument = FIRST_ARGUMENT + 1, FIELDS, ARGUMENTS do
  local heads, places = heads_of[argument], places_of[argument]
  local shape = shape_of(ARGV[argument + 2])
  local odd, full, hits, others = false, 0, 0, 0
  local first_told = told

  local settled = twins[argument]
  local some = shape.wide
  for j = 1, settled and 0 or #some do
    for generation = 1, GENERATIONS do
      local value = held[generation][places[some[j]]]
      told = told + 1
      if value then
        local length = #value
        odd = odd or length % WIDE ~= 0
        if length > FULL_BUCKET then
          full = full + 1
          value = newest_of(value)
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
    local head = heads[i]
    for generation = 1, GENERATIONS do
      local value = held[generation][places[i]]
      if value then
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
      local at = places[i]
      local value, head = newest[at], heads[i]
      if not value then
        filled = filled + 1
        value = ''
      end
      local length = #value
      if length + 5 + #head > BUCKET_LIMIT then
        overflow = overflow + 1
      else
        if length > EXACT then
          appends[at] = (appends[at] or '') .. page .. head
        else
          is_written[at] = true
        end
        newest[at] = value .. page .. head
      end
    end
    local text = ARGV[argument + 5]
    rows[last - before] =
      pending_row(ARGV[argument + 1], sub(ARGV[argument], 9), text_end)
    texts[last - before] = text
    text_end = text_end + #text
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
end

if last > before then
  -- The first write is one that a server without memory refuses, before anything has changed.
  call('SET', KEYS[2], pack(COUNTERS, last, text_end, filled, overflow, gone))
  if SPAN > 0 and call('HEXISTS', KEYS[3], GENERATION) == 0 then
    call('HSET', KEYS[3], GENERATION, pack('<I6I6', before + 1, first_text))
  end
  for number = 1, TABLES do
    local hash, fields, n = KEYS[FIRST + number], {}, 0
    for at = starts[number] + 1, starts[number + 1] do
      local field = ARGV[FIELDS + at]
      if is_written[at] then
        local value = newest[at]
        if #value > EXACT then
          call('SET', hash .. field, value)
          value = ''
        end
        fields[n + 1], fields[n + 2] = field, value
        n = n + 2
      elseif appends[at] then
        call('APPEND', hash .. field, appends[at])
      end
    end
    if n > 0 then
      call('HSET', hash, unpack(fields))
    end
  end
  write_text(first_text, concat(texts))
  write_rows(before + 1, rows)
  call('HSET', LEASES, unpack(leases))
end
return { concat(answers), wides, beside }
