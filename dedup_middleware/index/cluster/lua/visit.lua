-- Reads buckets of one shard and adds records to them. The fixed cost of a call is paid for every shard and
-- batch, so there are few arguments and tables, and no functions.
-- KEYS: counters, then of each group of tables its hashes of all generations, the oldest first.
-- ARGV: prefix, head, data.
-- Head, a byte each: number of generations, position of the one that is written, 1: return what is found, 1: add
-- records, form of the data; then of each group (2 bytes each) the number of items, of distinct fields, of items
-- of SimHash tables, which come first, the first and the last item of a table of anchors.
-- Data, each part group by group. Form 0, each item has its own field, in their order: the fields (3 bytes each),
-- then the records of the items, or their suffixes alone if the call adds none. Form 1, items may share fields:
-- between the two the position of each item's field among those of its group (2 bytes; READ more: the item is
-- only read). Form 2, as form 0, but field and record of each item in turn: one generation, all items are added.
-- Each item finds the records that the items before it have added. Returns, for each item that finds records
-- or a damaged or full bucket: its position, from 0, as a number, but with such a bucket as a string: position
-- (2 bytes), bytes behind the last whole records (1; 255: or more), number of full buckets (1); then the records
-- found: of a SimHash table all, of a full bucket of it the newest; of other tables those with the same suffix.
local FIRST = 1 -- keys before those of the buckets
local MOST = 2048 -- matching records returned for an item, SimHash tables excepted. If there are more: the first
-- ones, and those among the last MOST of the bucket, where records are that came since it was read
local NEWEST = 16 -- last records, among which that of an earlier try of this call may be
local SHORT = 1024 -- up to this size a bucket is copied for each added record
local READ = 32768
local STACK = 4000 -- arguments of a command
local FEW = 8 * COMMON_ANCHOR -- in buckets of fewer bytes no anchor is common
local FLAGS, GROUP, NUMBERS = 5, 10, 5 -- bytes before those of the groups, bytes of a group, its numbers
local HEAD, DATA = ARGV[2], ARGV[3]
local find, sub, call, rep, read = string.find, string.sub, redis.call, string.rep, struct.unpack
-- See own_counters() and set_counters() in common.lua.
local EPOCH, GONE = sub(ARGV[1], -8), 'GONE the index is not the one that was opened'
-- Value of the field without a name in each hash. It identifies the index that the hash belongs to, and is so
-- long that Redis makes the hash a table: one of few short values is a list, searched from its start.
local MARK = EPOCH .. '.........................................................'
local counters -- read unless all hashes have the mark

