-- Notes a fork of a session, once. Notes are lines of JSON.
-- KEYS head   ARGV the note
local h = redis.call('HMGET', KEYS[1], 'owner', 'removed', 'forks')
if h[2] or not h[1] then return 0 end
local forks = h[3] or ''
if string.find('\n' .. forks .. '\n', '\n' .. ARGV[1] .. '\n', 1, true) then return 0 end
if forks ~= '' then forks = forks .. '\n' end
redis.call('HSET', KEYS[1], 'forks', forks .. ARGV[1])
return 1
