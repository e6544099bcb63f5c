-- Adds tokens, or replaces them. One that is revoked stays so. Each is '+' or, if it is revoked, '-', and then JSON.
-- KEYS tokens version   ARGV id, token, …
local changed = false
for i = 1, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[1], ARGV[i])
  local is_back = known and string.sub(known, 1, 1) == '-' and string.sub(ARGV[i + 1], 1, 1) == '+'
  if known ~= ARGV[i + 1] and not is_back then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    changed = true
  end
end
if changed then redis.call('INCR', KEYS[2]) end
return 1
