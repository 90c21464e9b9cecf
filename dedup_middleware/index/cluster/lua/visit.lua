-- Reads buckets of one shard, and adds records to them.
-- KEYS: leases, counters, then of each table the hashes of all generations, the oldest first.
-- ARGV: prefix, number of generations, place of the one that is written, '1': return what was found, '0':
-- not; then the items: the place of the table among those of KEYS (1 byte), kind (1 byte: the sum of WRITE,
-- WIDE and ANCHOR), field (2), page id (5), suffix (6), those of a table one after the other.
-- Each item sees what the items before it have added. Returns a list, of each item with something to say:
-- its place (2 bytes), bytes behind its last whole records (1; 255: or more), number of full buckets (1), then
-- the records that match: of a SimHash table all, of a full bucket the newest; of others those with
-- the same suffix.
local WRITE, WIDE, ANCHOR = 1, 2, 4
local FIRST, ITEM = 2, 15 -- keys before those of the buckets; bytes
local MOST = 2048 -- records that an item returns of a table other than those of SimHashes
local GENERATIONS, WRITTEN, ANSWERS = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local ITEMS = ARGV[5]
local find, sub, byte, char, call = string.find, string.sub, string.byte, string.char, redis.call
local read = struct.unpack
local counters = own_counters(KEYS[2])
if not counters then
  return redis.error_reply(GONE)
end
local filled, overflow = 0, 0
local found, count = {}, 0
local LARGEST = FULL_BUCKET

-- Records with a suffix, one after the other, but for those of the page itself, and their number.
local function matching(value, suffix, own)
  local records, pages, place = '', 0, find(value, suffix, 6, true)
  while place and pages < MOST do
    if place % 8 == 6 then
      local record = sub(value, place - 5, place + 2)
      if sub(record, 1, 5) ~= own then
        records, pages = records .. record, pages + 1
      end
    end
    place = find(value, suffix, place + 1, true)
  end
  return records, pages
end

local at = 1
while at <= #ITEMS do
  local group = byte(ITEMS, at)
  local stop, fields, places, size = at, {}, {}, 0
  while stop <= #ITEMS and byte(ITEMS, stop) == group do
    local field = sub(ITEMS, stop + 2, stop + 3)
    if not places[field] then
      size = size + 1
      fields[size], places[field] = field, size
    end
    stop = stop + ITEM
  end
  local held, hash = {}, FIRST + (group - 1) * GENERATIONS
  for generation = 1, GENERATIONS do
    held[generation] = call('HMGET', KEYS[hash + generation], unpack(fields))
  end
  local changed = {}
  while at < stop do
    local kind, field = byte(ITEMS, at + 1), sub(ITEMS, at + 2, at + 3)
    local writes, wide, anchor = kind % 2 == 1, kind % ANCHOR >= WIDE, kind >= ANCHOR
    local width = wide and 11 or 8
    local own, suffix = sub(ITEMS, at + 4, at + 8), sub(ITEMS, at + 9, at + (wide and 14 or 11))
    local place = places[field]
    local data, odd, full, is_common = '', 0, 0, false
    for generation = 1, GENERATIONS do
      local value = held[generation][place]
      if value then
        local length = #value
        odd = odd + length % width
        if length > LARGEST then
          full = full + 1
        end
        if wide then
          if ANSWERS then
            local kept = length - length % width
            data = data .. sub(value, length > LARGEST and kept - SHOWN + 1 or 1, kept)
          end
        elseif ANSWERS or anchor then
          local records, pages = matching(value, suffix, own)
          if anchor and pages >= COMMON_ANCHOR then
            is_common = is_common or generation == WRITTEN
          else
            data = data .. records
          end
        end
      end
    end
    if writes and not is_common then
      local value = held[WRITTEN][place]
      local length = value and #value or 0
      local record = own .. suffix
      if length % width > 0 then -- no record behind such bytes could be read
        length = length - length % width
        value = sub(value, 1, length)
      end
      if not value then
        filled = filled + 1
      end
      local again = value and find(value, record, 1, true)
      if length + width > BUCKET_LIMIT then
        overflow = overflow + 1
      elseif not again or again % width ~= 1 then -- not of an earlier try of this call
        held[WRITTEN][place] = (value or '') .. record
        changed[place] = true
      end
    end
    if ANSWERS and (data ~= '' or odd > 0 or full > 0) then
      found[count + 1] = struct.pack('<I2', (at - 1) / ITEM) .. char(odd < 255 and odd or 255, full)
      found[count + 2] = data
      count = count + 2
    end
    at = at + ITEM
  end
  local writes, n = {}, 0
  for place in pairs(changed) do
    writes[n + 1], writes[n + 2] = fields[place], held[WRITTEN][place]
    n = n + 2
  end
  if n > 0 then
    call('HSET', KEYS[hash + WRITTEN], unpack(writes))
  end
end
if filled > 0 or overflow > 0 then
  local last_id, rows, buckets, left_out, gone = read(COUNTERS, counters)
  set_counters(KEYS[2], last_id, rows, buckets + filled, left_out + overflow, gone)
end
return found
