package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// oneEndpoint is a configuration with one destination that gives up at once.
func oneEndpoint(ep *endpoint) string {
	return fmt.Sprintf(`
routes:
  - { name: all, from: [web], to: [ ep ] }
destinations:
  - name: ep
    type: http
    url: "%s{{env.PATH_WORD}}"
    auth: { bearer: { token: "{{env.OUT_TOKEN}}" } }
    timeout: 5s
    retry: { attempts: 1 }
    circuit_breaker: false
dead_letter: { type: file }
`, strings.TrimSuffix(ep.url(), "/")+"/")
}

// die makes n dead letters, with prefix in their keys.
func die(s *site, ep *endpoint, prefix string, n int) {
	s.Helper()
	ep.answers(func(string) int { return http.StatusBadRequest })
	defer ep.answers(nil)
	for i := range n {
		if a := send(s.url(), fmt.Sprintf("%s-%04d", prefix, i)); a.status != "dead_lettered" {
			s.Fatalf("answered %+v", a)
		}
	}
}

// TestKillReplay kills a replay at random moments: the running pawl in the one
// half of the rounds, the command that works by itself in the other. Each letter
// is open or arrived afterwards, and going on brings all of them home.
func TestKillReplay(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 0))
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	const n = 60
	for round := range 6 {
		prefix := fmt.Sprintf("r%d", round)
		p := s.start()
		die(s, ep, prefix, n)
		// A random moment from the first delivery on; the replay takes 150 ms.
		soon := func() {
			eventually(t, "the replay begins", func() bool { return ep.count() > round*n })
			<-time.After(time.Duration(random.Int64N(int64(120 * time.Millisecond))))
		}
		replay := exec.Command(binary, "dlq", "replay", "--all", "--rate", "400/s", "-c", s.path("pawl.yaml"))
		if round%2 == 0 {
			runner := s.launchCmd(replay)
			soon()
			p.kill()
			<-runner.done
		} else {
			p.stop()
			runner := s.launchCmd(replay)
			soon()
			runner.kill()
		}
		open := ids(s.letters())
		for i := range n {
			if key := fmt.Sprintf("%s-%04d", prefix, i); !open[key] && ep.got(key) == 0 {
				t.Errorf("round %d: %s is neither open nor delivered", round, key)
			}
		}
		t.Logf("round %d: %d letters were left", round, len(open))
		s.must(0, "dlq", "replay", "--all")
		if left := s.letters(); len(left) != 0 {
			t.Errorf("round %d: %d letters are left after going on", round, len(left))
		}
	}
	if ep.count() != 6*n {
		t.Errorf("%d messages arrived, want %d", ep.count(), 6*n)
	}
}

// TestKillPurge kills a purge: the old letters are each open or gone, and the
// young ones are all there.
func TestKillPurge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 0))
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	young := map[string]bool{}
	for round := range 6 {
		p := s.start()
		die(s, ep, fmt.Sprintf("old%d", round), 30)
		before := time.Now().Add(time.Millisecond).UTC().Format(time.RFC3339Nano)
		eventually(t, "a millisecond passes", func() bool { return time.Now().UTC().Format(time.RFC3339Nano) > before })
		die(s, ep, fmt.Sprintf("young%d", round), 5)
		for i := range 5 {
			young[fmt.Sprintf("young%d-%04d", round, i)] = true
		}
		purge := exec.Command(binary, "dlq", "purge", "--older-than", before, "-c", s.path("pawl.yaml"))
		if round%2 == 0 {
			runner := s.launchCmd(purge)
			<-time.After(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
			p.kill()
			<-runner.done
		} else {
			p.stop()
			runner := s.launchCmd(purge)
			<-time.After(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
			runner.kill()
		}
		open := ids(s.letters())
		for key := range young {
			// Those of earlier rounds are old by now.
			if strings.HasPrefix(key, fmt.Sprintf("young%d-", round)) && !open[key] {
				t.Errorf("round %d: %s is gone", round, key)
			}
		}
		s.must(0, "dlq", "purge", "--older-than", before)
		for key := range ids(s.letters()) {
			if !strings.HasPrefix(key, fmt.Sprintf("young%d-", round)) {
				t.Errorf("round %d: %s is still there", round, key)
			}
		}
	}
}

// newest returns the newest segment of a folder.
func newest(t *testing.T, folder string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*.ndjson"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no segment in %s: %v", folder, err)
	}
	return slices.Max(all)
}

// TestDamagedFiles plants what a crash or a bad disk leaves. No file stops a
// start, and only the damaged line is lost.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	cut := func(b []byte) []byte { return b[:len(b)-20] }
	for name, c := range map[string]struct {
		folder string
		damage func([]byte) []byte
		left   int // of 4 letters, one of them replayed
	}{
		"a letter's torn tail": {"dead", cut, 2},
		"a garbled letter": {"dead", func(b []byte) []byte {
			lines := bytes.SplitAfter(b, []byte("\n"))
			lines[2] = append(bytes.Repeat([]byte{0xff, 0}, len(lines[2])/2), '\n')
			return bytes.Join(lines, nil)
		}, 2},
		"zeros at the end":       {"dead", func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 3},
		"half a line at end":     {"dead", func(b []byte) []byte { return append(b, `{"id":"x","sou`...) }, 3},
		"a foreign line":         {"dead", func(b []byte) []byte { return append(b, "hello\n"...) }, 3},
		"a mark's torn tail":     {"dead/marks", cut, 4},
		"a garbled mark":         {"dead/marks", func(b []byte) []byte { return bytes.Repeat([]byte{0}, len(b)) }, 4},
		"an empty file of marks": {"dead/marks", func([]byte) []byte { return nil }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			ep := newEndpoint(t)
			s.write(oneEndpoint(ep))
			p := s.start()
			die(s, ep, "m", 4)
			s.must(0, "dlq", "replay", "--id", "m-0000")
			p.kill()
			file := newest(t, s.path("state/"+c.folder))
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, c.damage(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p = s.start()
			if got := s.letters(); len(got) != c.left {
				t.Errorf("%d letters are left, want %d: %v", len(got), c.left, got)
			}
			// It goes on: a new letter is stored, and all come home.
			die(s, ep, "later", 1)
			s.must(0, "dlq", "replay", "--all")
			if got := s.letters(); len(got) != 0 {
				t.Errorf("after a replay %v is left", got)
			}
			p.stop()
			if got := s.letters(); len(got) != 0 {
				t.Errorf("after a restart %v is left", got)
			}
		})
	}
}