local GROUPS = (#HEAD - FLAGS) / GROUP
local heads = { read('<BBBBB' .. rep('I2I2I2I2I2', GROUPS), HEAD) }
local GENERATIONS, WRITTEN, ANSWERS, WRITES = heads[1], heads[2], heads[3] == 1, heads[4] == 1
local NARROW, WIDE = WRITES and 'c8' or 'c3', WRITES and 'c11' or 'c6'
local PAIRS = heads[5] == 2
if not PAIRS then
  counters = call('GET', KEYS[1])
  if not counters or sub(counters, COUNTERS_SIZE + 1) ~= EPOCH then
    return redis.error_reply(GONE)
  end
end
local fields, places, records, data_at
if PAIRS then
  data_at = 1
else
  local count, size, form = 0, 0, ''
  for at = FLAGS, FLAGS + NUMBERS * (GROUPS - 1), NUMBERS do
    local items, wides = heads[at + 1], heads[at + 3]
    count, size = count + items, size + heads[at + 2]
    form = wides == 0 and form .. rep(NARROW, items) or form .. rep(WIDE, wides) .. rep(NARROW, items - wides)
  end
  fields = { read(rep('c3', size), DATA) }
  data_at = 3 * size + 1
  if heads[5] == 1 then
    places = { read('<' .. rep('I2', count), DATA, data_at) }
    data_at = data_at + 2 * count
  end
  records = { read(form, DATA, data_at) }
end
-- Tables are made at their final size, so that they are not reallocated as they grow.
local overflow, answers = 0, 0
local found = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }
local first_item, first_field = 0, 0 -- of a group, less 1
for group = 1, GROUPS do
  local at = FLAGS + NUMBERS * (group - 1)
  local last_item, last_field = first_item + heads[at + 1], first_field + heads[at + 2]
  local last_wide = first_item + heads[at + 3]
  local first_anchor, last_anchor = first_item + heads[at + 4], first_item + heads[at + 5]
  local hash = FIRST + (group - 1) * GENERATIONS
  local held, writes, n = {}, {}, 0
  local marks = WRITES and not PAIRS
  -- The items of a call with pairs that need care, each with its record: those whose bucket holds the same
  -- suffix, is long, or is damaged. The others are finished here.
  local left
  if PAIRS then
    local size, wides = last_item - first_item, heads[at + 3]
    writes = { read(rep('c3c11', wides) .. rep('c3c8', size - wides), DATA, data_at) }
    data_at, first_field = writes[2 * size + 1], 0
    fields = { unpack(writes, 1, size + 1) } -- made with room for the mark
    for i = 1, size do
      fields[i] = writes[2 * i - 1]
    end
    fields[size + 1] = ''
    local values = call('HMGET', KEYS[hash + 1], unpack(fields))
    held[1] = values
    if values[size + 1] ~= MARK then
      counters = counters or call('GET', KEYS[1])
      if not counters or sub(counters, COUNTERS_SIZE + 1) ~= EPOCH then
        return redis.error_reply(GONE)
      end
      marks = true
    end
    for i = 1, size do
      local made, value = writes[2 * i], values[i]
      if value then
        local length, record = #value, made
        made = nil
        if length >= FEW and (length >= SHORT or i >= heads[at + 4] and i <= heads[at + 5]) then
          made = nil
        elseif i > wides then
          if length % 8 == 0 and not find(value, sub(record, 6), 6, true) then
            made = value .. record
          end
        elseif length % 11 == 0 then
          made = find(value, record, 1, true) and value or value .. record
          if ANSWERS then
            found[answers + 1], found[answers + 2], answers = first_item + i - 1, value, answers + 2
          end
        end
        if not made then
          left = left or {}
          left[#left + 1] = i
          left[#left + 1] = record
        end
      end
      if made then
        writes[n + 1], writes[n + 2], n = fields[i], made, n + 2
      end
    end
  else
    for generation = 1, GENERATIONS do
      held[generation] = call('HMGET', KEYS[hash + generation], unpack(fields, first_field + 1, last_field))
    end
  end
  local newest = held[WRITTEN]
  -- For a bucket that is written, the place of its value in "writes".
  local written = places and {}
  -- Records added to a bucket that no item has read since; joining them one by one would copy it each time.
  local added, sizes
  for k = 1, left and #left / 2 or PAIRS and 0 or last_item - first_item do
    local i = first_item + (left and left[2 * k - 1] or k)
    local place, record, adds = i - first_item, left and left[2 * k] or records[i], WRITES
    if places then
      place = places[i]
      if place >= READ then
        place, adds = place - READ, false
      end
    end
    local wide, anchor = i <= last_wide, i >= first_anchor and i <= last_anchor
    if added and added[place] and (ANSWERS or anchor) then
      newest[place] = table.concat(added[place])
      writes[written[place]] = newest[place]
      added[place] = nil
    end
    local data, odd, full, is_common, is_new = nil, 0, 0, false, false
    for generation = 1, GENERATIONS do
      local value = held[generation][place]
      if value then
        local length = #value
        local left = length % (wide and 11 or 8)
        odd = odd + left
        if length > FULL_BUCKET then
          full = full + 1
        end
        if wide then
          if ANSWERS then
            if left > 0 or length > FULL_BUCKET then
              value = sub(value, length > FULL_BUCKET and length - left - SHOWN + 1 or 1, length - left)
            end
            data = data and data .. value or value
          end
        elseif ANSWERS or anchor then
          local suffix = WRITES and sub(record, 6) or record
          local at = find(value, suffix, 6, true)
          is_new = generation == WRITTEN and not at
          if at then
            -- The records with the suffix, except that of the page itself.
            local same, pages, is_cut = {}, 0, false
            while at do
              if at % 8 == 6 then
                local one = sub(value, at - 5, at + 2)
                if one ~= record then
                  pages = pages + 1
                  same[pages] = one
                end
              end
              local from = at + 1
              if pages >= MOST and not is_cut then
                is_cut = true
                from = math.max(from, length - 8 * MOST + 1)
              end
              at = find(value, suffix, from, true)
            end
            if anchor and pages >= COMMON_ANCHOR then
              is_common = is_common or generation == WRITTEN
            elseif pages > 0 then
              same = table.concat(same)
              data = data and data .. same or same
            end
          end
        end
      end
    end
    if adds and not is_common then
      local value, some = newest[place], added and added[place]
      local length, width = value and #value or 0, #record
      local made
      if length == 0 and not some then
        made = record
      elseif length < SHORT and length % width == 0 and not some then
        if is_new or not find(value, record, math.max(1, length - NEWEST * width + 1), true) then
          made = value .. record
        end
      else
        value = value or ''
        local bytes = some and sizes[place] or length
        if bytes % width > 0 then -- records after such bytes could not be read
          bytes = bytes - bytes % width
          length, value = bytes, sub(value, 1, bytes)
        end
        if bytes + width > BUCKET_LIMIT then
          overflow = overflow + 1
        elseif length == 0 or not find(value, record, math.max(1, length - NEWEST * width + 1), true) then
          if not places then
            made = value .. record
          else
            if not added then
              added, sizes = {}, {}
            end
            if not some then
              some = { value }
              added[place] = some
            end
            some[#some + 1] = record
            sizes[place] = bytes + width
            if not written[place] then
              writes[n + 1], n = fields[first_field + place], n + 2
              written[place] = n
            end
          end
        end
      end
      if made then
        if not written then
          writes[n + 1], writes[n + 2], n = fields[first_field + place], made, n + 2
        else
          newest[place] = made
          if not written[place] then
            writes[n + 1], n = fields[first_field + place], n + 2
            written[place] = n
          end
          writes[written[place]] = made
        end
      end
    end
    local is_odd = odd > 0 or full > 0
    if ANSWERS and (data or is_odd) then
      found[answers + 1] = is_odd and struct.pack('<I2BB', i - 1, math.min(odd, 255), full) or i - 1
      found[answers + 2] = data or ''
      answers = answers + 2
    end
  end
  if added then
    for place, some in pairs(added) do
      writes[written[place]] = table.concat(some)
    end
  end
  if marks and n > 0 then
    writes[n + 1], writes[n + 2], n = '', MARK, n + 2
  end
  for from = 1, n, STACK do
    call('HSET', KEYS[hash + WRITTEN], unpack(writes, from, math.min(n, from + STACK - 1)))
  end
  first_item, first_field = last_item, PAIRS and 0 or last_field
end
if overflow > 0 then
  -- Not read yet if all hashes have the mark, and they may be left over from an index that is gone.
  counters = counters or call('GET', KEYS[1])
  if not counters or sub(counters, COUNTERS_SIZE + 1) ~= EPOCH then
    return redis.error_reply(GONE)
  end
  local last_id, rows, buckets, left_out, gone = read(COUNTERS, counters)
  call('SET', KEYS[1], struct.pack(COUNTERS, last_id, rows, buckets, left_out + overflow, gone) .. EPOCH)
end
return found
