-- Appends records, or only renews the lease if there are none: Append::decide. The head is written last.
-- KEYS head lease log
-- ARGV claim, lease in ms, number of the last record, its claim, number of the last new record, first number of this
-- claim, number of the first new record or of the first that it stands for, records…
local h = redis.call('HMGET', KEYS[1], 'owner', 'seq', 'at', 'claims', 'removed', 'forks', 'agent', 'last')
-- It was given back, and nobody has claimed it since.
local is_back = not h[1] and h[8] == ARGV[1]
if is_back then h[1] = h[8] end
if h[5] or h[1] ~= ARGV[1] then return {'fenced', h[1] or ''} end
local is_gap = tonumber(ARGV[7]) > tonumber(h[2]) + 1
if h[2] ~= ARGV[3] or h[3] ~= ARGV[4] or is_gap then return {'apart', h[1], h[2], h[3], h[4]} end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
if is_back then
  redis.call('HSET', KEYS[1], 'owner', ARGV[1])
  redis.call('HDEL', KEYS[1], 'last')
  redis.call('PERSIST', KEYS[1])
end
if #ARGV > 7 then
  redis.call('RPUSH', KEYS[3], unpack(ARGV, 8))
  if h[2] == '0' and h[7] then
    redis.call('ZADD', 'sk:agent:{' .. h[7] .. '}:sessions', '+inf', string.sub(KEYS[1], 5, -7))
  end
  local claims, entry = h[4], '=' .. ARGV[1]
  if string.sub(claims, -#entry) ~= entry then
    if claims ~= '' then claims = claims .. ' ' end
    claims = claims .. ARGV[6] .. entry
  end
  redis.call('HSET', KEYS[1], 'seq', ARGV[5], 'at', ARGV[1], 'claims', claims)
end
return {'ok', h[6] or ''}
