-- Gives up the lease, if the claim has it.
-- KEYS lease   ARGV claim
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
