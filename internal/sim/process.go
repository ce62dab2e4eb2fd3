package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/http"
	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/relay"
	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/setting"
	"github.com/pawlhq/pawl/internal/settle"
)

const lettersDir = "/state/dead"

// process is one life of pawl, from a start to a stop or a power cut.
type process struct {
	w      *world
	of     *replica
	number int
	dead   atomic.Bool // the power is gone: nothing it does reaches anybody
	store  *deadletter.Files
	fleet  *deliver.Fleet
	relay  *relay.Relay
	source connector.Source
	cancel context.CancelFunc
	over   chan struct{} // closed when the source's Run is
	seen   *settle.Dedupe

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// start begins a life on what the last one left on the disk.
func (r *replica) start() (*process, error) {
	w := r.w
	w.lives++
	p := &process{w: w, of: r, number: w.lives, over: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	w.story.tell("", "pawl %d starts (life %d)", r.number, p.number)
	var err error
	p.store, err = deadletter.Open(lettersDir, deadletter.Options{
		FS: powered{r.disk, &p.dead}, Free: func(string) (uint64, error) { return 1 << 40, nil },
	})
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters: %w", err)
	}
	writer := deadletter.NewWriter(deadletter.WriterOptions{Primary: p.store, Events: p.happened, Rand: w.random, Retry: lettersRetry()})
	p.fleet = deliver.NewFleet(deliver.Options{Events: p.happened, Random: w.random})
	p.relay = relay.New(relay.Options{Name: "sim", Fleet: p.fleet, Letters: writer.Write, Events: p.happened})
	if err := p.configure(); err != nil {
		return nil, err
	}
	settings := http.SourceKind().New().(*http.SourceSettings)
	settings.Listen, settings.AckTimeout = r.address(), setting.Duration(w.plan.AckTimeout)
	if p.source, err = http.SourceKind().Open(settings, connector.Env{Name: "web", Listen: p.listen, Events: p.happened}); err != nil {
		return nil, err
	}
	h, err := p.relay.Handler("web")
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(p.over)
		if err := p.source.Run(ctx, h); err != nil {
			w.wrong("", "the source gave up: %v", err)
		}
	}()
	return p, nil
}

func lettersRetry() retry.Policy {
	policy := retry.Resolve()
	policy.Attempts = 3
	policy.Schedule = backoff.Schedule{Initial: 100 * time.Millisecond, Max: time.Second, Factor: 2, Jitter: backoff.Full}
	return policy
}

// configure puts the plan in force over fresh connections.
func (p *process) configure() error {
	if err := p.relay.MaySwap(); err != nil {
		p.w.story.tell("", "no reload: %v", err)
		return nil
	}
	kind := http.DestinationKinds()[0]
	var specs []deliver.Spec
	for _, d := range p.w.plan.Destinations {
		spec := p.spec(d)
		for i, m := range d.present(p.of.turn) {
			settings := kind.New().(*http.DestinationSettings)
			settings.URL = "http://" + m.Name + ".test/in"
			settings.BatchItems = http.ItemsEnvelope
			env := connector.Env{Name: m.Name, Dial: p.dial, Events: p.happened}
			if d.Group != nil && d.Group.Health != nil {
				env.HealthPath = readyPath
			}
			dest, err := kind.Open(settings, env)
			if err != nil {
				return err
			}
			at := deliver.Endpoint{EndpointName: m.Name, Connector: dest, Timeout: d.Timeout, Breaker: d.Breaker}
			if d.Group == nil {
				spec.Endpoint = at
				continue
			}
			spec.Group.Members = append(spec.Group.Members, deliver.Member{Endpoint: at, Weight: d.Group.turn(p.of.turn).Weights[i]})
		}
		specs = append(specs, spec)
	}
	set, err := p.fleet.Configure(specs)
	if err != nil {
		return err
	}
	var routes []*relay.Route
	for _, r := range p.w.plan.Routes {
		routes = append(routes, r.route(set, p.w.plan))
	}
	_, err = p.relay.Swap(relay.Config{
		Routes: map[string][]*relay.Route{"web": routes}, Destinations: set,
		Sources: []relay.SourceSpec{{Name: "web", MaxInFlight: p.w.plan.MaxInFlight, MaxInFlightBytes: 1 << 20, Dedupe: p.dedupe()}},
	})
	p.w.oracle.configured(p)
	return err
}

// dedupe drops messages with the words of one that was seen in this life, or by
// another that has the same store.
func (p *process) dedupe() *relay.Dedupe {
	if !p.w.plan.Dedupe {
		return nil
	}
	if p.seen == nil {
		o := settle.DedupeOptions{TTL: time.Hour, Scope: "web/"}
		if p.w.store != nil {
			o.Store = p.shared()
		}
		p.seen = settle.NewDedupe(o)
	}
	return &relay.Dedupe{Seen: p.seen, Key: func(_ context.Context, m *message.Message) (string, error) {
		_, name, err := parse(m.Body)
		return name, err
	}}
}

// shared is the store that the relays share.
func (p *process) shared() kv.Store { return kv.Retry(link{p.w.store, &p.dead}, kv.DefaultPolicy()) }

