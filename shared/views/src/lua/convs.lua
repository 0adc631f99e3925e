-- A user's conversations and cursors; only when the user views of all partitions have a position (I9).
--   KEYS  convs, cursor, then the applied keys of all partitions
-- Returns {} when a position is missing, else {conversations as HGETALL, cursors as HGETALL}.
local applied = {}
for i = 3, #KEYS do applied[#applied + 1] = KEYS[i] end
if redis.call('EXISTS', unpack(applied)) < #applied then return {} end
return { redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]) }
