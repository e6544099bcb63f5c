-- Removes a session, if the claim owns it. The head says for a while that it was removed, unless that is 0 ms.
-- KEYS head lease log base next packed   ARGV claim, how long in ms
local h = redis.call('HMGET', KEYS[1], 'owner', 'agent', 'last')
if (h[1] or h[3]) ~= ARGV[1] then return 0 end
if h[2] then redis.call('ZREM', 'sk:agent:{' .. h[2] .. '}:sessions', string.sub(KEYS[1], 5, -7)) end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
if ARGV[2] == '0' then return 1 end
redis.call('HSET', KEYS[1], 'removed', '1', 'owner', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
