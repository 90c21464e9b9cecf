-- KEYS: leases, counters, committed, then chunks of satellites. ARGV: prefix, first stamp, stamp
-- behind the last one, then for each chunk which of its rows are meant: a byte for each, '1' or '0';
-- or '': all.
-- Committed pages among them with such a stamp read as released from now on; returns how many.
local FIRST, FIRST_ARGUMENT = 3, 3 -- keys and arguments before those of the chunks
local SINCE, UNTIL = tonumber(ARGV[2]), tonumber(ARGV[3])
local sub, byte, unpack_stamp = string.sub, string.byte, struct.unpack
local released = struct.pack('<I4', RELEASED)
local forgotten = 0
for i = 1, #KEYS - FIRST do
  local rows, marks = redis.call('GET', KEYS[FIRST + i]) or '', ARGV[FIRST_ARGUMENT + i]
  local every = marks == ''
  -- The string is put together anew: a write for each page would take ten times as long.
  local parts, n, done, row = {}, 0, 1, 0
  for at = CONTENT_SIZE + 1, #rows - ROW_SIZE + CONTENT_SIZE + 1, ROW_SIZE do
    row = row + 1
    if every or byte(marks, row) == 49 then
      local stamp = unpack_stamp('<I4', rows, at)
      if stamp > RELEASED and stamp >= SINCE and stamp < UNTIL then
        parts[n + 1] = sub(rows, done, at - 1)
        parts[n + 2] = released
        n = n + 2
        done = at + 4
      end
    end
  end
  if n > 0 then
    forgotten = forgotten + n / 2
    parts[n + 1] = sub(rows, done)
    redis.call('SET', KEYS[FIRST + i], table.concat(parts))
  end
end
if forgotten > 0 then
  redis.call('DECRBY', KEYS[3], forgotten)
end
return forgotten
