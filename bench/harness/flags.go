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
	Bin    string
	Rounds int
	Length time.Duration
	only   string
}

// AddFlags declares the flags with their defaults; Main fills them in.
func AddFlags(rounds int, length time.Duration) *Flags {
	f := new(Flags)
	flag.StringVar(&f.Bin, "bin", ".cache", "folder with the contenders' binaries")
	flag.IntVar(&f.Rounds, "rounds", rounds, "rounds of each contender, interleaved")
	flag.DurationVar(&f.Length, "length", length, "length of a measured stretch")
	flag.StringVar(&f.only, "only", "", "only these, commas between")
	return f
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
