-- Who used a client_mid first, over all conversations (R-SEQ-7).
--   KEYS  one key a client_mid      ARGV  life in ms, then one content hash a key
-- Returns one letter a key: N = new and now ours, S = known with the same content, O = known with other content.
local answer = {}
for i = 1, #KEYS do
  if redis.call('SET', KEYS[i], ARGV[i + 1], 'NX', 'PX', ARGV[1]) then
    answer[i] = 'N'
  else
    answer[i] = redis.call('GET', KEYS[i]) == ARGV[i + 1] and 'S' or 'O'
  end
end
return answer
