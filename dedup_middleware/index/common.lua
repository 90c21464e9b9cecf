-- Shared by all scripts; the constants above it come from redis_scripts.py.
-- KEYS[1] is the hash of leases: page number (5 bytes) -> token (8) .. end in ms (6).
-- ARGV[1] is the prefix of every key. Tokens and hashes stay strings: a Lua number is a double
-- and holds only 53 bits. Page numbers (40 bits) and milliseconds (41) fit.

local LEASES = KEYS[1]
local PREFIX = ARGV[1]

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The chunk that holds a page's row, and the row's first byte in it.
local function place(page)
  local number = struct.unpack('<I5', page)
  local row = number % ROWS
  return PREFIX .. 's' .. struct.pack('<I4', (number - row) / ROWS), row * ROW_SIZE
end

local function state_of(page)
  local chunk, offset = place(page)
  offset = offset + CONTENT_SIZE
  return string.byte(redis.call('GETRANGE', chunk, offset, offset))
end

local function set_state(page, state)
  local chunk, offset = place(page)
  -- A chunk that has expired must not come back as a string of zeros.
  if redis.call('EXISTS', chunk) == 1 then
    redis.call('SETRANGE', chunk, offset + CONTENT_SIZE, string.char(state))
  end
end

-- Ends a lease for good. HDEL goes first: it is allowed when memory is full, and after it so is
-- the write that follows.
local function finish(page, state)
  redis.call('HDEL', LEASES, page)
  set_state(page, state)
end

-- The token of a page's live lease. One that has run out is ended for good, so that a clock that
-- jumps back can't bring it to life after others have seen its end.
local function token_of(page, time)
  local lease = redis.call('HGET', LEASES, page)
  if not lease then
    return nil
  end
  if struct.unpack('<I6', lease, 9) <= time then
    finish(page, RELEASED)
    return nil
  end
  return string.sub(lease, 1, 8)
end

local function set_lease(page, token, milliseconds)
  local till = now() + tonumber(milliseconds)
  redis.call('HSET', LEASES, page, token .. struct.pack('<I6', till))
end
