-- A page of the hot window with what decides who may see it, from one snapshot (R-PST-9, I9).
--   KEYS  applied, head, hot, members
--   ARGV  user ('' = no member asked for), from, to, limit, '1' = the newest ones of from…to, else the oldest, the
--         lowest offset that the view must have
-- Returns only the position when it is lower, there is none, or it is a marker '@instance' of a move; else {position, head, n, member count, history, persisted, member, lowest seq in the window, event …}; the strings are '' when absent.
local page = { redis.call('GET', KEYS[1]) or '' }
local offset = tonumber(string.match(page[1], '^(%d+):') or '-1')
if offset < tonumber(ARGV[6]) then return { page[1] } end
local head = redis.call('HMGET', KEYS[2], 'h', 'n', 'c', 'y', 'p')
for f = 1, 5 do page[1 + f] = head[f] or '' end
page[7] = ARGV[1] ~= '' and redis.call('HGET', KEYS[4], ARGV[1]) or ''
-- A list that ends at the head.
local h, length = tonumber(head[1] or '0'), redis.call('LLEN', KEYS[3])
local lowest = h - length + 1
page[8] = length > 0 and tostring(lowest) or ''
local from, to, limit = math.max(tonumber(ARGV[2]), lowest), math.min(tonumber(ARGV[3]), h), tonumber(ARGV[4])
if ARGV[5] == '1' then from = math.max(from, to - limit + 1) else to = math.min(to, from + limit - 1) end
if from <= to then
  local events = redis.call('LRANGE', KEYS[3], from - lowest, to - lowest)
  for i = 1, #events do page[8 + i] = events[i] end
end
return page
