-- KEYS: leases, number of committed pages, chunks of the pages. ARGV: prefix; claims, each a page id
-- (5 bytes) and a token (8); only if pages are loaded: their stamps (4 bytes each).
-- Returns for each claim 1: committed; 2: committed before, so its token is gone; 0: the claim is gone.
local CLAIMS, STAMPS = ARGV[2], ARGV[3]
local time = now()
local answers, ours, claim_of, pages = {}, {}, {}, {}
for at = 1, #CLAIMS, 13 do
  pages[#pages + 1] = string.sub(CLAIMS, at, at + 4)
end
local leases = redis.call('HMGET', LEASES, unpack(pages))
for i = 1, #pages do
  local page = pages[i]
  local answer
  if claim_of[page] then -- twice in one call
    answer = 2
  else
    local token = live_token(page, leases[i], time)
    if token == string.sub(CLAIMS, 13 * i - 7, 13 * i) then
      ours[#ours + 1] = page
      claim_of[page] = i
      answer = 1
    else
      answer = not token and state_of(page) == COMMITTED and 2 or 0
    end
  end
  answers[i] = answer
end
if #ours > 0 then
  local committed = counted(KEYS[2]) + #ours
  -- Read everything before the first write: if a lease ended here without its page being committed, no
  -- copy would find the stored page.
  local known, chunk, there, prefix = nil, nil, false, PREFIX .. 's'
  local chunks, offsets, stamps, n = {}, {}, {}, 0
  local stamp = struct.pack('<I4', math.floor(time / 1000))
  for i = 1, #ours do
    local page_id = struct.unpack('<I5', ours[i])
    local row = page_id % ROWS
    local first = page_id - row
    if first ~= known then
      known, chunk = first, prefix .. struct.pack('<I4', first / ROWS)
      -- A chunk that has expired must not come back as a string of zeros.
      there = redis.call('EXISTS', chunk) == 1
    end
    if there then
      n = n + 1
      chunks[n], offsets[n] = chunk, row * ROW_SIZE + CONTENT_SIZE
      local at = 4 * claim_of[ours[i]]
      stamps[n] = STAMPS and string.sub(STAMPS, at - 3, at) or stamp
    end
  end
  if not (may('SETRANGE', chunk, 0, '') and may('SET', KEYS[2], '')) then
    return redis.error_reply(REFUSED)
  end
  -- HDEL goes first, see finish().
  redis.call('HDEL', LEASES, unpack(ours))
  for i = 1, n do
    redis.call('SETRANGE', chunks[i], offsets[i], stamps[i])
  end
  redis.call('SET', KEYS[2], string.format('%.0f', committed))
end
return answers
