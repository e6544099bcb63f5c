-- Shortens a session's records. What was given the last time becomes the base, and the records that it covers go; but if some
-- of those that it does not cover are packed with the others, all of them stay until the next time. A call that is repeated,
-- because its answer was lost, changes nothing.
-- KEYS head log base next packed
-- ARGV claim, number of the last record, a record that begins the session there
local h = redis.call('HMGET', KEYS[1], 'owner', 'covers', 'removed', 'seq')
if h[3] or h[1] ~= ARGV[1] or h[4] ~= ARGV[2] then return 0 end
local given = redis.call('GET', KEYS[4])
if given == ARGV[3] then return 1 end
if h[2] and h[2] ~= '0' and given then
  redis.call('LTRIM', KEYS[2], h[2], -1)
  redis.call('RENAME', KEYS[4], KEYS[3])
  redis.call('DEL', KEYS[5])
  redis.call('HDEL', KEYS[1], 'packed')
end
redis.call('SET', KEYS[4], ARGV[3])
redis.call('HSET', KEYS[1], 'covers', redis.call('LLEN', KEYS[2]))
return 1
