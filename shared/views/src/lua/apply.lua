-- Applies batches of log records to the views of this instance, each with its partition's position (R-SEQ-4, I5).
-- One section a (partition, family):
--   KEYS  applied key, then one key an operation
--   ARGV  'P', expected position, new position, number of operations; then each operation's code and arguments
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

-- code → number of arguments behind it
local arity = { H = 4, E = 2, D = 3, S = 2, L = 2, M = 1, T = 1, C = 4, X = 0, W = 1 }
local run = {
  H = function(key, head, n, count, history)
    redis.call('HSET', key, 'h', head, 'n', n)
    if count ~= '' then redis.call('HSET', key, 'c', count) end
    if history ~= '' then redis.call('HSET', key, 'y', history) end
  end,
  E = function(key, seq, event)
    redis.call('ZREMRANGEBYSCORE', key, seq, seq)
    redis.call('ZADD', key, seq, event)
  end,
  D = function(key, mid, entry, ttl)
    redis.call('HSET', key, mid, entry)
    redis.call('PEXPIRE', key, ttl)
  end,
  S = function(key, field, value) redis.call('HSET', key, field, value) end,
  L = function(key, field, to)
    local from = string.match(redis.call('HGET', key, field) or '0:0', '^(%d+):')
    redis.call('HSET', key, field, from .. ':' .. to)
  end,
  M = function(key, seq)
    local old = redis.call('HGET', key, 'p')
    if not old or tonumber(old) < tonumber(seq) then redis.call('HSET', key, 'p', seq) end
  end,
  W = function(key, at)
    local old = tonumber(string.match(redis.call('GET', key) or '', '^(%d+):') or '-1')
    if tonumber(string.match(at, '^(%d+):')) > old then redis.call('SET', key, at) end
  end,
  X = function(key) redis.call('UNLINK', key) end,
  T = function(key, upto) redis.call('ZREMRANGEBYSCORE', key, '-inf', upto) end,
  C = function(key, field, r, n, d)
    redis.call('HSET', key, field, max3(redis.call('HGET', key, field) or '', r, n, d))
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
    local code = ARGV[a]
    local n = arity[code]
    if go then run[code](KEYS[k], unpack(ARGV, a + 1, a + n)) end
    k, a = k + 1, a + 1 + n
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