// present are the endpoints that a configuration has after a number of reloads.
func (d DestinationPlan) present(turn int) []MemberPlan {
	all := d.endpoints()
	if turn%2 == 1 && d.Group != nil && d.Group.Shrinks {
		return all[:len(all)-1]
	}
	return all
}

func (p *process) spec(d DestinationPlan) deliver.Spec {
	s := deliver.Spec{
		Name: d.Name, Retry: d.policy(), Deadline: d.Deadline,
		Workers: d.Workers, MaxPending: d.Places,
		RateLimit: d.Rate, RetryBudget: d.Budget, Batch: d.Batch,
	}
	if g := d.Group; g != nil {
		s.Group = &deliver.Group{Strategy: g.turn(p.of.turn).Strategy, Health: g.Health}
		if s.Hedge = g.Hedge; len(d.present(1)) < 2 {
			s.Hedge = nil
		}
	}
	if d.FailWhenOpen {
		s.WhenOpen = deliver.FailWhenOpen
	}
	for _, to := range d.Fallback {
		s.Fallback = append(s.Fallback, p.w.plan.Destinations[to].Name)
	}
	if d.SharedBudget {
		s.BudgetCounters = p.shared()
	}
	return s
}

// policy is how the destination retries.
func (d DestinationPlan) policy() retry.Policy {
	policy := retry.Resolve()
	policy.Attempts, policy.RespectRetryAfter = d.Attempts, d.RespectsRetryAfter
	policy.Schedule.Initial, policy.Schedule.Jitter = d.Backoff, d.Jitter
	return policy
}

func (r RoutePlan) route(set *deliver.Set, plan Plan) *relay.Route {
	var targets []relay.Target
	add := func(numbers []int, need relay.Requirement) {
		for _, n := range numbers {
			to, _ := set.Destination(plan.Destinations[n].Name)
			targets = append(targets, relay.Target{To: to, Required: need})
		}
	}
	add(r.Required, relay.Required)
	add(r.BestEffort, relay.BestEffort)
	return &relay.Route{
		Name: r.Name,
		Filter: func(_ context.Context, m *message.Message) (bool, error) {
			number, _, err := parse(m.Body)
			return r.takes(number), err
		},
		Choose: func(context.Context, *message.Message) ([]relay.Target, error) { return targets, nil },
	}
}

// stop ends the life as SIGTERM does.
func (p *process) stop(limit time.Duration) error {
	p.w.story.tell("", "pawl stops within %v (life %d)", limit, p.number)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p.cancel()
	err := p.relay.Stop(ctx)
	<-p.over
	time.Sleep(time.Millisecond) // what was told to end at this moment may do so
	p.w.empty(p)
	p.w.oracle.ended(p.number)
	p.fleet.Close()
	err = errors.Join(err, p.source.Close(), p.store.Close())
	p.w.story.tell("", "pawl has stopped (life %d): %v", p.number, err)
	return err
}

// cut takes the power away. What the process goes on doing reaches nobody; it
// is brought to its end beside the next life.
func (p *process) cut() {
	p.w.story.tell("", "the power is cut (life %d)", p.number)
	p.dead.Store(true)
	p.w.oracle.ended(p.number)
	p.mu.Lock()
	for c := range p.conns {
		if c, ok := c.(interface{ Reset() }); ok {
			c.Reset()
		}
	}
	p.mu.Unlock()
	_ = p.source.Close()
	p.of.disk.Crash(p.of.crash)
	p.w.ghosts.Go(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		p.cancel()
		_ = p.relay.Stop(gone) // a ghost's last words
		p.fleet.Close()
		<-p.over
		_ = p.store.Close()
	})
}

// happened takes the events of this life.
func (p *process) happened(e event.Event) {
	if !p.dead.Load() {
		p.w.story.happened(e)
		p.w.oracle.isolated(e)
		p.w.oracle.delivered(p, e)
	}
	p.w.oracle.take(p, e)
}

var errNoPower = errors.New("sim: the power is gone")

func (p *process) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if p.dead.Load() {
		return nil, errNoPower
	}
	c, err := p.w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return p.track(c)
}

func (p *process) listen(network, address string) (net.Listener, error) {
	l, err := p.w.network.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return tracked{l, p}, nil
}

// track remembers a connection, so that a power cut can break it.
func (p *process) track(c net.Conn) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Load() {
		_ = c.Close()
		return nil, errNoPower
	}
	p.conns[c] = struct{}{}
	return c, nil
}

type tracked struct {
	net.Listener
	p *process
}

func (t tracked) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return t.p.track(c)
}

// powered is the disk as one life sees it.
type powered struct {
	seglog.FS
	dead *atomic.Bool
}

func (f powered) OpenFile(name string, flag int, mode fs.FileMode) (seglog.File, error) {
	if f.dead.Load() {
		return nil, errNoPower
	}
	return f.FS.OpenFile(name, flag, mode)
}

func (f powered) Rename(from, to string) error {
	if f.dead.Load() {
		return errNoPower
	}
	return f.FS.Rename(from, to)
}

func (f powered) Remove(name string) error {
	if f.dead.Load() {
		return errNoPower
	}
	return f.FS.Remove(name)
}
