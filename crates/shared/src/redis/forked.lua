-- Removes notes of forks that the owner has recorded, if the claim owns the session.
-- KEYS head   ARGV claim, notes…
local h = redis.call('HMGET', KEYS[1], 'owner', 'removed', 'forks')
if h[2] or h[1] ~= ARGV[1] or not h[3] then return 0 end
local recorded, left = {}, {}
for i = 2, #ARGV do recorded[ARGV[i]] = true end
for note in string.gmatch(h[3], '[^\n]+') do
  if not recorded[note] then left[#left + 1] = note end
end
if #left == 0 then return redis.call('HDEL', KEYS[1], 'forks') end
redis.call('HSET', KEYS[1], 'forks', table.concat(left, '\n'))
return 1
