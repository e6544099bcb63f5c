-- Gives up the lease, if the claim has it.
-- KEYS lease head   ARGV claim, '1' for good
if ARGV[2] == '1' and redis.call('HGET', KEYS[2], 'owner') == ARGV[1] then redis.call('HSET', KEYS[2], 'free', '1') end
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
