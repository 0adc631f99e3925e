-- Applies batches of log records to the views of this instance, each with its partition's position (R-SEQ-4, I5).
-- One section a (partition, family):
--   KEYS  applied key, then one key an operation, or two
--   ARGV  'P', expected position, new position, number of operations; then each operation's code, number of values, and values
-- A section whose stored position is not the expected one changes nothing. An expected '*' is not checked and moves nothing
-- (for maxima that come from elsewhere: cursors, persisted seqs). No stored position counts as the log's start, '0:-1:0'. An expected
-- '!token' fills a view that has no position: with new = 'begin' the token becomes the one whose sections count, '' goes on, a position ends it.
-- Returns one string a section: 'ok', or the stored position ('' = none).
local k, a, answer = 1, 1, {}

local form = '^(%d+):(%d+):(%d+)$'
local function max3(old, new)
  local or_, on, od = string.match(old, form)
  local r, n, d = string.match(new, form)
  if not or_ then return new end
  if tonumber(or_) > tonumber(r) then r, n = or_, on end
  if tonumber(od) > tonumber(d) then d = od end
  return r .. ':' .. n .. ':' .. d
end

-- code → function of where its keys and its values stand in KEYS and ARGV
local run = {
  -- keys: head, hot; head, n, member count, history of new members ('' = as it was; not the head), then the first event's seq and the events,
  -- if there are any. The hot window is a list that ends at the head, so its seqs follow from its length.
  E = function(key, i, j)
    local head, hot = KEYS[key], KEYS[key + 1]
    if j > i + 4 then
      -- Filled anew, a view may be ahead of the log that is read into it.
      local beyond = tonumber(redis.call('HGET', head, 'h') or '0') - tonumber(ARGV[i + 4]) + 1
      if beyond > 0 then redis.call('LTRIM', hot, 0, -beyond - 1) end
      if beyond < 0 then redis.call('UNLINK', hot) end
      redis.call('RPUSH', hot, unpack(ARGV, i + 5, j))
    elseif redis.call('HGET', head, 'h') ~= ARGV[i] then
      redis.call('UNLINK', hot)
    end
    if ARGV[i + 1] ~= '' then redis.call('HSET', head, 'h', ARGV[i], 'n', ARGV[i + 1])
    else redis.call('HSET', head, 'h', ARGV[i]) end
    if ARGV[i + 2] ~= '' then redis.call('HSET', head, 'c', ARGV[i + 2]) end
    if ARGV[i + 3] ~= '' then redis.call('HSET', head, 'y', ARGV[i + 3]) end
  end,
  -- life in ms, then each mid and its entry
  D = function(key, i, j)
    redis.call('HSET', KEYS[key], unpack(ARGV, i + 1, j))
    redis.call('PEXPIRE', KEYS[key], ARGV[i])
  end,
  S = function(key, i) redis.call('HSET', KEYS[key], ARGV[i], ARGV[i + 1]) end,
  L = function(key, i)
    local from = string.match(redis.call('HGET', KEYS[key], ARGV[i]) or '0:0', '^(%d+):')
    redis.call('HSET', KEYS[key], ARGV[i], from .. ':' .. ARGV[i + 1])
  end,
  -- keys: head, hot; persisted seq, the last seq that leaves the hot window
  M = function(key, i)
    local head, hot = KEYS[key], KEYS[key + 1]
    local of, trim = redis.call('HMGET', head, 'p', 'h'), tonumber(ARGV[i + 1])
    -- First, since Redis without memory decides at a script's first write: one that frees memory gets through.
    if trim > 0 then
      local before = tonumber(of[2] or '0') - redis.call('LLEN', hot)
      if trim > before then redis.call('LTRIM', hot, trim - before, -1) end
    end
    if tonumber(of[1] or '-1') < tonumber(ARGV[i]) then redis.call('HSET', head, 'p', ARGV[i]) end
  end,
  W = function(key, i)
    local at = ARGV[i]
    local old = tonumber(string.match(redis.call('GET', KEYS[key]) or '', '^(%d+):') or '-1')
    if tonumber(string.match(at, '^(%d+):')) > old then redis.call('SET', KEYS[key], at) end
  end,
  X = function(key) redis.call('UNLINK', KEYS[key]) end,
  -- conversation, 'read seq:its n:delivered seq'
  C = function(key, i)
    local old, new = redis.call('HGET', KEYS[key], ARGV[i]), ARGV[i + 1]
    redis.call('HSET', KEYS[key], ARGV[i], old and max3(old, new) or new)
  end,
}
local two = { E = true, M = true }

while a <= #ARGV do
  local applied, expected, new, count = KEYS[k], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3])
  k, a = k + 1, a + 4
  local stored = redis.call('GET', applied)
  local token = string.match(expected, '^!(.+)$')
  local by = applied .. ':by'
  local go = expected == '*' or stored == expected or (not stored and expected == '0:-1:0')
  if token then
    if not stored and new == 'begin' then redis.call('SET', by, token) end
    go = not stored and redis.call('GET', by) == token
  end
  for _ = 1, count do
    local last = a + 1 + tonumber(ARGV[a + 1])
    if go then run[ARGV[a]](k, a + 2, last) end
    k, a = k + (two[ARGV[a]] and 2 or 1), last + 1
  end
  if go then
    -- Last, so that a script that dies in its middle is run again from the same position.
    if token then
      if new ~= '' and new ~= 'begin' then
        redis.call('SET', applied, new)
        redis.call('DEL', by)
      end
    elseif expected ~= '*' then
      redis.call('SET', applied, new)
    end
    answer[#answer + 1] = 'ok'
  elseif stored == new then
    answer[#answer + 1] = 'ok'
  else
    answer[#answer + 1] = stored or ''
  end
end
return answer
