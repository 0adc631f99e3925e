-- Cold loads of an owner: conversations, some of their members, some client_mids, only from a view that is at or past the
-- highest position ever acknowledged to that owner (R-SEQ-9, I9).
-- One item:
--   KEYS  applied, head, members, then the slices of the dedupe window
--   ARGV  lowest offset that the view must have, number of slices, number of users, users …, mid ('' = none)
-- Returns per item {position, head, n, member count, history, persisted, mid entry, member …}, each '' when absent; an item of a view that
-- is not that far has only the position.
local k, a, answer = 1, 1, {}
while a <= #ARGV do
  local lowest, slices, users = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local mid = ARGV[a + 3 + users]
  local position = redis.call('GET', KEYS[k]) or ''
  local item = { position }
  local offset = tonumber(string.match(position, '^(%d+):') or '-1')
  if offset >= lowest then
    local head = redis.call('HMGET', KEYS[k + 1], 'h', 'n', 'c', 'y', 'p')
    for f = 1, 5 do item[1 + f] = head[f] or '' end
    item[7] = ''
    if mid ~= '' then
      for s = k + 3, k + 2 + slices do
        local entry = redis.call('HGET', KEYS[s], mid)
        if entry then item[7] = entry end
      end
    end
    for u = 1, users do item[7 + u] = redis.call('HGET', KEYS[k + 2], ARGV[a + 2 + u]) or '' end
  end
  answer[#answer + 1] = item
  k, a = k + 3 + slices, a + 4 + users
end
return answer
