package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// Flags are what every benchmark can be told.
type Flags struct {
	// Bin is the folder with the contenders' binaries.
	Bin string
	// Rounds is how often each contender is measured.
	Rounds int
	only   string
}

// AddFlags declares the flags; Main fills them in.
func AddFlags() *Flags {
	f := new(Flags)
	flag.StringVar(&f.Bin, "bin", ".cache", "folder with the contenders' binaries")
	flag.IntVar(&f.Rounds, "rounds", 5, "rounds of each contender, interleaved")
	flag.IntVar(&again, "again", again, "how often a round that others disturbed is run again; 0 to only see it work")
	flag.StringVar(&f.only, "only", "", "only these, commas between")
	return f
}

// again is how often a round that others disturbed is run again: a machine that
// is still busy then will not be quiet soon.
var again = 3

// AddLength declares the flag for how long a measured stretch is.
func AddLength(length time.Duration) *time.Duration {
	return flag.Duration("length", length, "length of a measured stretch")
}

// Wants says whether the contender or work is to be measured.
func (f *Flags) Wants(name string) bool {
	return f.only == "" || strings.Contains(","+f.only+",", ","+name+",")
}

// Main parses the flags, runs the benchmark until it ends or is interrupted,
// and ends the program.
func Main(name string, run func(ctx context.Context) error) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench/%s: %v\n", name, err)
		os.Exit(1)
	}
}
