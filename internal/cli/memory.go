package cli

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	// gcPercent lets the heap grow to five times what lives before it is
	// collected: a relay's live heap is a few MiB, so that costs little memory
	// and saves about a tenth of the CPU of a message.
	gcPercent = 400
	// memoryShare is how much of the memory there is may be used before the
	// collector works harder, whatever gcPercent says.
	memoryShare = 0.7
)

// tuneMemory sets the garbage collector for a relay, unless the environment
// (GOGC, GOMEMLIMIT) says otherwise.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if all := memory(); os.Getenv("GOMEMLIMIT") == "" && all > 0 {
		debug.SetMemoryLimit(int64(memoryShare * float64(all)))
	}
}

// memory returns the bytes that this process may use: its control group's
// limit, or what the machine has; 0 where neither is known.
func memory() int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err == nil {
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
			return n
		}
	}
	text, err = os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return parseMeminfo(text)
}

// parseMeminfo finds MemTotal, which is in KiB.
func parseMeminfo(text []byte) int64 {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte("MemTotal:")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}
