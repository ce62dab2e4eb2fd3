// Command river is River on SQLite, in one process with its load: a peer for
// bench/jobs and bench/jobs-latency. Every commit is synchronised, as in pawl.
//
// It prints "begin" when the measured stretch begins, and "end" and the result
// when it is over; see bench/harness/self.go.
package main

import (
	"context"
	"database/sql"
	"encoding/json/v2"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"
)

type options struct {
	dir, mode            string
	callers, batch, rate int
	payload              int
	warm, length         time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", ".", "folder for the database")
	flag.StringVar(&o.mode, "mode", "create", "create, cycle or latency")
	flag.IntVar(&o.callers, "callers", 64, "callers at once")
	flag.IntVar(&o.batch, "batch", 1, "jobs of one insert; cycle only")
	flag.IntVar(&o.rate, "rate", 300, "jobs a second; latency only")
	flag.IntVar(&o.payload, "payload", 256, "bytes of a payload")
	flag.DurationVar(&o.warm, "warm", time.Second, "time before what is measured")
	flag.DurationVar(&o.length, "length", 5*time.Second, "time that is measured")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "peers/river:", err)
		os.Exit(1)
	}
}

// args are a job's payload.
type args struct {
	Text string `json:"text,omitempty"`
	At   int64  `json:"at,omitempty"` // Unix nanoseconds at which it was to be created
}

func (args) Kind() string { return "noop" }

// noop calls back with each job.
type noop struct {
	river.WorkerDefaults[args]
	work func(args)
}

func (n *noop) Work(_ context.Context, j *river.Job[args]) error {
	n.work(j.Args)
	return nil
}

func run(ctx context.Context, o options) error {
	// One connection: with more the driver's own goroutines shut each other out.
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(o.dir, "river.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	driver := riversqlite.New(pool)
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}

	r := &recorder{}
	worker := &noop{work: func(args) {}}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	config := &river.Config{Logger: quiet, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 200}}}
	switch o.mode {
	case "create":
		client, err := river.NewClient(driver, &river.Config{Logger: quiet})
		if err != nil {
			return err
		}
		return r.measure(ctx, o, func(ctx context.Context) { create(ctx, o, client, r) })
	case "cycle":
		// As eager as it can be told to be; its defaults wait 100 ms.
		config.FetchCooldown, config.FetchPollInterval = river.FetchCooldownMin, river.FetchPollIntervalMin
	case "latency":
		worker.work = func(a args) { r.took(time.Since(time.Unix(0, a.At))) }
	default:
		return fmt.Errorf("no mode %q", o.mode)
	}
	client, err := river.NewClient(driver, config)
	if err != nil {
		return err
	}
	window := make(chan struct{}, o.callers*o.batch)
	done, stop := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 1 << 20, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer stop()
	if err := client.Start(ctx); err != nil {
		return err
	}
	if o.mode == "latency" {
		err = r.measure(ctx, o, func(ctx context.Context) { pace(ctx, o, client, r) })
	} else {
		go func() {
			for range done { // a completion that is durable
				<-window
				r.took(0)
			}
		}()
		err = r.measure(ctx, o, func(ctx context.Context) { cycle(ctx, o, client, window, r) })
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return joined(err, client.StopAndCancel(ctx))
}

func joined(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// create inserts one job after the other and measures each.
func create(ctx context.Context, o options, client *river.Client[*sql.Tx], r *recorder) {
	a := args{Text: strings.Repeat("x", max(o.payload-len(`{"text":""}`), 0))}
	callers(o.callers, func(int) {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := client.Insert(ctx, a, nil); err != nil {
				r.fail(ctx, err)
				continue
			}
			r.took(time.Since(began))
		}
	})
}

// cycle inserts jobs as long as fewer than the window are not completed.
func cycle(ctx context.Context, o options, client *river.Client[*sql.Tx], window chan struct{}, r *recorder) {
	a := args{Text: strings.Repeat("x", max(o.payload-len(`{"text":""}`), 0))}
	many := make([]river.InsertManyParams, o.batch)
	for i := range many {
		many[i].Args = a
	}
	callers(o.callers, func(int) {
		for {
			for range o.batch {
				select {
				case window <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
			var err error
			if o.batch == 1 {
				_, err = client.Insert(ctx, a, nil)
			} else {
				_, err = client.InsertManyFast(ctx, many)
			}
			if err != nil {
				r.fail(ctx, err)
			}
		}
	})
}

// pace inserts jobs at a rate, however long each insert takes.
func pace(ctx context.Context, o options, client *river.Client[*sql.Tx], r *recorder) {
	began := time.Now()
	callers(32, func(n int) {
		for i := n; ctx.Err() == nil; i += 32 {
			at := began.Add(time.Duration(i) * time.Second / time.Duration(o.rate))
			select {
			case <-time.After(time.Until(at)):
			case <-ctx.Done():
				return
			}
			if _, err := client.Insert(ctx, args{At: at.UnixNano()}, nil); err != nil {
				r.fail(ctx, err)
			}
		}
	})
}

func callers(n int, call func(n int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
	}
	all.Wait()
}

// recorder keeps what happens in the measured stretch.
type recorder struct {
	mu        sync.Mutex
	on        bool
	failed    int64
	latencies []time.Duration
}

func (r *recorder) took(latency time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		r.latencies = append(r.latencies, latency)
	}
}

func (r *recorder) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	fmt.Fprintln(os.Stderr, "peers/river:", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
}

func (r *recorder) record(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = on
}

// measure runs the load, records after it is warm, and prints the result.
func (r *recorder) measure(ctx context.Context, o options, load func(ctx context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() { load(ctx); close(over) }()
	time.Sleep(o.warm)
	fmt.Println("begin")
	r.record(true)
	began := time.Now()
	time.Sleep(o.length)
	r.record(false)
	took := time.Since(began)
	result := struct {
		OK     int64 `json:"ok"`
		Failed int64 `json:"failed"`
		TookUS int64 `json:"took_us"`
		P50US  int64 `json:"p50_us"`
		P99US  int64 `json:"p99_us"`
	}{int64(len(r.latencies)), r.failed, took.Microseconds(), 0, 0}
	if n := len(r.latencies); n > 0 {
		slices.Sort(r.latencies)
		result.P50US, result.P99US = r.latencies[n/2].Microseconds(), r.latencies[n*99/100].Microseconds()
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	fmt.Printf("end %s\n", text)
	cancel()
	<-over
	return nil
}
