package rules

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"go.yaml.in/yaml/v4"
)

const (
	rulesFile = "../../packaging/prometheus/pawl.rules.yaml"
	boardFile = "../../packaging/grafana/pawl.json"
	// step is how often pawl is scraped, and rules are looked at.
	step = 30 * time.Second
)

var promQL = parser.NewParser(parser.Options{})

type rule struct {
	Alert string         `yaml:"alert"`
	Expr  string         `yaml:"expr"`
	For   model.Duration `yaml:"for"`
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	text, err := os.ReadFile(rulesFile)
	if err == nil {
		err = yaml.Load(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// readBoard returns the expressions of the board's panels.
func readBoard(t *testing.T) (all []string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	text, err := os.ReadFile(boardFile)
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	return all
}

// curve is the value of a series at a time since the beginning.
type curve func(time.Duration) float64

// flat stays as it is.
func flat(v float64) curve { return func(time.Duration) float64 { return v } }

// rising grows by so much a minute.
func rising(perMinute float64) curve {
	return func(at time.Duration) float64 { return perMinute * at.Minutes() }
}

// at counts what happened at moments.
func at(moments ...time.Duration) curve {
	return func(now time.Duration) float64 {
		n := 0
		for _, m := range moments {
			if m <= now {
				n++
			}
		}
		return float64(n)
	}
}

// from is a curve that begins at another value than 0.
func from(v float64, c curve) curve { return func(now time.Duration) float64 { return v + c(now) } }

// world is series by how they are written.
type world map[string]curve

// series are those of the world that matchers take, over a span.
func (w world) series(t *testing.T, span time.Duration, matchers []*labels.Matcher) []storage.Series {
	t.Helper()
	var all []storage.Series
	for name, value := range w {
		metric, err := promQL.ParseMetric(name)
		if err != nil {
			t.Fatal(name, err)
		}
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(metric.Get(m.Name)) }) {
			var samples []chunks.Sample
			for now := time.Duration(0); now <= span; now += step {
				samples = append(samples, sample{at: now.Milliseconds(), value: value(now)})
			}
			all = append(all, storage.NewListSeries(metric, samples))
		}
	}
	return all
}

// sample is a plain number at a moment.
type sample struct {
	chunks.Sample // nil: nobody asks a number for what histograms have
	at            int64
	value         float64
}

func (s sample) T() int64                 { return s.at }
func (s sample) ST() int64                { return 0 }
func (s sample) F() float64               { return s.value }
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// set is some series in the shape that the engine asks for.
type set struct {
	storage.SeriesSet // an empty one
	left              []storage.Series
	now               storage.Series
}

func (s *set) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.now, s.left = s.left[0], s.left[1:]
	return true
}

func (s *set) At() storage.Series { return s.now }

// alerts reports whether a rule fires in a world some time within a span.
func (w world) alerts(t *testing.T, r rule, span time.Duration) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: promQL})
	data := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) {
		return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &set{SeriesSet: storage.EmptySeriesSet(), left: w.series(t, span, matchers)}
		}}, nil
	})
	q, err := engine.NewRangeQuery(context.Background(), data, nil, r.Expr, time.UnixMilli(0), time.UnixMilli(span.Milliseconds()), step)
	if err != nil {
		t.Fatal(r.Alert, err)
	}
	defer q.Close()
	matrix, err := q.Exec(context.Background()).Matrix()
	if err != nil {
		t.Fatal(r.Alert, err)
	}
	for _, s := range matrix {
		began, last := int64(-1), int64(-1)
		for _, p := range s.Floats {
			if last < 0 || p.T-last > step.Milliseconds() {
				began = p.T
			}
			if last = p.T; last-began >= time.Duration(r.For).Milliseconds() {
				return true
			}
		}
	}
	return false
}
