-- Reads buckets of one shard, and adds records to them.
-- KEYS: leases, counters, then of each group of tables its hashes of all generations, the oldest first.
-- ARGV: prefix, head, data: few arguments, since each one costs as much as a bucket. The head: number of
-- generations, place of the one that is written, 1: return what was found, 1: records are added, 1: places are
-- sent, 0: each item has a field of its own, in their order (a byte each); of each group (2 bytes each) the
-- number of items, of different fields, of items of SimHash tables, which come first, the first item of a table
-- of anchors, the last one. The data: the fields (3 bytes each), group by group; then of the items, group by
-- group, the place of their field among those of the group (2 bytes; READ more: the item is only read); then
-- their records, of a call that adds none suffixes alone.
-- Each item sees what the items before it have added. Returns a list, of each item with something to say:
-- its place (2 bytes), bytes behind its last whole records (1; 255: or more), number of full buckets (1), then
-- the records that match: of a SimHash table all, of a full bucket the newest; of others those with
-- the same suffix.
local FIRST = 2 -- keys before those of the buckets
local MOST = 2048 -- records that an item returns of a table other than those of SimHashes: of more the
-- first ones, and those among the last MOST of the bucket, where those are that have come since it was read
local NEWEST = 16 -- records among which that of an earlier try of this call may be
local SHORT = 1024 -- bytes up to which a bucket is copied for each record that is added
local READ = 32768
local STACK = 4000 -- arguments of a command
local GROUP = 10 -- bytes of a group
local HEAD, DATA = ARGV[2], ARGV[3]
local find, sub, call, rep = string.find, string.sub, redis.call, string.rep
local read, pack, unpack, min, max = struct.unpack, struct.pack, unpack, math.min, math.max
local GENERATIONS, WRITTEN, answers, adds, placed = read('BBBBB', HEAD)
local ANSWERS, WRITES, PLACED = answers == 1, adds == 1, placed == 1
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local overflow = 0
local found, count = {}, 0

-- Records with a suffix, one after the other, but for that of the page itself, and their number.
local function matching(value, suffix, own, place)
  local records, pages, is_cut = {}, 0, false
  while place do
    if place % 8 == 6 then
      local record = sub(value, place - 5, place + 2)
      if record ~= own then
        pages = pages + 1
        records[pages] = record
      end
    end
    local from = place + 1
    if pages >= MOST and not is_cut then
      is_cut = true
      from = max(from, #value - 8 * MOST + 1)
    end
    place = find(value, suffix, from, true)
  end
  return table.concat(records), pages
end

local field_at, place_at, item = 1, 1, 0
for at = 6, #HEAD, GROUP do
  local items, size = read('<I2I2', HEAD, at)
  place_at, item = place_at + 3 * size, item + items
end
local record_at = PLACED and place_at + 2 * item or place_at
item = 0
local NARROW, WIDE = WRITES and 'c8' or 'c3', WRITES and 'c11' or 'c6'
for group = 1, (#HEAD - 5) / GROUP do
  local items, size, wides, first_anchor, last_anchor = read('<I2I2I2I2I2', HEAD, GROUP * (group - 1) + 6)
  local fields = { read(rep('c3', size), DATA, field_at) }
  local places = PLACED and { read('<' .. rep('I2', items), DATA, place_at + 2 * item) }
  local sent = { read(rep(WIDE, wides) .. rep(NARROW, items - wides), DATA, record_at) }
  field_at, record_at = field_at + 3 * size, sent[items + 1]
  local held, hash = {}, FIRST + (group - 1) * GENERATIONS
  for generation = 1, GENERATIONS do
    held[generation] = call('HMGET', KEYS[hash + generation], unpack(fields, 1, size))
  end
  local newest, changed, changes = held[WRITTEN], {}, false
  -- Records added to a bucket that no item has read since: joined one by one, they would copy it each time.
  local added, sizes = {}, {}
  local function join(place)
    newest[place] = table.concat(added[place])
    added[place] = nil
  end
  for i = 1, items do
    local place, record = places and places[i] or i, sent[i]
    local wide, anchor, writes = i <= wides, i >= first_anchor and i <= last_anchor, WRITES
    if place >= READ then
      place, writes = place - READ, false
    end
    if added[place] and (ANSWERS or anchor) then
      join(place)
    end
    local data, odd, full, is_common = nil, 0, 0, false
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
          if at then
            local records, pages = matching(value, suffix, record, at)
            if anchor and pages >= COMMON_ANCHOR then
              is_common = is_common or generation == WRITTEN
            elseif pages > 0 then
              data = data and data .. records or records
            end
          end
        end
      end
    end
    if writes and not is_common then
      local value, some = newest[place], added[place]
      local length, width = value and #value or 0, #record
      if length == 0 and not some then
        newest[place], changed[place], changes = record, true, true
      elseif length < SHORT and length % width == 0 and not some then
        if not find(value, record, max(1, length - NEWEST * width + 1), true) then
          newest[place], changed[place], changes = value .. record, true, true
        end
      else
        value = value or ''
        local size = some and sizes[place] or length
        if size % width > 0 then -- no record behind such bytes could be read
          size = size - size % width
          length, value = size, sub(value, 1, size)
        end
        if size + width > BUCKET_LIMIT then
          overflow = overflow + 1
        elseif length == 0 or not find(value, record, max(1, length - NEWEST * width + 1), true) then
          if not some then
            some = { value }
            added[place] = some
          end
          some[#some + 1] = record
          sizes[place] = size + width
          changed[place], changes = true, true
        end
      end
    end
    if ANSWERS and (data or odd > 0 or full > 0) then
      found[count + 1] = pack('<I2BB', item + i - 1, min(odd, 255), full)
      found[count + 2] = data or ''
      count = count + 2
    end
  end
  item = item + items
  if changes then
    local writes, n = {}, 0
    for place in pairs(changed) do
      if added[place] then
        join(place)
      end
      writes[n + 1], writes[n + 2] = fields[place], newest[place]
      n = n + 2
    end
    for from = 1, n, STACK do
      call('HSET', KEYS[hash + WRITTEN], unpack(writes, from, min(n, from + STACK - 1)))
    end
  end
end
if overflow > 0 then
  local last_id, rows, buckets, left_out, gone = read(COUNTERS, counters)
  set_counters(KEYS[2], last_id, rows, buckets, left_out + overflow, gone)
end
return found
