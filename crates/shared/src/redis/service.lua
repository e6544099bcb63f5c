-- Counts a service of an agent until the lease ends. Returns nothing, or all services of the agent if it may have no more.
-- KEYS services of the agent   ARGV the service, how many others there may be, lease in ms
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return redis.call('ZRANGE', KEYS[1], 0, -1)
end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
return false
