-- Claims the pages that are not blocked (see below), and returns the candidates of all.
-- KEYS: leases, counters, generations, then the hashes of all tables in the newest generation, then those of
-- the same tables in each older live generation.
-- ARGV (arguments are expensive, so there are few):
--   1 to 5: prefix, lease in ms, ms of a generation (0: it never ends), newest generation as the caller has
--     it, number of live generations
--   6: positions, among the tables, of those of the key and of the first band (a byte each, 0: neither is
--     used), of the first and the last one of anchors (0: none); number of buckets of each table (2 bytes)
--   7: fields of all buckets (2 bytes each), table by table, each once
--   8 to 10: of all pages the tokens (8 bytes each), the suffixes of their records, and the places of their
--     buckets among those of the table (2 bytes each)
--   11: for each page with known or wanted pages: its place among the pages (2 bytes), the id up to which all
--     pages are known to it (5), the numbers of its other known pages and of wanted ones (2 each); for each
--     known one its id (5), the last bytes of its content (KNOWN_TAIL) and '1' if it was released or gone
--     when it was judged, else '0'; for each wanted one its id
--   then 3 for each page: its row without the offset of its text; the sizes of its suffixes (a digit each;
--     PROBE more: the bucket is only read; TWIN more in the first: an exact copy settles the page) and the
--     table of each (a byte); its text
-- A page is blocked if a record of an unknown page matches in a table of band records; the rows and texts of
-- these pages are returned. A page with known pages is not blocked by pages that the same call claimed before
-- it: their rows come with its claim, and the caller judges them. Many pages of one template would otherwise
-- take a call each. SimHash buckets are returned as they were before the page was added, of a full one the
-- newest SHOWN bytes; the caller scans them, because Lua is slow at counting bits.
-- Returns the current generation if it is another one, else {answers, simhash buckets, neighbours}:
-- answers: 8 bytes for each page: page id (5 bytes, 0: not claimed), number of rows in "neighbours", number of
--   full buckets and 64 more if there are further candidates or 128 more if the row is that of an exact
--   copy, bytes behind the last whole records of its buckets (255: or more).
-- simhash buckets: those of all pages, of each bucket all generations.
-- neighbours: for each page that has rows a string of its matches, 6 bytes each: id of the other page, number
--   of the bucket key (0: the page was only wanted); then row and text of each of the other pages, in the
--   order of their first matches.
-- Redis's Lua hashes every byte of every string it makes, so strings are neither cut nor joined
-- without need.
local find, sub, byte, char = string.find, string.sub, string.byte, string.char
local pack, read, concat, call = struct.pack, struct.unpack, table.concat, redis.call
local KEYS, ARGV = KEYS, ARGV
local TOKENS, SUFFIXES, PLACES, KNOWN = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local LEASE, SPAN, GENERATION = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local GENERATIONS = tonumber(ARGV[5])
local FIRST, FIRST_ARGUMENT, ARGUMENTS = 3, 11, 3 -- keys and arguments before the rest, and of a page
local PROBE = 16 -- added to the sizes of places that are only read; they come last
local TWIN = 32 -- added to the first size
local NOT_CLAIMED = '\0\0\0\0\0'
local BAND_RECORD, SIMHASH_SUFFIX, SIMHASH_RECORD = 8, 6, 11 -- bytes of a record; behind its page id
-- A hash of few short values is a list that is searched from its start, which is slow with the leases of
-- some busy processes. One value of more than 64 bytes turns it into a table.
local LONG = string.rep('\0', 65)
local MOST, FEW = 64, 16 -- rows returned for a page; FEW once all pages of the call got MANY
local MANY = 512
local TWINS = 16 -- pages among which an exact copy is looked for
local COMMON = COMMON_ANCHOR * BAND_RECORD
local NEWEST = 2048 * BAND_RECORD -- bytes of a bucket that are searched if all records before them are known
local KNOWN_PAGE = 5 + KNOWN_TAIL + 1

local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local time = now()
local till = end_of(time, LEASE)
local generation = generation_of(time, SPAN, KEYS[3])
if SPAN > 0 and generation ~= GENERATION then
  return generation
