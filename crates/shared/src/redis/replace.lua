-- Replaces a session's records by packed ones, if the claim owns it and nothing was written since they were read.
-- KEYS head log base next packed   ARGV claim, number of the last record, the packed records
local h = redis.call('HMGET', KEYS[1], 'owner', 'seq', 'removed')
if h[3] or h[1] ~= ARGV[1] or h[2] ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[5], ARGV[3])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
redis.call('HSET', KEYS[1], 'packed', '1')
redis.call('HDEL', KEYS[1], 'covers')
return 1
