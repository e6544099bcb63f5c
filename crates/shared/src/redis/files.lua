-- Notes the newest checkpoint that all nodes can read, if the claim owns the session.
-- KEYS head   ARGV claim, the note
local h = redis.call('HMGET', KEYS[1], 'owner', 'removed')
if h[2] or h[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'files', ARGV[2])
return 1