end
local last, text_end, filled, overflow, gone = read(COUNTERS, counters)
local before, first_text = last, text_end

local TABLES = (#KEYS - FIRST) / GENERATIONS
local PAGES = (#ARGV - FIRST_ARGUMENT) / ARGUMENTS
local KEY, BAND, FIRST_ANCHOR, LAST_ANCHOR = byte(ARGV[6], 1, 4)
local counts = { read('<' .. string.rep('I2', TABLES), ARGV[6], 5) }
local fields_of, first_field = {}, 1 -- by table
for table = 1, TABLES do
  fields_of[table] = { read(string.rep('c2', counts[table]), ARGV[7], first_field) }
  first_field = first_field + 2 * counts[table]
end

-- Stored buckets by generation (newest first), table and place, each fetched once; those of the newest
-- generation grow by what the pages of this call add.
local held = {}
for generation = 1, GENERATIONS do
  held[generation] = {}
end
local newest = held[1]
local large = {} -- by table and place: newest buckets that are keys of their own, and what is added

-- Fetches the buckets of a table in all generations, or only the wanted ones if these are given.
local function fetch(table, wanted)
  local fields, count, places = fields_of[table], counts[table], nil
  if wanted then
    places, fields = {}, {}
    for place in pairs(wanted[table] or {}) do
      places[#places + 1], fields[#fields + 1] = place, fields_of[table][place]
    end
    count = #places
    if count == 0 then
      return
    end
  end
  for generation = 1, GENERATIONS do
    local hash = KEYS[FIRST + (generation - 1) * TABLES + table]
    local values = call('HMGET', hash, unpack(fields, 1, count))
    for i = 1, count do
      if values[i] == '' then -- a key of its own
        values[i] = call('GET', hash .. fields[i])
        if values[i] and generation == 1 then
          large[table] = large[table] or {}
          large[table][places and places[i] or i] = ''
        end
      end
    end
    if places then
      local all = {}
      for i = 1, count do
        all[places[i]] = values[i]
      end
      values = all
    end
    held[generation][table] = values
  end
end

-- Only the newest records of a full SimHash bucket are returned, which bounds the cost of a page crafted
-- into it. A copy hidden by this is found by the other tables, or stored once more.
local shown = {}
local function newest_of(value)
  if not shown[value] then
    shown[value] = sub(value, -SHOWN)
  end
  return shown[value]
end
local claimed, rows, texts, leases = {}, {}, {}, {}
local stored = {} -- fetched rows

-- Whether an anchor is ignored because too many pages share its suffix; for buckets of COMMON bytes or
-- more.
local function is_common(value, suffix)
  local pages, place = 0, find(value, suffix, 6, true)
  while place do
    if place % BAND_RECORD == 6 then
      pages = pages + 1
      if pages >= COMMON_ANCHOR then
        return true
      end
    end
    place = find(value, suffix, place + 1, true)
  end
  return false
end

-- The row of a page, and its address followed by its payload if it has any.
local function neighbour(page)
  local own = read('<I5', page) - before
  local row = rows[own]
  if row then -- claimed by this call, not written yet
    return row, texts[own]
  end
  row = stored[page] or row_of(page, time)
  stored[page] = row
  return row, text_of(row)
end

-- Parses once what most pages have in common: how their suffixes are read, which places get a record.
local shapes, only_probed = {}, false
local function shape_of(kind)
  local shape = shapes[kind]
  if not shape then
    local count = #kind / 2
    shape = { written = 0, bands = {}, simhashes = {}, mark = {}, count = count }
    shape.places, shape.tables = '<' .. string.rep('I2', count), { byte(kind, count + 1, -1) }
    local suffixes, at, starts = {}, 1, {}
    for i = 1, count do
      local size = byte(kind, i) - 48
      if size % TWIN < PROBE then
        shape.written = i
      else
        only_probed = true
      end
      size = size % PROBE
      shape.mark[i], suffixes[i] = char(i), 'c' .. size
      starts[i], at = at, at + size
      local alike = size == SIMHASH_SUFFIX and shape.simhashes or shape.bands
      alike[#alike + 1] = i
    end
    -- The first bucket of band records is that of the key, the second one that of a band.
    shape.suffixes, shape.bytes = '<' .. concat(suffixes), at - 1
    shape.twin = byte(kind, 1) - 48 >= TWIN and shape.bands[2]
    shape.band = starts[shape.twin]
    shapes[kind] = shape
  end
  return shape
end

-- For each page with known or wanted pages: the id up to which all are known, and where the rest is in KNOWN.
local upto_of, known_at, known_counts, wanted_counts = {}, {}, {}, {}
do
  local at = 1
  while at <= #KNOWN do
    local own, upto, count, wanted = read('<I2I5I2I2', KNOWN, at)
    at = at + 11
    upto_of[own], known_at[own], known_counts[own], wanted_counts[own] = upto, at, count, wanted
    at = at + count * KNOWN_PAGE + wanted * 5
  end
end

-- Offsets in KNOWN of the known pages of a page, by their ids.
local function known_of(own)
  local places, at = {}, known_at[own]
  for i = 0, known_counts[own] - 1 do
    local start = at + i * KNOWN_PAGE
    places[sub(KNOWN, start, start + 4)] = start + 5
  end
  return places
end

-- Whether a known page has not changed since it was judged: same content, or still gone. A server that lost
-- its last second of writes assigns ids twice.
local function is_as_judged(page, at)
  local id = read('<I5', page)
  if id > before and id <= last then -- claimed by this very call
    return false
  end
  local chunk, offset = place(page)
  offset = offset + CONTENT_SIZE
  local now = call('GETRANGE', chunk, offset - KNOWN_TAIL, offset + 3)
  local was_gone = byte(KNOWN, at + KNOWN_TAIL) == 49
  if #now < KNOWN_TAIL + 4 then
    return was_gone
  end
  if was_gone then
    local stamp = read('<I4', now, KNOWN_TAIL + 1)
    return stamp < FIRST_SECOND and not (stamp == PENDING and token_of(page, time))
  end
  return sub(now, 1, KNOWN_TAIL) == sub(KNOWN, at, at + KNOWN_TAIL - 1)
end

-- The oldest stored exact copy of a page, searched in the table of the first band. None if the caller might
-- choose another page, and so needs all tables: there is a page with the same key, or a copy on the same host
-- has another title.
local function twin(shape, first_place, first_suffix, content)
  local oldest
  local at = read('<I2', PLACES, 2 * (first_place + shape.twin) - 1)
  local suffix = sub(SUFFIXES, first_suffix + shape.band, first_suffix + shape.band + 2)
  for generation = 1, GENERATIONS do
    local value = held[generation][BAND][at]
    if value then
      local place, met = find(value, suffix, 6, true), 0
      if place and (#value % BAND_RECORD ~= 0 or #value > FULL_BUCKET) then
        return nil
      end
      while place do
        if place % BAND_RECORD == 6 then
          met = met + 1
          if met >= TWINS then
            return nil
          end
          local page = sub(value, place - 5, place - 1)
          local row = stored[page] or row_of(page, time)
          stored[page] = row
          if sub(row, EXACT_AT, EXACT_AT + 7) == sub(content, EXACT_AT, EXACT_AT + 7)
            and #row == ROW_SIZE and read('<I4', row, CONTENT_SIZE + 1) > RELEASED
            and sub(row, 1, HOST - 1) == sub(content, 1, HOST - 1)
            and sub(row, SIMHASH, SIMHASH + 7) == sub(content, SIMHASH, SIMHASH + 7)
            and sub(row, FIGURES, CONTENT_SIZE) == sub(content, FIGURES, CONTENT_SIZE) then
            if sub(row, HOST, HOST + 1) == sub(content, HOST, HOST + 1)
              and sub(row, TITLE, TITLE + 1) ~= sub(content, TITLE, TITLE + 1) then
              return nil
            end
            if not oldest or read('<I5', page) < read('<I5', oldest) then
              oldest = page
            end
          end
        end
        place = find(value, suffix, place + 1, true)
      end
    end
  end
  if oldest then
    at, suffix = read('<I2', PLACES, 2 * first_place + 1), sub(SUFFIXES, first_suffix + 1, first_suffix + 3)
    for generation = 1, GENERATIONS do
      local value = held[generation][KEY][at]
      if value and (find(value, suffix, 6, true) or #value % BAND_RECORD ~= 0 or #value > FULL_BUCKET) then
        return nil
      end
    end
  end
  return oldest
end

-- The tables that may settle pages are fetched first: settled pages need no others.
if KEY > 0 then
  fetch(KEY)
  fetch(BAND)
end
local shape_at, twins, suffixes_of, places_of, wanted = {}, {}, {}, {}, nil
local first_place, first_suffix = 0, 0 -- places and bytes of suffixes before those of a page
for i = 1, PAGES do
  local argument = FIRST_ARGUMENT + ARGUMENTS * (i - 1)
  local shape = shape_of(ARGV[argument + 2])
  local settled = shape.twin and not known_at[i] and twin(shape, first_place, first_suffix, ARGV[argument + 1])
  shape_at[i], twins[i] = shape, settled
  if settled then
    wanted = wanted or {}
    suffixes_of[i], places_of[i] = false, {}
  else
    suffixes_of[i] = { read(shape.suffixes, SUFFIXES, first_suffix + 1) }
    places_of[i] = { read(shape.places, PLACES, 2 * first_place + 1) }
  end
  first_place, first_suffix = first_place + shape.count, first_suffix + shape.bytes
end
if wanted then
  for own, places in ipairs(places_of) do
    for i = 1, #places - 1 do -- after the last one, where reading ended
      local table = shape_at[own].tables[i]
      wanted[table] = wanted[table] or {}
      wanted[table][places[i]] = true
    end
  end
end
for table = 1, TABLES do
  if KEY == 0 or table ~= KEY and table ~= BAND then
    fetch(table, wanted)
  end
end

-- For each place of a shape, the newest buckets of its table.
for _, shape in pairs(shapes) do
  shape.values = {}
  for i = 1, shape.count do
    shape.values[i] = newest[shape.tables[i]]
  end
end

local answers, simhash_buckets, neighbours = {}, {}, {}
local simhash_count, neighbour_count = 0, 0 -- lengths of the last two
local all_rows = 0
local met_at, seen_at = {}, {} -- of one page, reused for the next
for own = 1, PAGES do
  local shape, suffixes, places = shape_at[own], suffixes_of[own], places_of[own]
  local values_of, tables = shape.values, shape.tables
  local more, corrupt, full, hits, others, claimed_here, blocked = false, 0, 0, 0, 0, 0, false
  local first_simhash = simhash_count

  local settled = twins[own]
  local some = shape.simhashes
  for j = 1, settled and 0 or #some do
    local i = some[j]
    local at = places[i]
    local value, generation = values_of[i][at], 1
    while true do
      simhash_count = simhash_count + 1
      if value then
        local length = #value
        corrupt = corrupt + length % SIMHASH_RECORD
        if length > FULL_BUCKET then
          full = full + 1
          value = newest_of(value)
        end
      end
      simhash_buckets[simhash_count] = value or ''
      if generation == GENERATIONS then
        break
      end
      generation = generation + 1
      value = held[generation][tables[i]][at]
    end
  end

  some = shape.bands
  local page -- its id, if it is claimed
  local met_before, known -- whether each page that was met blocks; offsets of known ones in KNOWN
  local upto = upto_of[own]
  local limit = all_rows < MANY and MOST or FEW
  for j = 1, settled and 0 or #some do
    local i = some[j]
    local suffix, at = suffixes[i], places[i]
    local value, generation = values_of[i][at], 1
    while true do
      if value then
        local length, from = #value, 6
        corrupt = corrupt + length % BAND_RECORD
        if length > FULL_BUCKET then
          full = full + 1
        end
        if upto and upto > 0 and length > NEWEST then
          from = length - length % BAND_RECORD - NEWEST + 6
        end
        local common = length >= COMMON and tables[i] >= FIRST_ANCHOR and tables[i] <= LAST_ANCHOR
          and is_common(value, suffix)
        local place = not more and not common and find(value, suffix, from, true)
        while place do
          if place % BAND_RECORD == 6 then
            local other = sub(value, place - 5, place - 1)
            met_before = met_before or {}
            local blocks = met_before[other]
            if blocks == nil then
              blocks = true
              if upto then
                if upto > 0 and read('<I5', other) <= upto then
                  blocks = false
                  -- The reply of an earlier try of this call may have been lost.
                  if j == 1 and token_of(other, time) == sub(TOKENS, 8 * own - 7, 8 * own) then
                    page = other
                  end
                else
                  known = known or known_of(own)
                  blocks = not (known[other] and is_as_judged(other, known[other]))
                end
              end
              local is_new = blocks and read('<I5', other) > before
              if blocks and not is_new and others - claimed_here >= limit then
                more = true
                break
              end
              met_before[other] = blocks
              if blocks then
                blocked = blocked or not (is_new and upto)
                claimed_here = is_new and claimed_here + 1 or claimed_here
                others = others + 1
                seen_at[others] = other
              end
            end
            if blocks then
              met_at[hits + 1], met_at[hits + 2] = other, shape.mark[i]
              hits = hits + 2
            end
          end
          place = find(value, suffix, place + 1, true)
        end
      end
      if generation == GENERATIONS then
        break
      end
      generation = generation + 1
      value = held[generation][tables[i]][at]
    end
  end

  local row_count = 0
  if settled then
    for j = 1, #shape.simhashes * GENERATIONS do
      simhash_buckets[simhash_count + j] = ''
    end
    simhash_count = simhash_count + #shape.simhashes * GENERATIONS
    neighbours[neighbour_count + 1], row_count = settled .. shape.mark[shape.twin], 1
    neighbours[neighbour_count + 2], neighbours[neighbour_count + 3] = neighbour(settled)
    neighbour_count = neighbour_count + 3
  else
    local token = sub(TOKENS, 8 * own - 7, 8 * own)
    local start = neighbour_count + 1
    for j = 1, page and 0 or others do
      local other = seen_at[j]
      if read('<I5', other) <= before then
        local row = stored[other] or row_of(other, time)
        stored[other] = row
        if #row == ROW_SIZE and read('<I4', row, CONTENT_SIZE + 1) == PENDING
          and token_of(other, time) == token then
          page = other
          break
        end
      end
    end
    if page then
      -- Claimed by an earlier try of this call. Unknown pages before it were claimed by that try as well;
      -- later ones have to give way to it.
      local own_id, kept, kept_hits = read('<I5', page), 0, 0
      for j = 1, others do
        local other = seen_at[j]
        if read('<I5', other) < own_id then
          kept = kept + 1
          seen_at[kept] = other
        else
          met_before[other] = false
        end
      end
      for j = 1, hits, 2 do
        if met_before[met_at[j]] then
          met_at[kept_hits + 1], met_at[kept_hits + 2] = met_at[j], met_at[j + 1]
          kept_hits = kept_hits + 2
        end
      end
      hits, others, more = kept_hits, kept, false
    end
    for j = 1, others do
      local row, address = neighbour(seen_at[j])
      neighbours[start + 2 * row_count + 1], neighbours[start + 2 * row_count + 2] = row, address
      row_count = row_count + 1
    end
    local wanted = known_at[own] and known_at[own] + known_counts[own] * KNOWN_PAGE
    for j = 1, wanted_counts[own] or 0 do
      local other = sub(KNOWN, wanted + 5 * j - 5, wanted + 5 * j - 1)
      local row, address = neighbour(other)
      if not (met_before and met_before[other]) then
        met_at[hits + 1], met_at[hits + 2] = other, '\0'
        hits = hits + 2
        neighbours[start + 2 * row_count + 1], neighbours[start + 2 * row_count + 2] = row, address
        row_count = row_count + 1
      end
    end
    if row_count > 0 then
      neighbours[start] = concat(met_at, '', 1, hits)
      neighbour_count = start + 2 * row_count
      all_rows = all_rows + row_count - claimed_here
    end
  end
  if not settled and not page and not blocked and not more then
    -- The offset of a text has as many bits as a page id.
    if last >= LAST_PAGE_ID or text_end > LAST_PAGE_ID then
      return redis.error_reply('FULL no page id is left, or no room for texts')
    end
    last = last + 1
    page = pack('<I5', last)
    for i = 1, shape.written do
      local values, at, suffix = values_of[i], places[i], suffixes[i]
      local value = values[at]
      local odd = value and #value % (5 + #suffix) or 0
      if odd > 0 then -- records after such bytes could not be read: rewrite the bucket
        value = sub(value, 1, #value - odd)
        if large[tables[i]] then
          large[tables[i]][at] = nil
        end
      end
      local table = tables[i]
      if value and #value >= COMMON and table >= FIRST_ANCHOR and table <= LAST_ANCHOR
        and is_common(value, suffix) then
        -- no more pages are added
      elseif not value then
        filled = filled + 1
        values[at] = page .. suffix
      elseif #value <= EXACT then
        values[at] = value .. page .. suffix
      else
        local grown = large[tables[i]]
        if #value + 5 + #suffix > BUCKET_LIMIT then
          overflow = overflow + 1
        else
          if grown and grown[at] then
            grown[at] = grown[at] .. page .. suffix
          end
          values[at] = value .. page .. suffix
        end
      end
    end
    claimed[own] = true
    local claims, argument = last - before, FIRST_ARGUMENT + ARGUMENTS * (own - 1)
    local text = ARGV[argument + 3]
    rows[claims], texts[claims] = claimed_row(ARGV[argument + 1], text_end), text
    text_end = text_end + #text
    leases[2 * claims - 1] = page
    leases[2 * claims] = sub(TOKENS, 8 * own - 7, 8 * own) .. till
  end
  if more then -- the caller reads the buckets
    for j = first_simhash + 1, simhash_count do
      simhash_buckets[j] = ''
    end
  end
  answers[own] = (page or NOT_CLAIMED)
    .. char(row_count, (full < 63 and full or 63) + (more and 64 or settled and 128 or 0),
      corrupt < 255 and corrupt or 255)
end

if last > before then
  if is_used(before + 1) or last > before + 1 and is_used(last) then
    return redis.error_reply(BEHIND)
  end
  -- A server without memory refuses the first write, before anything has changed. Records come last: if the
  -- user loses a right in between, no page finds the incomplete page.
  set_counters(KEYS[2], last, text_end, filled, overflow, gone)
  if SPAN > 0 and call('HEXISTS', KEYS[3], GENERATION) == 0 then
    call('HSET', KEYS[3], GENERATION, pack('<I6I6', before + 1, first_text))
  end
  write_text(first_text, concat(texts))
  write_rows(before + 1, rows)
  call('HSET', LEASES, '', LONG, unpack(leases))
  call('HDEL', LEASES, '')
  -- The buckets to write, by table and place; nil: all.
  local written = (last - before < PAGES or only_probed) and {} or nil
  for own = 1, written and PAGES or 0 do
    local shape, places = shape_at[own], places_of[own]
    for i = 1, claimed[own] and shape.written or 0 do
      local table = shape.tables[i]
      written[table] = written[table] or {}
      written[table][places[i]] = true
    end
  end
  local changes = {} -- of one table, reused for the next
  for table = 1, TABLES do
    local hash, fields, values, n = KEYS[FIRST + table], fields_of[table], newest[table], 0
    local some, grown = written and (written[table] or {}), large[table]
    for at = 1, counts[table] do
      if some and not some[at] then
        -- of pages that are not claimed
      elseif grown and grown[at] then
        if grown[at] ~= '' then
          call('APPEND', hash .. fields[at], grown[at])
        end
      else
        local value = values[at]
        if #value > EXACT then
          call('SET', hash .. fields[at], value)
          value = ''
        end
        changes[n + 1] = fields[at]
        n = n + 2
        changes[n] = value
      end
    end
    if n > 0 then
      call('HSET', hash, unpack(changes, 1, n))
    end
  end
end
return { concat(answers), simhash_buckets, neighbours }
