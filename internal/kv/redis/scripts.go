package redis

import (
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawlhq/pawl/internal/kv"
)

// A mark is one key: "p" and its owner while it is in progress, "d", the
// server's time in milliseconds, a space and its owner when it is done. It
// expires by itself.
//
// The answer of every script is a row of numbers.

var markScript = rueidis.NewLuaScript(`
local mark = redis.call('GET', KEYS[1])
if not mark or mark == 'p' .. ARGV[1] then
  redis.call('SET', KEYS[1], 'p' .. ARGV[1], 'PX', ARGV[2])
  return {1, tonumber(ARGV[2]), 0}
end
local left = math.max(redis.call('PTTL', KEYS[1]), 0)
if string.sub(mark, 1, 1) == 'p' then
  return {2, left, 0}
end
local since = string.match(mark, '^d(%d+) ')
if not since then
  return redis.error_reply('ERR the key holds something else')
end
local now = redis.call('TIME')
return {3, left, now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(since)}
`)

var keepScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= 'p' .. ARGV[1] then
  return {0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1}
`)

var settleScript = rueidis.NewLuaScript(`
local mark = redis.call('GET', KEYS[1])
if mark and mark ~= 'p' .. ARGV[1] then
  if string.match(mark, '^d%d+ (.*)$') == ARGV[1] then
    return {1}
  end
  return {0}
end
local now = redis.call('TIME')
local since = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
redis.call('SET', KEYS[1], 'd' .. since .. ' ' .. ARGV[1], 'PX', ARGV[2])
return {1}
`)

var forgetScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) == 'p' .. ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return {1}
`)

// A slot is one key, a hash of its counters by number from 1. The arguments are
// the time to live, the most a total can be, and for each key how many counters
// there are and what is added to each. The answer is all totals in a row.
var addScript = rueidis.NewLuaScript(`
local at, totals = 3, {}
for _, key in ipairs(KEYS) do
  local changed = false
  for i = 1, tonumber(ARGV[at]) do
    local total
    if ARGV[at + i] == '0' then
      total = tonumber(redis.call('HGET', key, i) or 0)
    else
      changed = true
      total = redis.call('HINCRBY', key, i, ARGV[at + i])
      if total > tonumber(ARGV[2]) then
        total = tonumber(ARGV[2])
        redis.call('HSET', key, i, ARGV[2])
      end
    end
    totals[#totals + 1] = total
  end
  if changed then
    redis.call('PEXPIRE', key, ARGV[1])
  end
  at = at + 1 + tonumber(ARGV[at])
end
return totals
`)

// markKey is the key of a mark.
func (s *Store) markKey(key string) string { return s.prefix + "mark:" + kv.Short(key) }

// inTag keeps what stands between { and } whole: a cluster puts keys with the
// same text there on one node, which a script of several keys needs.
var inTag = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// slotKeys are the keys of a series' slots.
func (s *Store) slotKeys(series string, slots []kv.Slot) []string {
	front := s.prefix + "count:{" + inTag.Replace(kv.Short(series)) + "}:"
	keys := make([]string, len(slots))
	for i, slot := range slots {
		keys[i] = front + strconv.FormatInt(slot.Number, 10)
	}
	return keys
}

// addArgs are the arguments of addScript.
func addArgs(slots []kv.Slot, ttl string) []string {
	args := []string{ttl, strconv.FormatInt(kv.MaxTotal, 10)}
	for _, slot := range slots {
		args = append(args, strconv.Itoa(len(slot.Counts)))
		for _, n := range slot.Counts {
			args = append(args, strconv.FormatInt(n, 10))
		}
	}
	return args
}