// TestDLQBesideAndWithout runs every dlq command beside a running pawl and
// without one: the results are the same.
func TestDLQBesideAndWithout(t *testing.T) {
	results := map[string][]string{}
	for _, way := range []string{"beside", "without"} {
		s := newSite(t)
		ep := newEndpoint(t)
		s.write(oneEndpoint(ep))
		p := s.start()
		die(s, ep, "m", 3)
		if way == "without" {
			p.stop()
		}
		all := s.letters()
		if len(all) != 3 || all[0].ID != "m-0000" || all[0].Reason != "delivery" || all[0].Destination != "ep" ||
			all[0].Route != "all" || all[0].Attempts != 1 || all[0].Error == "" || all[0].Replays != 0 {
			t.Errorf("%s: %+v", way, all)
		}
		note := func(r result) {
			text := fmt.Sprintf("exit %d\n%s\n%s", r.code, r.out, r.errOut)
			for _, l := range all { // ids and times are each run's own
				text = strings.ReplaceAll(text, l.Letter, "LETTER")
			}
			text = strings.ReplaceAll(text, ep.address, "ADDRESS")
			results[way] = append(results[way], masked(text))
		}
		note(s.run("dlq", "list"))
		note(s.run("dlq", "list", "--since", "1h", "--reason", "delivery", "--destination", "ep", "--json"))
		note(s.run("dlq", "list", "--reason", "schema"))
		note(s.run("dlq", "list", "--reason", "nonsense"))
		note(s.run("dlq", "inspect", "m-0001"))
		note(s.run("dlq", "inspect", all[1].Letter, "--json"))
		note(s.run("dlq", "inspect", "nosuch"))
		note(s.run("dlq", "replay", "--all", "--dry-run"))
		note(s.run("dlq", "replay"))
		note(s.run("dlq", "replay", "--id", "m-0000", "--to", "nosuch"))
		note(s.run("dlq", "replay", "--id", "m-0000", "--json"))
		ep.answers(func(string) int { return http.StatusBadRequest })
		note(s.run("dlq", "replay", "--id", "m-0001"))
		again := s.letters("--destination", "ep")
		if len(again) != 2 || again[1].ID != "m-0001" || again[1].Replays != 1 {
			t.Errorf("%s: after a replay that failed again: %+v", way, again)
		}
		ep.answers(nil)
		note(s.run("dlq", "replay", "--all"))
		note(s.run("dlq", "purge", "--older-than", "0s"))
		note(s.run("dlq", "purge"))
		note(s.run("dlq", "list"))
	}
	for i, beside := range results["beside"] {
		if without := results["without"][i]; beside != without {
			t.Errorf("command %d beside a running pawl:\n%s\nand without:\n%s", i, beside, without)
		}
	}
	for i, want := range []int{0, 0, 0, 2, 0, 0, 1, 0, 2, 2, 0, 1, 0, 0, 2, 0} {
		if got := results["without"][i]; !strings.HasPrefix(got, fmt.Sprintf("exit %d\n", want)) {
			t.Errorf("command %d: want exit %d:\n%s", i, want, got)
		}
	}
}

// TestInterruptReplay: Ctrl-C ends a replay in order, beside a running pawl and
// without one. It says what is left, and the rest can be brought home later.
func TestInterruptReplay(t *testing.T) {
	for _, way := range []string{"beside", "without"} {
		t.Run(way, func(t *testing.T) {
			s := newSite(t)
			ep := newEndpoint(t)
			s.write(oneEndpoint(ep))
			p := s.start()
			die(s, ep, "m", 10)
			if way == "without" {
				p.stop()
			}
			replay := s.launchCmd(exec.Command(binary, "dlq", "replay", "--all", "--rate", "5/s", "-c", s.path("pawl.yaml")))
			// At the third, the first two have been told of.
			eventually(t, "it goes on", func() bool { return ep.count() > 2 })
			replay.signal(os.Interrupt)
			if code := replay.wait(); code != 1 {
				t.Errorf("exit %d", code)
			}
			has(t, replay.out.String(), "10 letters: ", " left\ninterrupted; run the command again")
			open := len(s.letters())
			if open == 0 || open+ep.count() < 10 {
				t.Errorf("%d are left, %d arrived", open, ep.count())
			}
			s.must(0, "dlq", "replay", "--all")
			if len(s.letters()) != 0 || ep.count() != 10 {
				t.Errorf("%d arrived in the end", ep.count())
			}
		})
	}
}
