-- Gives up the lease, if the claim has it. The head of a session without records stays for a while, with nobody as its owner:
-- a build that knows of no expiry begins it anew then, and would keep the expiry otherwise.
-- KEYS lease head   ARGV claim, '1' for good, how long in ms
local h = redis.call('HMGET', KEYS[2], 'owner', 'seq')
if h[1] == ARGV[1] then
  if ARGV[2] == '1' then redis.call('HSET', KEYS[2], 'free', '1') end
  if h[2] == '0' then
    redis.call('HSET', KEYS[2], 'last', ARGV[1])
    redis.call('HDEL', KEYS[2], 'owner')
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
  end
end
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
