-- A user's conversations and cursors; only when the user views of all partitions are as far as their owners have said (I9).
--   KEYS  convs, cursor, then the applied keys of all partitions      ARGV  the lowest offset of each of these
-- Returns {} when a position is missing or lower, else {conversations as HGETALL, cursors as HGETALL}.
local applied = {}
for i = 3, #KEYS do applied[#applied + 1] = KEYS[i] end
for i, position in ipairs(redis.call('MGET', unpack(applied))) do
  local offset = position and tonumber(string.match(position, '^(%d+):'))
  if not offset or offset < tonumber(ARGV[i]) then return {} end
end
return { redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]) }
