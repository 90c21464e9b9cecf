-- Shared by all scripts but visit.lua; the constants above it come from scripts.py.
-- KEYS[1] is the hash of leases: page id (5 bytes) -> token (8) .. end in ms (6).
-- ARGV[1] is the prefix of every key, and behind it the epoch: 8 bytes drawn when the index was set up,
-- which are also behind its counters. Tokens and hashes stay strings: a Lua number is a double
-- and holds only 53 bits. Page ids (40 bits) and milliseconds (41) fit.

local LEASES = KEYS[1]
local PREFIX, EPOCH = string.sub(ARGV[1], 1, -9), string.sub(ARGV[1], -8)
local GONE = 'GONE the index is not the one that was opened'

-- The counters; nil if the server was emptied, or another index set up in this one's place: then
-- nothing is written before it is opened again.
local function own_counters(key)
  local counters = redis.call('GET', key)
  if counters and #counters == COUNTERS_SIZE + 8 and string.sub(counters, -8) == EPOCH then
    return counters
  end
end

local function set_counters(key, ...)
  redis.call('SET', key, struct.pack(COUNTERS, ...) .. EPOCH)
end
