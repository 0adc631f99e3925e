-- Applies batches of log records to the views of this instance, each with its partition's position (R-SEQ-4, I5).
-- One section a (partition, family):
--   KEYS  applied key, then one key an operation
--   ARGV  'P', expected position, new position, number of operations; then each operation's code, number of values, and values
-- A section whose stored position is not the expected one changes nothing. An expected '*' is not checked and moves nothing
-- (for maxima that come from elsewhere: cursors, persisted seqs). No stored position counts as the log's start, '0:-1:0'. An expected
-- '!token' fills a view that has no position: with new = 'begin' the token becomes the one whose sections count, '' goes on, a position ends it.
-- Returns one string a section: 'ok', or the stored position ('' = none).
local k, a, answer = 1, 1, {}

local function max3(old, r, n, d)
  local or_, on, od = string.match(old, '^(%d+):(%d+):(%d+)$')
  if not or_ then return r .. ':' .. n .. ':' .. d end
  if tonumber(or_) > tonumber(r) then r, n = or_, on end
  if tonumber(od) > tonumber(d) then d = od end
  return r .. ':' .. n .. ':' .. d
end

-- code → function of the key and of where its values stand in ARGV
local run = {
  -- head, n, member count, history of new members ('' = as it was)
  H = function(key, i)
    redis.call('HSET', key, 'h', ARGV[i], 'n', ARGV[i + 1])
    if ARGV[i + 2] ~= '' then redis.call('HSET', key, 'c', ARGV[i + 2]) end
    if ARGV[i + 3] ~= '' then redis.call('HSET', key, 'y', ARGV[i + 3]) end
  end,
  -- first seq, last seq, then each seq of this range and its event
  E = function(key, i, j)
    redis.call('ZREMRANGEBYSCORE', key, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', key, unpack(ARGV, i + 2, j))
  end,
  -- life in ms, then each mid and its entry
  D = function(key, i, j)
    redis.call('HSET', key, unpack(ARGV, i + 1, j))
    redis.call('PEXPIRE', key, ARGV[i])
  end,
  S = function(key, i) redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end,
  L = function(key, i)
    local from = string.match(redis.call('HGET', key, ARGV[i]) or '0:0', '^(%d+):')
    redis.call('HSET', key, ARGV[i], from .. ':' .. ARGV[i + 1])
  end,
  M = function(key, i)
    local old = redis.call('HGET', key, 'p')
    if not old or tonumber(old) < tonumber(ARGV[i]) then redis.call('HSET', key, 'p', ARGV[i]) end
  end,
  W = function(key, i)
    local at = ARGV[i]
    local old = tonumber(string.match(redis.call('GET', key) or '', '^(%d+):') or '-1')
    if tonumber(string.match(at, '^(%d+):')) > old then redis.call('SET', key, at) end
  end,
  X = function(key) redis.call('UNLINK', key) end,
  T = function(key, i) redis.call('ZREMRANGEBYSCORE', key, '-inf', ARGV[i]) end,
  -- conversation, read seq, its n, delivered seq
  C = function(key, i)
    local old = redis.call('HGET', key, ARGV[i]) or ''
    redis.call('HSET', key, ARGV[i], max3(old, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]))
  end,
}

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
    if go then run[ARGV[a]](KEYS[k], a + 2, last) end
    k, a = k + 1, last + 1
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
