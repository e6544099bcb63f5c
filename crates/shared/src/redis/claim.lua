-- Claims a session: ownership::claim. Checks come first, because a script that fails half-way is not rolled back.
-- KEYS head lease log base next packed
-- ARGV node, nonce, last claim of the node or '', lease in ms, data directory, agent or '', '1' to create, how many sessions the
-- agent may have, highest epoch that the node has seen, who wrote which records as far as the node knows
local h = redis.call('HMGET', KEYS[1], 'owner', 'seq', 'at', 'claims', 'removed', 'agent', 'last')
-- One that was given back has only a last owner.
local owner, seq = h[1] or h[7], h[2] or '0'
if h[5] then
  if ARGV[7] ~= '1' then return {'removed'} end
  owner = false
end
local suffix = '.' .. ARGV[1] .. '.' .. ARGV[2]
local function repeated(claim) return string.sub(claim, -#suffix) == suffix end
local function next_after(claim)
  return (math.max(tonumber(string.match(claim or '0', '^%d+')), tonumber(ARGV[9])) + 1) .. suffix
end
local lease = redis.call('GET', KEYS[2])
if lease and lease ~= ARGV[3] and not repeated(lease) then return {'held', lease} end
if ARGV[7] == '1' and owner and seq ~= '0' and owner ~= ARGV[3] then return {'held', owner} end
local session = string.sub(KEYS[1], 5, -7)
local agent = ARGV[6] ~= '' and ARGV[6] or h[6]
local of_agent = agent and 'sk:agent:{' .. agent .. '}:sessions'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if of_agent and ARGV[7] == '1' then
  redis.call('ZREMRANGEBYSCORE', of_agent, '-inf', now)
  local used = redis.call('ZCARD', of_agent)
  if used >= tonumber(ARGV[8]) and not redis.call('ZSCORE', of_agent, session) then
    return {'full', tostring(used)}
  end
end
local kind, claim
if not owner then
  kind, claim, seq = 'new', ARGV[3], '0'
  if claim == '' then claim = next_after(h[1]) end
  redis.call('DEL', KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
  redis.call('HSET', KEYS[1], 'seq', '0', 'at', '')
  h[3] = ''
elseif repeated(owner) then
  kind, claim = 'taken', owner
elseif owner == ARGV[3] then
  kind, claim = 'kept', owner
else
  kind, claim = 'taken', next_after(owner)
end
if seq == '0' then
  h[4] = ARGV[10]
  redis.call('HSET', KEYS[1], 'claims', h[4])
end
redis.call('SET', KEYS[2], claim, 'PX', ARGV[4])
redis.call('HDEL', KEYS[1], 'free', 'last')
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'owner', claim, 'home', ARGV[1], 'data', ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'agent', ARGV[6]) end
if of_agent then redis.call('ZADD', of_agent, seq == '0' and now + ARGV[4] or '+inf', session) end
return {kind, claim, seq, h[3], h[4]}
